package dataplane

import (
	"bytes"
	"testing"

	"sluice/internal/frame"
	"sluice/pfc"
)

// pauseRig returns a switch of two ports with PAUSE instead of PFC.
func pauseRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 2, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].FlowControl = LinkPause
			p.Ports[i].Receiver.Priorities = 0xff
		}
	})
	r.introduce()
	return r
}

// stop makes the partner of a port send PAUSE.
func (r *rig) stop(port int, quanta uint16) {
	b := make([]byte, pfc.FrameLength)
	(&pfc.Frame{Quanta: [8]uint16{quanta}}).PutPause(b, [6]byte{2, 0, 0, 0, 0, byte(port)})
	r.send(port, b)
}

// TestPauseStopsAllPriorities pauses for 100 quanta, which at 10 Gbit/s are 5.12 µs.
func TestPauseStopsAllPriorities(t *testing.T) {
	r := pauseRig(t)
	r.stop(1, 100)
	r.run(1000)
	for priority := range uint8(8) {
		r.send(0, data(0, 1, priority, 60, 0))
	}
	r.run(3000)
	if n := len(r.inboxes[1]); n != 0 {
		t.Errorf("%d frames arrived during the pause", n)
	}
	r.run(5000)
	if n := len(r.inboxes[1]); n != 8 {
		t.Errorf("%d frames arrived after the pause, want 8", n)
	}
	if p := r.port(1); p.PFCReceived.PausedNS[0] != 5120 || p.PFCReceived.PausedNS[7] != 5120 ||
		p.PFCReceived.Frames != 1 {
		t.Errorf("%+v, want one frame and 5120 ns for every priority", p.PFCReceived)
	}
	r.idle()
}

// TestPauseIsSent checks that PAUSE is sent when a lossless group is congested, and ended by one
// with a time of 0.
func TestPauseIsSent(t *testing.T) {
	r := pauseRig(t)
	r.stop(1, 65535)
	r.run(1000)
	for n := range 12 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(5000)
	r.stop(1, 0)
	r.run(10_000)
	var told []uint16
	for _, b := range r.inboxes[0] {
		var f pfc.Frame
		if kind, short := pfc.Decode(b, &f); kind != pfc.Pause || short {
			t.Fatalf("the sender got % x, want PAUSE frames only", b)
		}
		told = append(told, f.Quanta[0])
	}
	if len(told) != 2 || told[0] != 1000 || told[1] != 0 {
		t.Errorf("the sender was told %v, want 1000 quanta and then 0", told)
	}
	r.idle()
}

// TestOneFlowControlAPort checks that a port with PAUSE counts PFC frames and ignores them, and the
// other way round.
func TestOneFlowControlAPort(t *testing.T) {
	r := pauseRig(t)
	r.pause(1, 0xff, 100_000)
	p := newRig(t, 2, 1, nil)
	p.introduce()
	p.stop(1, 1000)
	for _, r := range []*rig{r, p} {
		r.run(1000)
		r.send(0, data(0, 1, lossless, 60, 0))
		r.run(3000)
		if c := r.port(1); c.ControlIgnored != 1 || c.PFCReceived.Frames != 0 || len(r.inboxes[1]) != 1 {
			t.Errorf("%d control frames ignored, %d received, %d frames arrived; want 1, 0, 1", c.ControlIgnored,
				c.PFCReceived.Frames, len(r.inboxes[1]))
		}
		r.idle()
	}
}

// TestControlForAnotherStation checks that a port honours PFC and PAUSE frames only to the address
// that no bridge forwards. Frames to others, its own included, are counted, and neither honoured
// nor forwarded, whatever their kind.
func TestControlForAnotherStation(t *testing.T) {
	own := frame.MAC(0x0200_0000_aa01)
	for _, kind := range []pfc.Kind{pfc.PFC, pfc.Pause} {
		for _, c := range []struct {
			to    frame.MAC
			meant bool
		}{
			{frame.MACFrom(pfc.Destination[:]), true}, {own, false}, {own + 1, false}, {station0(0), false},
			{station0(1), false},
			{frame.Broadcast, false}, {0x0180_c200_0000, false}, {0x0180_c200_000e, false}, {0x0100_5e00_0001, false},
		} {
			r := newRig(t, 2, 1, nil)
			if kind == pfc.Pause {
				r = pauseRig(t)
			}
			link := r.plan.Links[1]
			link.MAC = own.Bytes()
			r.relink(1, link, 1000)
			r.introduce()
			b, f := make([]byte, pfc.FrameLength), pfc.Frame{Enable: 0xff}
			for n := range f.Quanta {
				f.Quanta[n] = 1000
			}
			if f.Put(b, [6]byte{2}); kind == pfc.Pause {
				f.PutPause(b, [6]byte{2})
			}
			c.to.Put(b)
			r.send(1, b)
			unknown := bytes.Clone(b)
			unknown[15] = 0x77
			r.send(1, unknown)
			r.run(1000)
			r.send(0, data(0, 1, lossless, 60, 0))
			r.run(5000)
			p := r.port(1)
			obeyed := p.PFCReceived.Frames == 1 && p.Paused>>lossless&1 == 1 && p.ControlUnknown == 1 &&
				p.ControlMisaddressed == 0 && len(r.inboxes[1]) == 0
			ignored := p.PFCReceived.Frames == 0 && p.Paused == 0 && p.ControlUnknown == 0 &&
				p.ControlMisaddressed == 2 && len(r.inboxes[1]) == 1
			if c.meant && !obeyed || !c.meant && !ignored || p.Control != 2 || len(r.inboxes[0]) != 0 {
				t.Errorf("%v to %v: %d control frames, %d received, %d misaddressed, paused %#x, %d frames sent, %d "+
					"forwarded",
					kind, c.to, p.Control, p.PFCReceived.Frames, p.ControlMisaddressed, p.Paused, len(r.inboxes[1]),
					len(r.inboxes[0]))
			}
		}
	}
}

// TestAsymmetricPFC checks that the peer may pause any priority, while this side pauses only
// lossless ones.
func TestAsymmetricPFC(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[1].Receiver.Priorities = 0xff })
	r.introduce()
	r.pause(1, 1<<0|1<<lossless, 50_000)
	r.run(1000)
	for n := range 60 { // the lossy queue takes 50, its group 100
		r.send(0, data(0, 1, 0, 60, n))
	}
	r.run(20_000)
	if n := len(r.inboxes[1]); n != 0 {
		t.Errorf("%d frames of a paused lossy priority arrived", n)
	}
	r.run(50_000)
	if frames, told := r.received(1); len(frames) != 50 || len(told) != 0 || r.port(0).PFCSent.Frames != 0 {
		t.Errorf("%d frames arrived, want 50; %d and %d PFC frames sent, want none", len(frames), len(told),
			r.port(0).PFCSent.Frames)
	}
	r.idle()
}
