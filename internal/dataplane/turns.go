package dataplane

// Partner shares a worker's CPU: it sends frames that drivers were handed, and runs whenever the
// worker sleeps.
type Partner interface {
	// Waiting returns how many frames it was handed since it had nothing to do.
	Waiting() int
	// Yield leaves the CPU to it until it has nothing to do, or for some milliseconds if others
	// keep it from that.
	Yield()
}

// turns is a worker's part in sharing its CPU.
type turns struct {
	partner Partner // nil: there is none
	last    int64   // ns: when its partner's last turn began, and once the worker is back, when that was
	ended   bool    // that turn, just before this iteration
	futile  bool    // it was long, and nothing was sent: others had it
	urgent  bool    // a frame was handed over that is to make room for others
	control bool    // a PFC frame was handed over, which nothing is to hold up
}

const (
	// turnFrames is how many frames the worker hands over before it yields though there is more to
	// do: a turn costs some microseconds, however many frames there are.
	turnFrames = 256
	// turnPause is how long the worker polls, ns, before it yields though there is nothing to send:
	// its partner is given the CPU so often that the scheduler owes it nothing, which it would pay
	// with a turn of milliseconds. So long it polls, too, after a turn that others had, for as much
	// may have come meanwhile as there is room for.
	turnPause = 500_000
)

// take yields if it is time to, in an iteration that began at now and had nothing to do, or had. It
// tells whether frames were sent.
func (t *turns) take(now int64, idle bool) bool {
	if t.partner == nil {
		return false
	}
	if t.ended {
		t.futile = t.futile && now-t.last >= turnPause // a signal may have ended the turn at once
		t.last, t.ended = now, false
	}
	waiting := t.partner.Waiting()
	frames := waiting > 0 && (t.control || !t.futile && (waiting >= turnFrames || idle || t.urgent))
	if !frames && now-t.last < turnPause {
		return false
	}
	t.partner.Yield()
	sent := t.partner.Waiting() < waiting
	t.last, t.ended, t.futile = now, true, waiting > 0 && !sent
	t.urgent, t.control = t.urgent && !sent, t.control && t.partner.Waiting() > 0
	return sent
}
