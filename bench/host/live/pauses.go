package live

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/xdprun"
)

// Pauses is what the peers of a generator's ports have paused, by port and priority: written by the
// sinks on these ports' devices, obeyed by the generator.
type Pauses struct {
	ports  int
	shared *xdprun.Shared
}

// A priority of a port has pauseWords words: it is paused from begin until end, the latter not
// included. While that is not over, a new pause prolongs it.
const (
	pauseBegin  = iota // ns
	pauseEnd           // ns
	pauseBooked        // ns paused before begin
	_
	pauseWords

	priorities     = 8
	portPauseWords = priorities * pauseWords
)

// NewPauses returns the pauses of so many ports; nothing is paused.
func NewPauses(ports int) (*Pauses, error) {
	if ports < 1 {
		return nil, fmt.Errorf("live: pauses of %d ports: there must be one or more", ports)
	}
	s, err := xdprun.NewShared("pauses", ports*portPauseWords)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	return &Pauses{ports: ports, shared: s}, nil
}

// Close releases them, once the generator and the sinks that use them are.
func (p *Pauses) Close() error { return p.shared.Close() }

// paused returns for how long each priority of a port has been paused so far.
func (p *Pauses) paused(port int) (total [priorities]time.Duration) {
	now := int64(monotonic())
	for n := range total {
		w := p.look(port*portPauseWords + n*pauseWords)
		running := min(now, int64(w[pauseEnd])) - int64(w[pauseBegin])
		total[n] = time.Duration(int64(w[pauseBooked]) + max(running, 0))
	}
	return total
}

// look reads a priority's words until they are the same twice: then no PFC frame came in between.
func (p *Pauses) look(first int) (w [pauseWords]uint64) {
	for {
		last := w
		for i := range w {
			w[i] = p.shared.Load(first + i)
		}
		if w == last {
			return w
		}
	}
}

// monotonic returns the time that programs get from bpf_ktime_get_ns.
func monotonic() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is always there
	}
	return uint64(t.Nano())
}
