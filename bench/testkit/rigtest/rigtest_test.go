package rigtest

import (
	"testing"

	"sluice/internal/state"
)

// recorder counts the errors that a check reports.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.errors++ }

// TestConserves: each fault of a switch's state is reported, and a state without a fault is not.
func TestConserves(t *testing.T) {
	for what, c := range map[string]struct {
		spoil  func(*state.Switch)
		faults int
	}{
		"all is well":      {func(*state.Switch) {}, 0},
		"a lossless frame": {func(of *state.Switch) { of.LosslessDropsTotal = 1 }, 1},
		"a frame was not sent": {func(of *state.Switch) {
			of.Ports[1].Dropped, of.Ports[1].Drops = 2, []state.Drop{{Reason: "port_gone", Frames: 1}}
		}, 0},
		"a frame was for the switch": {func(of *state.Switch) {
			of.Ports[1].Received, of.Ports[1].Own.Received = 2, 2
		}, 0},
		"a frame is missing":      {func(of *state.Switch) { of.Ports[1].Sent-- }, 1},
		"a buffer is missing":     {func(of *state.Switch) { of.Workers[0].Free-- }, 1},
		"a cell is in use":        {func(of *state.Switch) { of.Workers[0].CellsInUse = 1 }, 1},
		"a buffer is given twice": {func(of *state.Switch) { of.Ports[1].GivenTwice = 1 }, 1},
		"a buffer is sent twice":  {func(of *state.Switch) { of.Ports[1].CompletedTwice = 1 }, 1},
		"the driver loses frames": {func(of *state.Switch) { of.Ports[1].Driver.RXRingFull = 1 }, 1},
	} {
		of := state.Switch{Workers: []state.Worker{{Buffers: 10, Free: 6}}, Ports: []state.Port{
			{Received: 5, Buffers: state.Buffers{Filled: 1, Spare: 1}},
			{Sent: 4, Dropped: 1, Buffers: state.Buffers{Filled: 1, Spare: 1}},
		}}
		c.spoil(&of)
		r := &recorder{TB: t}
		Conserves(r, func() state.Switch { return of })
		CheckDrivers(r, of)
		if r.errors != c.faults {
			t.Errorf("%s: %d faults reported, not %d", what, r.errors, c.faults)
		}
	}
}
