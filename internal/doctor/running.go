package doctor

import (
	"time"

	"sluice/internal/state"
)

// Running is what a running switch says of itself.
type Running struct {
	*state.Switch
	Socket string // on which it answers
}

// port returns what a running switch says of a port that it has open; nil if there is none.
func (r *Running) port(device string) *state.Port {
	if r == nil {
		return nil
	}
	for i := range r.Ports {
		if p := &r.Ports[i]; p.Name == device && p.Mode != "absent" {
			return p
		}
	}
	return nil
}

// stalled returns how long its control loop has not run.
func (r *Running) stalled() time.Duration { return time.Duration(r.StalledNS) }
