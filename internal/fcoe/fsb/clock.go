package fsb

import "sync/atomic"

// longestStep is how far the time of snooping goes on between two looks at a clock.
const longestStep = 1_000_000_000 // ns

// clock is the time of snooping. It stands still while the control loop is held up, as it may be
// for seconds when the kernel opens a device: keep-alives that arrive meanwhile may be lost, and no
// session must end because of that.
type clock struct {
	now  atomic.Int64 // ns
	real int64        // at the last look
}

// advance returns the time of snooping at a real time, which never goes back.
func (c *clock) advance(real int64) int64 {
	step := min(real-c.real, longestStep)
	c.real = real
	return c.now.Add(step)
}

// read returns the time at the last look. Any goroutine may call it.
func (c *clock) read() int64 { return c.now.Load() }
