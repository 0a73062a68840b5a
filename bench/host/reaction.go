package host

import "sluice/pfc"

// delayMost is how many PFC frames may wait for the reaction delay; what comes beyond makes the
// oldest count early.
const delayMost = 64

// reaction is how the host responds to PFC: after a delay, like a NIC with a slow pipeline.
type reaction struct {
	receiver   *pfc.Receiver
	delay      int64 // ns
	head, tail uint32
	waiting    [delayMost]struct {
		due   int64
		frame pfc.Frame
	}
}

func (r *reaction) receive(now int64, f pfc.Frame) {
	if r.tail-r.head == delayMost {
		r.honour(now)
	}
	w := &r.waiting[r.tail%delayMost]
	w.due, w.frame = now+r.delay, f
	r.tail++
}

func (r *reaction) honour(now int64) {
	r.receiver.Receive(now, &r.waiting[r.head%delayMost].frame)
	r.head++
}

// paused returns the priorities that may not send now.
func (r *reaction) paused(now int64) uint8 {
	for r.head != r.tail && r.waiting[r.head%delayMost].due <= now {
		r.honour(now)
	}
	return r.receiver.Paused(now)
}
