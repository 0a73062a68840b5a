package sched

import (
	"flag"
	"math/rand/v2"
	"testing"
)

// seedFlag repeats a simulation: its log has the seed.
var seedFlag = flag.Uint64("seed", 0, "seed of the simulations; 0: another each time")

const (
	gigabit      = 1_000_000_000 // bit/s
	second       = 1_000_000_000 // ns
	pollInterval = 10_000        // ns between two polls of a simulated port
	wireOverhead = 24            // bytes
	saturated    = 1 << 40       // offered rate of a flow that always has frames
	manyFrames   = 200           // frames in a saturated queue: more than the port sends in a poll interval
)

// mixed are the lengths, without FCS, of frames of 64 to 9216 bytes.
var mixed = []int{60, 124, 252, 508, 1020, 1514, 4092, 9212}

// flow fills one queue; it counts in bytes on the wire.
type flow struct {
	rate    int64 // bit/s on the wire
	lengths []int // of its frames, in random order
	limit   int   // bytes that may wait in the queue; more is lost. 0: no limit
	due     int64 // bit*ns/s that were offered but have not arrived yet
	next    int   // length of the next frame

	sent, lost, peak int // peak is the most bytes that waited
}

// simulation is a port in virtual time, with a flow for each queue.
type simulation struct {
	*Scheduler
	now    int64
	poll   int64
	random *rand.Rand
	flows  [Queues]flow
	home   []int // queue of each buffer
	free   []uint32
	out    []uint32
	frames int
}

// port10G returns a port of 10 Gbit/s with these groups and queues; its burst is what a poll
// interval earns, plus one frame.
func port10G(groups []GroupParams, queues [Queues]QueueParams) Params {
	return Params{
		Rate: 10 * gigabit, Burst: 10*gigabit/8*pollInterval/second + 9236, Overhead: wireOverhead, MaxFrame: 9212,
		Groups: groups, Queues: queues,
	}
}

func newSimulation(t *testing.T, p Params) *simulation {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	const buffers = 1 << 14
	s := &simulation{
		Scheduler: newScheduler(t, p, NewArena(buffers)), poll: pollInterval,
		random: rand.New(rand.NewPCG(seed, 0)), home: make([]int, buffers), free: ids(buffers),
		out: make([]uint32, 256),
	}
	for i := range s.flows {
		s.flows[i].lengths = mixed
	}
	return s
}

// offer sets the traffic for each queue, in bit/s on the wire.
func (s *simulation) offer(rates map[int]int64) {
	for queue := range s.flows {
		s.flows[queue].rate = rates[queue]
	}
}

// arrive enqueues the frames of a poll interval.
func (s *simulation) arrive(queue int) {
	f := &s.flows[queue]
	if f.rate == saturated {
		for s.Frames(queue) < manyFrames {
			s.add(queue, f.lengths[s.random.IntN(len(f.lengths))])
		}
		return
	}
	for f.due += f.rate * s.poll; ; {
		if f.next == 0 {
			f.next = f.lengths[s.random.IntN(len(f.lengths))]
		}
		wire := f.next + wireOverhead
		if f.due < int64(wire)*creditPerByte {
			break
		}
		f.due -= int64(wire) * creditPerByte
		if f.limit > 0 && s.Bytes(queue)+f.next > f.limit {
			f.lost += wire
		} else {
			s.add(queue, f.next)
		}
		f.next = 0
	}
	f.peak = max(f.peak, s.Bytes(queue))
}

func (s *simulation) add(queue, length int) {
	id := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.home[id] = queue
	s.Enqueue(queue, id, length)
}

// step polls the port once. It returns the bytes on the wire that left.
func (s *simulation) step(paused uint8) (wire int) {
	for queue := range s.flows {
		s.arrive(queue)
	}
	n := s.Dequeue(s.now, paused, unlimited, s.out)
	for _, id := range s.out[:n] {
		bytes := s.arena.Length(id) + wireOverhead
		s.flows[s.home[id]].sent += bytes
		wire += bytes
	}
	s.free = append(s.free, s.out[:n]...)
	s.frames += n
	s.now += s.poll
	return wire
}

// run clears the counters and lets time pass.
func (s *simulation) run(duration int64) {
	for i := range s.flows {
		s.flows[i].sent, s.flows[i].lost, s.flows[i].peak = 0, 0, 0
	}
	for end := s.now + duration; s.now < end; {
		s.step(0)
	}
}

// want demands that flows got these rates in a run of that duration, in Gbit/s on the wire, within
// 1 %, and that the others got nothing.
func (s *simulation) want(t *testing.T, duration int64, rates map[int]float64) {
	t.Helper()
	for queue, f := range s.flows {
		want := rates[queue]
		if got := float64(f.sent) * 8 / float64(duration); got < 0.99*want || got > 1.01*want {
			t.Errorf("queue %d got %.4f Gbit/s, want %.4f within 1 %%", queue, got, want)
		} else if want > 0 {
			t.Logf("queue %d: %.4f Gbit/s, %+.3f %%", queue, got, 100*(got/want-1))
		}
	}
}
