package dataplane

import "math/bits"

// Where several ports overload a queue, or a pool, the first ones of a pass take the room that there is. In a fixed order
// these would always be the same. So who goes first is drawn in each pass, among all ports that have something to say:
// this worker's, and those behind the lanes from other workers. Frames of one port keep their order.

// turn returns the worker's ports in the order of this pass: one that is drawn changes places with the first.
func (w *Worker) turn() []*port {
	if n := len(w.order); n > 1 {
		i := w.draw(n)
		w.order[0], w.order[i] = w.order[i], w.order[0]
	}
	return w.order
}

// crossFirst takes in what a lane has brought before the worker's own ports have their turns, if one of the ports behind it
// is drawn out of all that were active when last looked at.
func (w *Worker) crossFirst(now int64) int {
	if len(w.in) == 0 {
		return 0
	}
	active := 0
	for _, p := range w.order {
		if p.active {
			active++
		}
	}
	behind := 0
	for _, in := range w.in {
		behind += in.ports
	}
	if behind == 0 {
		return 0
	}
	at := w.draw(active + behind)
	for _, in := range w.in {
		if at < in.ports {
			return w.takeIn(in, now)
		}
		at -= in.ports
	}
	return 0
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
