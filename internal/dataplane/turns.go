package dataplane

// turns is a worker's part in sharing its CPU with somebody who sends what it hands to drivers, and runs whenever the worker
// sleeps.
type turns struct {
	yield  func() // leaves the CPU to him until he has nothing to do; nil: there is nobody
	last   int64  // ns: when it was his turn
	handed int    // frames, since then
}

const (
	// turnFrames is how many frames the worker hands over before it yields though there is more to do: a turn costs some
	// microseconds, however many frames there are.
	turnFrames = 256
	// turnPause is how long the worker polls, ns, before it yields though there is nothing to send: he is so often given the CPU
	// that the scheduler owes him nothing, which it would pay with a turn of milliseconds.
	turnPause = 500_000
)

// take yields if it is time to. idle says that the worker has nothing else to do.
func (t *turns) take(now int64, idle bool) {
	if t.yield == nil || t.handed < turnFrames && (t.handed == 0 || !idle) && now-t.last < turnPause {
		return
	}
	t.yield()
	t.last, t.handed = now, 0
}
