package dataplane

import "math/bits"

// source is where frames for a worker's queues come from: a port of its own, or a lane from another worker.
//
// Where several ports overload a queue, or a pool, the first sources of a pass take the room that there is, and in a fixed
// order these would always be the same. So the order is drawn anew in each pass, among all ports: this worker's, and those of
// others of which frames wait in a lane: for each of them the lane has a turn. Frames of one port keep their order.
type source struct {
	port   *port // nil: a lane
	lane   *inbox
	frames int // of a lane: its turn
}

// mostSenders is how many turns a lane has in a pass at the most.
const mostSenders = 64

// order lists the sources of a pass, in an order that is drawn.
func (w *Worker) order() []source {
	s := w.sources
	if len(w.in) > 0 {
		s = w.withLanes()
	}
	for i := len(s) - 1; i > 0; i-- {
		j := w.draw(i + 1)
		s[i], s[j] = s[j], s[i]
	}
	return s
}

// withLanes lists the worker's ports and the turns of its lanes.
func (w *Worker) withLanes() []source {
	s := w.sources[:0]
	for _, p := range w.own {
		s = append(s, source{port: p})
	}
	for _, in := range w.in {
		waiting := in.frames.Len()
		turns := in.senders(w.frames, waiting)
		for range turns {
			s = append(s, source{lane: in, frames: min(w.quantum, (waiting+turns-1)/turns)})
		}
	}
	return s
}

// senders returns how many ports the frames that wait in a lane come from, as far as a burst of them shows, spread over all; and
// 1 if there is none.
func (in *inbox) senders(frames []bufferedFrame, waiting int) int {
	first, rest := in.frames.Peek(waiting)
	var ports uint64 // as mostSenders bits; two ports that share one count as one
	for _, ids := range [2][]uint32{first, rest} {
		for i := 0; i < len(ids); i += 1 + waiting/burstSize {
			ports |= 1 << (frames[ids[i]].in() % mostSenders)
		}
	}
	return max(1, bits.OnesCount64(ports))
}

// draw returns a number from 0 to n-1 at random, by xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's
// xorshift generators, scrambled", ACM TOMS 42(4), 2016).
func (w *Worker) draw(n int) int {
	x := w.random
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	w.random = x
	high, _ := bits.Mul64(x*0x2545f4914f6cdd1d, uint64(n))
	return int(high)
}
