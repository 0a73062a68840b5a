// Package sched decides which frame leaves a port next.
//
// A port has eight queues, the traffic classes of IEEE 802.1Q, in up to sixteen priority groups.
// Each frame takes two decisions of the same kind: which group sends, and which queue in it. As in
// Enhanced Transmission Selection (802.1Qaz), each group, and each queue among those of its group,
// has one of two algorithms:
//
//   - strict: it goes before all that are not strict, and the highest number goes first;
//   - ETS: it shares what strict ones leave, by weight, in bytes on the wire, work-conserving, by
//     deficit round robin (M. Shreedhar, G. Varghese, "Efficient Fair Queueing Using Deficit Round
//     Robin", SIGCOMM 1995).
//
// Token buckets keep port, groups and queues to their rates on the wire. Queues that are paused
// (802.1Qbb) or wait for credit are skipped; both keep their deficits and their turns.
//
// A frame is the id of its buffer, and a queue is a linked list through an Arena. So queues need no
// memory of their own, and the cost of an operation does not depend on the number of frames.
package sched

import (
	"errors"
	"fmt"
)

// Scheduler is the egress side of one port. It belongs to the worker that owns the port, as does
// its Arena.
//
// Internally groups are renumbered: groups without queues are left out, the others keep their
// order. So there are at most eight, and one type serves both levels.
type Scheduler struct {
	arena   *Arena
	backlog uint8         // bit n is set while queue n has frames
	port    shaper        // of the port's rate
	groups  level         // the first decision: which group
	within  [Queues]level // the second, for each group: which of its queues

	// Placement; never changes.
	group    [Queues]uint8 // of each queue
	queuesOf [Queues]uint8 // by group: its queues
	groupsOf [256]uint8    // by set of queues: the groups that they are in

	overhead int // bytes on the wire beyond a frame's length; never changes
	queues   [Queues]Chain
	left     [Queues]uint64 // frames that have left each queue, including those of former schedulers
	limits   limits         // of groups and queues

	// Used at construction and by TakeOver.
	longest int   // bytes on the wire of the longest frame
	numbers []int // by group: its index in Params.Groups
}

// New returns an idle scheduler whose frames live in the arena.
func New(p Params, a *Arena) (*Scheduler, error) {
	if a == nil {
		return nil, errors.New("sched: no arena: make one with NewArena for all ports of the worker")
	}
	if len(p.Groups) == 0 {
		p.Groups = make([]GroupParams, 1)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("sched: %w", err)
	}
	s := &Scheduler{arena: a, overhead: p.Overhead, longest: p.MaxFrame + p.Overhead}
	s.place(&p)
	if err := s.shape(&p); err != nil {
		return nil, fmt.Errorf("sched: %w", err)
	}
	if err := s.weigh(&p); err != nil {
		return nil, fmt.Errorf("sched: %w", err)
	}
	return s, nil
}

// place numbers the groups that have queues, and assigns each queue to its group.
func (s *Scheduler) place(p *Params) {
	for number, g := range p.Groups {
		group := uint8(len(s.numbers) % Queues)
		for queue, q := range p.Queues {
			if q.Group != number {
				continue
			}
			s.group[queue] = group
			s.queuesOf[group] |= 1 << queue
			if q.TSA == StrictPriority {
				s.within[group].prefer(uint8(queue))
			}
		}
		if s.queuesOf[group] == 0 {
			continue
		}
		s.numbers = append(s.numbers, number)
		if g.TSA == StrictPriority {
			s.groups.prefer(group)
		}
	}
	for set := range s.groupsOf {
		for queue, group := range s.group {
			s.groupsOf[set] |= uint8(set>>queue&1) << group
		}
	}
}

// shape creates the token buckets.
func (s *Scheduler) shape(p *Params) (err error) {
	if s.port, err = newShaper(Shape{Rate: p.Rate, Burst: p.Burst}, p); err != nil {
		return fmt.Errorf("port: %w", err)
	}
	for group, number := range s.numbers {
		bucket, err := newShaper(p.Groups[number].Shape, p)
		if err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
		s.limits.add(s.queuesOf[group], bucket)
	}
	for queue, q := range p.Queues {
		bucket, err := newShaper(q.Shape, p)
		if err != nil {
			return fmt.Errorf("queue %d: %w", queue, err)
		}
		s.limits.add(1<<queue, bucket)
	}
	return nil
}

// weigh sets the weights of groups and queues.
func (s *Scheduler) weigh(p *Params) error {
	var groups, queues [Queues]int
	for group, number := range s.numbers {
		groups[group] = p.Groups[number].Weight
	}
	for i, q := range p.Queues {
		queues[i] = q.Weight
	}
	if err := s.groups.weigh(1<<len(s.numbers)-1, groups, s.longest); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	for group, number := range s.numbers {
		if err := s.within[group].weigh(s.queuesOf[group], queues, s.longest); err != nil {
			return fmt.Errorf("queues of group %d: %w", number, err)
		}
	}
	return nil
}

// TakeOver makes s continue with the frames of old's queues, in their order; s replaces old with
// other parameters. s must be new and have the same arena; old must not be used afterwards.
//
// Shapers that both have keep their credit. If only weights and rates differ, running and owed
// turns continue too, cut down to what the new weights allow; larger quanta take effect with the
// next turns. If groups or algorithms differ, a new round begins.
func (s *Scheduler) TakeOver(old *Scheduler) {
	s.port.takeOver(&old.port)
	s.limits.takeOver(&old.limits)
	s.queues, s.left = old.queues, old.left
	if s.sameMembers(old) {
		s.backlog = old.backlog
		s.groups.takeOver(&old.groups, s.longest)
		for i := range s.within {
			s.within[i].takeOver(&old.within[i], s.longest)
		}
		return
	}
	for queue := range s.queues {
		if s.queues[queue].frames > 0 {
			s.wake(uint8(queue))
		}
	}
}

// sameMembers reports whether both schedulers have the same members with the same algorithms.
func (s *Scheduler) sameMembers(old *Scheduler) bool {
	same := s.group == old.group && s.groups.strict == old.groups.strict
	for i := range s.within {
		same = same && s.within[i].strict == old.within[i].strict
	}
	return same
}

// Enqueue appends a frame of length bytes (without FCS) to a queue. The id must not be in any chain
// of the arena.
func (s *Scheduler) Enqueue(queue int, id uint32, length int) {
	q := &s.queues[queue]
	if q.frames == 0 {
		s.wake(uint8(queue))
	}
	s.arena.Append(q, id, length)
}

// EnqueueChain appends all frames of a chain to a queue, in constant time. The chain is empty
// afterwards.
func (s *Scheduler) EnqueueChain(queue int, c *Chain) {
	if c.frames == 0 {
		return
	}
	q := &s.queues[queue]
	if q.frames == 0 {
		s.wake(uint8(queue))
	}
	s.arena.join(q, c)
}

// wake makes a queue that had no frames take part, and its group if that had none.
func (s *Scheduler) wake(queue uint8) {
	group := s.group[queue%Queues] % Queues
	if s.backlog&s.queuesOf[group] == 0 {
		s.groups.join(group)
	}
	s.within[group].join(queue)
	s.backlog |= 1 << queue
}

// rest removes a queue that has no frames left, and its group if that has none.
func (s *Scheduler) rest(queue uint8) {
	s.backlog &^= 1 << queue
	group := s.group[queue%Queues] % Queues
	s.within[group].leave(queue)
	if s.backlog&s.queuesOf[group] == 0 {
		s.groups.leave(group)
	}
}

// Dequeue takes frames that may leave at time now (ns), in order, stores them in out and returns
// their number.
//
// It stops when out is full, when every queue that has frames is paused (bit n of paused: queue n)
// or waits for credit, when the port has no credit, or when the frames taken have used up budget:
// the bytes (lengths, without overhead) that the port may still put in flight. A frame may leave
// while any budget is left, so the last one may exceed it by less than its length.
//
//go:noinline
func (s *Scheduler) Dequeue(now int64, paused uint8, budget int, out []uint32) int {
	s.port.advance(now)
	shut := paused | s.limits.advance(now)
	n := 0
	for n < len(out) && budget > 0 && s.port.open() {
		ready := s.backlog &^ shut
		if ready == 0 {
			break
		}
		group := s.groups.turn(s.groupsOf[ready]) % Queues
		queue := s.within[group].turn(ready&s.queuesOf[group]) % Queues
		room := out[n:]
		shaped := s.limits.shaped>>queue&1 == 1
		if shaped {
			room = room[:1] // there may be no credit for a second one
		}
		frames, bytes := s.send(group, queue, budget, room)
		n += frames
		budget -= bytes
		if shaped {
			shut |= s.limits.spend(queue, bytes+frames*s.overhead)
		}
	}
	return n
}

// send takes frames from the queue whose turn it is, in the group whose turn it is: as many as
// Dequeue may take and both deficits cover. It ends the turns that are over. It may take none, if
// the rest of the group's turn is too small for the first frame of the queue.
func (s *Scheduler) send(group, queue uint8, budget int, out []uint32) (frames, bytes int) {
	within, q, links := &s.within[group%Queues], &s.queues[queue%Queues], s.arena.links
	deficit, credit := min(within.left(queue), s.groups.left(group)), s.port.left()
	id, sent := q.head, 0 // sent and next are in bytes on the wire
	next := int(links[id].length) + s.overhead
	for i := range out[:min(len(out), q.frames)] {
		if bytes >= budget || sent+next > deficit || sent >= credit {
			break
		}
		out[i] = id
		frames++
		bytes += next - s.overhead
		sent += next
		id = links[id].next // after the last frame this is any buffer, whose length is read but not used
		next = int(links[id].length) + s.overhead
	}
	s.port.spend(sent)
	q.head = id
	q.frames -= frames
	q.bytes -= bytes
	s.left[queue%Queues] += uint64(frames)
	if q.frames > 0 {
		within.spend(queue, sent, next)
		s.groups.spend(group, sent, next)
	} else {
		s.groups.spend(group, sent, 0)
		s.rest(queue)
	}
	return frames, bytes
}

// Spend charges the port's shaper for a frame of length bytes, a PFC frame, that was sent at time
// now ahead of all queues.
func (s *Scheduler) Spend(now int64, length int) {
	s.port.advance(now)
	s.port.spend(length + s.overhead)
}

// Drain takes up to len(out) frames from a queue, in order and regardless of pauses and shapers,
// and returns their number. It is for the frames of a port that is gone.
func (s *Scheduler) Drain(queue int, out []uint32) int {
	q := &s.queues[queue]
	n := min(len(out), q.frames)
	for i := range n {
		out[i] = s.arena.Pop(q)
	}
	s.left[queue] += uint64(n)
	if n > 0 && q.frames == 0 {
		s.rest(uint8(queue))
	}
	return n
}

// Frames returns how many frames wait in a queue.
func (s *Scheduler) Frames(queue int) int { return s.queues[queue].frames }

// Left returns how many frames have left a queue since the first of the schedulers that this one
// succeeds began.
func (s *Scheduler) Left(queue int) uint64 { return s.left[queue] }

// Bytes returns the sum of the lengths of the frames in a queue.
func (s *Scheduler) Bytes(queue int) int { return s.queues[queue].bytes }

// Backlogged returns the queues that have frames: bit n is queue n.
func (s *Scheduler) Backlogged() uint8 { return s.backlog }
