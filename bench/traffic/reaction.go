package traffic

import "sluice/pfc"

// delayMost bounds the PFC frames that wait for the reaction delay. If there are more, the oldest
// takes effect early.
const delayMost = 64

// reaction is the host's response to PFC: delayed, like a NIC with a slow pipeline.
type reaction struct {
	receiver   *pfc.Receiver
	priorities uint8 // of receiver
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

// honourOn honours PFC on these priorities from now on. Others go on sending at once.
func (r *reaction) honourOn(now int64, priorities uint8, speed uint64) {
	if priorities == r.priorities {
		return
	}
	next, err := pfc.NewReceiver(pfc.ReceiverParams{Priorities: priorities, Speed: speed})
	if err != nil {
		panic(err) // there was a receiver with this speed
	}
	next.TakeOver(now, r.receiver)
	r.receiver, r.priorities = next, priorities
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
