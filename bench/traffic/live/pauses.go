package live

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pmd/xdprun"
)

// Pauses are the pauses of a generator's ports, by port and priority. The sinks on the ports'
// devices write them; the generator honours them.
type Pauses struct {
	ports  int
	shared *xdprun.Shared
}

// Each priority of a port has pauseWords words. It is paused from begin to end, end excluded. A new
// pause during that time extends it.
const (
	pauseBegin  = iota // ns
	pauseEnd           // ns
	pauseBooked        // ns paused before begin
	_
	pauseWords

	priorities     = 8
	portPauseWords = priorities * pauseWords
)

// NewPauses returns the pauses of ports ports; nothing is paused.
func NewPauses(ports int) (*Pauses, error) {
	if ports < 1 {
		return nil, fmt.Errorf("live: pauses of %d ports: must be one or more", ports)
	}
	s, err := xdprun.NewShared("pauses", ports*portPauseWords)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	return &Pauses{ports: ports, shared: s}, nil
}

// Close releases the pauses. The generator and the sinks that use them must be closed before.
func (p *Pauses) Close() error { return p.shared.Close() }

// paused returns how long each priority of a port has been paused so far.
func (p *Pauses) paused(port int) (total [priorities]time.Duration) {
	now := int64(monotonic())
	for n := range total {
		w := p.look(port*portPauseWords + n*pauseWords)
		running := min(now, int64(w[pauseEnd])) - int64(w[pauseBegin])
		total[n] = time.Duration(int64(w[pauseBooked]) + max(running, 0))
	}
	return total
}

// look reads a priority's words until two readings agree: then no PFC frame came in between.
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

// monotonic returns the time of bpf_ktime_get_ns.
func monotonic() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // can't fail
	}
	return uint64(t.Nano())
}
