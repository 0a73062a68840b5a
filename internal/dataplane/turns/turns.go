// Package turns decides when a worker that shares its CPU with a transmitter leaves the CPU to it.
package turns

// Partner shares a worker's CPU. It sends frames that were handed to drivers, and runs whenever the
// worker sleeps.
type Partner interface {
	// Waiting returns how many frames it was handed since it last had nothing to do.
	Waiting() int
	// Yield leaves the CPU to it until it has nothing to do, or for some milliseconds if other
	// threads keep it from running.
	Yield()
}

// Turns is a worker's side of sharing its CPU.
type Turns struct {
	Partner Partner // nil: there is none
	Urgent  bool    // set by the worker: frames were handed over that must go before others can
	Control bool    // set by the worker: a PFC frame was handed over, which must not wait

	last   int64 // ns: when the partner's last turn began; from the next iteration on, when it ended
	ended  bool  // that turn ended just before this iteration
	futile bool  // it was long and nothing was sent: other threads had the CPU
}

const (
	// turnFrames is how many frames the worker hands over before it yields even though it has more
	// to do. A turn costs some microseconds, however many frames there are.
	turnFrames = 256
	// turnPause is how long the worker polls, in ns, before it yields even though there is nothing
	// to send. The partner then gets the CPU so often that the scheduler owes it nothing; it would
	// repay a debt with a turn of milliseconds. The worker also polls this long after a turn that
	// other threads had, because in that time as much may have arrived as there is room for.
	turnPause = 500_000
)

// Take yields if it is time to, after an iteration that began at now. idle says that the iteration
// had nothing to do. Take reports whether frames were sent.
func (t *Turns) Take(now int64, idle bool) bool {
	if t.Partner == nil {
		return false
	}
	if t.ended {
		t.futile = t.futile && now-t.last >= turnPause // a signal may have ended the turn early
		t.last, t.ended = now, false
	}
	waiting := t.Partner.Waiting()
	frames := waiting > 0 && (t.Control || !t.futile && (waiting >= turnFrames || idle || t.Urgent))
	if !frames && now-t.last < turnPause {
		return false
	}
	t.Partner.Yield()
	sent := t.Partner.Waiting() < waiting
	t.last, t.ended, t.futile = now, true, waiting > 0 && !sent
	t.Urgent, t.Control = t.Urgent && !sent, t.Control && t.Partner.Waiting() > 0
	return sent
}
