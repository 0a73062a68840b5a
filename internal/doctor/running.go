package doctor

import (
	"time"

	"sluice/internal/state"
)

// Running is the report of a running switch.
type Running struct {
	*state.Switch
	Socket string // on which it answers
}

// port returns the state of a port that a running switch has open, or nil.
func (r *Running) port(device string) *state.Port {
	if r == nil {
		return nil
	}
	for i := range r.Ports {
		if p := &r.Ports[i]; p.Name == device && state.Open(p.Mode) {
			return p
		}
	}
	return nil
}

// stalled returns how long its control loop has not run.
func (r *Running) stalled() time.Duration { return time.Duration(r.StalledNS) }
