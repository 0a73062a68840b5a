package dataplane

import "testing"

// TestUrgentFrames checks that frames which stop or resume a sender are urgent, and so are those
// that must leave before others can.
func TestUrgentFrames(t *testing.T) {
	r := pauseRig(t)
	w := r.s.Workers[0]
	r.send(0, data(0, 1, 0, 60, 0))
	r.run(10_000)
	if w.turns.Urgent {
		t.Error("a frame like others is urgent")
	}
	r.stop(1, 65535)
	r.run(1000)
	for n := range 12 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(5000)
	if r.port(0).PFCSent.Frames != 1 || !w.turns.Control {
		t.Errorf("%d frames sent that stop the sender, not to be held up: %v", r.port(0).PFCSent.Frames,
			w.turns.Control)
	}
	r.stop(1, 0)
	r.run(50_000)
	r.idle()

	r = newRig(t, 2, 1, func(p *Params) { p.Ports[1].InFlight = 1000 })
	r.introduce()
	for n := range 4 {
		r.send(0, data(0, 1, 0, 900, n))
	}
	r.run(10_000)
	if !r.s.Workers[0].turns.Urgent {
		t.Error("frames that keep others from being sent are not urgent")
	}
}
