package dataplane

import "math/bits"

// source is where frames for a worker's queues come from: a port of its own, or a handoff from
// another worker.
type source struct {
	port    *port // nil: a handoff
	handoff *inbox
}

// order returns the sources of a pass, in an order that is drawn: so none is always the last to
// spend the budget, or the first to ask for room.
func (w *Worker) order() []source {
	s := w.sources
	for i := len(s) - 1; i > 0; i-- {
		j := w.draw(i + 1)
		s[i], s[j] = s[j], s[i]
	}
	return s
}

// draw returns a number from 0 to n-1 at random, by xorshift64* (S. Vigna, "An experimental
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
