package dataplane

import "math/bits"

// source is where a worker's queues get frames from: one of its ports, or a handoff from another
// worker.
type source struct {
	port    *port // nil: a handoff
	handoff *inbox
}

// order returns the sources of a pass in random order, so that none is always the last to spend the
// budget, or the first to ask for room.
func (w *Worker) order() []source {
	s := w.sources
	for i := len(s) - 1; i > 0; i-- {
		j := w.draw(i + 1)
		s[i], s[j] = s[j], s[i]
	}
	return s
}

// draw returns a random number from 0 to n-1, by xorshift64* (S. Vigna, "An experimental
// exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 42(4), 2016).
func (w *Worker) draw(n int) int {
	x := w.random
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	w.random = x
	high, _ := bits.Mul64(x*0x2545f4914f6cdd1d, uint64(n))
	return int(high)
}
