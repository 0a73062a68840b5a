// Package sched decides which frame leaves a port next.
//
// A port has eight queues, the traffic classes of IEEE 802.1Q. In the vocabulary of its Enhanced Transmission
// Selection (802.1Qaz) each has a transmission selection algorithm, and here it is one of two:
//
//   - strict: it goes before all that are not strict, and the highest number goes first;
//   - ETS: what strict queues leave is shared out by weight, in bytes, work-conserving, by deficit round robin
//     (M. Shreedhar, G. Varghese, "Efficient Fair Queueing Using Deficit Round Robin", SIGCOMM 1995).
//
// A token bucket keeps the port to its rate on the wire. Paused queues (802.1Qbb) are passed over.
//
// Frames are ids of buffers; a queue is a linked list through an Arena, so queues cost no memory of their own and
// every operation takes the same time however many frames wait.
package sched

import (
	"errors"
	"fmt"
	"math/bits"
)

// Queues is the number of queues of a port.
const Queues = 8

// maxFrameLimit is the longest frame that may be configured, in bytes.
const maxFrameLimit = 1<<16 - 1

// QueueParams says how one queue is served.
type QueueParams struct {
	Strict bool // before all queues that are not, and before strict queues of lower numbers
	// Weight is the queue's share relative to the other queues that are not strict. 0 counts as the smallest of
	// their weights, so that a frame in a queue without weight is served too. Ignored in a strict queue.
	Weight int
}

// Params is one port.
type Params struct {
	Rate     uint64 // bit/s on the wire; 0: unshaped
	Burst    int    // bytes on the wire that may leave at once after a silence; needed with a rate
	Overhead int    // bytes a frame takes on the wire beyond its length: 24 for FCS, preamble and gap
	MaxFrame int    // bytes; the longest frame, without FCS
	Queues   [Queues]QueueParams
}

// Scheduler is the egress side of one port. It belongs to the worker that owns the port, as does its Arena.
type Scheduler struct {
	arena   *Arena
	backlog uint8 // bit n is set while queue n has frames
	strict  uint8 // bit n is set for a strict queue n; never changes
	round   round // of the other queues
	shaper  shaper
	queues  [Queues]queue
}

// queue is one FIFO; head and tail mean something only while it has frames.
type queue struct {
	head, tail uint32 // buffer ids
	frames     int
	bytes      int
}

// New returns an idle scheduler whose frames live in the arena.
func New(p Params, a *Arena) (*Scheduler, error) {
	if a == nil {
		return nil, errors.New("sched: no arena: make one with NewArena for all ports of the worker")
	}
	if p.MaxFrame < 1 || p.MaxFrame > maxFrameLimit {
		return nil, fmt.Errorf("sched: longest frame %d B: must be 1 to %d, for example 1514", p.MaxFrame, maxFrameLimit)
	}
	s := &Scheduler{arena: a}
	var weights [Queues]int
	for i, q := range p.Queues {
		if q.Strict {
			s.strict |= 1 << i
		} else {
			weights[i] = q.Weight
		}
	}
	var err error
	if s.round, err = newRound(weights, p.MaxFrame); err != nil {
		return nil, fmt.Errorf("sched: %w", err)
	}
	if s.shaper, err = newShaper(p); err != nil {
		return nil, fmt.Errorf("sched: %w", err)
	}
	return s, nil
}

// Enqueue appends a frame of length bytes (without FCS) to a queue. The id must not be in any queue of the arena.
func (s *Scheduler) Enqueue(queue int, id uint32, length int) {
	s.arena.links[id].length = uint32(length)
	q := &s.queues[queue]
	if q.frames == 0 {
		q.head = id
		bit := uint8(1) << queue
		s.backlog |= bit
		if s.strict&bit == 0 {
			s.round.join(queue)
		}
	} else {
		s.arena.links[q.tail].next = id
	}
	q.tail = id
	q.frames++
	q.bytes += length
}

// Dequeue takes the frames that may leave at time now (ns), in order, and returns how many it stored into out.
//
// It stops when out is full, when no queue outside the mask paused has a frame, when the shaper has no credit, or
// when the frames taken have used up budget: the bytes (lengths, without overhead) that the port may still put in
// flight. A frame goes while any budget is left, so the last one may exceed it by less than its length.
func (s *Scheduler) Dequeue(now int64, paused uint8, budget int, out []uint32) int {
	s.shaper.advance(now)
	n := 0
	for n < len(out) && budget > 0 && s.shaper.open() {
		ready := s.backlog &^ paused
		if ready == 0 {
			break
		}
		id, length := s.take(s.next(ready))
		s.shaper.spend(length)
		budget -= length
		out[n] = id
		n++
	}
	return n
}

// next returns the queue that sends the next frame; ready, not empty, has those that may.
func (s *Scheduler) next(ready uint8) int {
	if strict := ready & s.strict; strict != 0 {
		return bits.Len8(strict) - 1
	}
	for {
		queue := s.round.turn(ready)
		if s.round.charge(queue, s.arena.Length(s.queues[queue].head)) {
			return queue
		}
	}
}

// take removes the first frame of a queue.
func (s *Scheduler) take(queue int) (id uint32, length int) {
	q := &s.queues[queue]
	id = q.head
	link := s.arena.links[id]
	length = int(link.length)
	q.head = link.next
	q.bytes -= length
	q.frames--
	if q.frames == 0 {
		bit := uint8(1) << queue
		s.backlog &^= bit
		if s.strict&bit == 0 {
			s.round.leave(queue)
		}
	}
	return id, length
}

// Spend accounts for a frame of length bytes that was sent at time now ahead of all queues, a PFC frame: the shaper
// makes up for it.
func (s *Scheduler) Spend(now int64, length int) {
	s.shaper.advance(now)
	s.shaper.spend(length)
}

// Drain takes up to len(out) frames out of a queue, in order, whatever is paused or shaped, and returns how many:
// what is to be done with the frames of a port that is gone.
func (s *Scheduler) Drain(queue int, out []uint32) int {
	n := 0
	for n < len(out) && s.queues[queue].frames > 0 {
		out[n], _ = s.take(queue)
		n++
	}
	return n
}

// Frames returns how many frames wait in a queue.
func (s *Scheduler) Frames(queue int) int { return s.queues[queue].frames }

// Bytes returns the lengths of the frames in a queue, added up.
func (s *Scheduler) Bytes(queue int) int { return s.queues[queue].bytes }

// Backlogged returns the queues that have frames: bit n is queue n.
func (s *Scheduler) Backlogged() uint8 { return s.backlog }
