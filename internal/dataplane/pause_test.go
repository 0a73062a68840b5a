package dataplane

import (
	"testing"

	"sluice/pfc"
)

// pauseRig is a switch of two ports with PAUSE instead of PFC.
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

// stop has the partner of a port send PAUSE.
func (r *rig) stop(port int, quanta uint16) {
	b := make([]byte, pfc.FrameLength)
	pfc.Frame{Quanta: [8]uint16{quanta}}.PutPause(b, [6]byte{2, 0, 0, 0, 0, byte(port)})
	r.send(port, b)
}

// TestPauseStopsAllPriorities: 100 quanta at 10 Gbit/s are 5.12 µs.
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
	if p := r.port(1); p.Heard.PausedNS[0] != 5120 || p.Heard.PausedNS[7] != 5120 || p.Heard.Frames != 1 {
		t.Errorf("%+v, want one frame and 5120 ns for every priority", p.Heard)
	}
	r.idle()
}

// TestPauseIsSent when a lossless group is congested, and ended with a time of 0.
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

// TestOneFlowControlAPort: with PAUSE, PFC is counted and ignored, and the other way round.
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
		if c := r.port(1); c.ControlIgnored != 1 || c.Heard.Frames != 0 || len(r.inboxes[1]) != 1 {
			t.Errorf("%d control frames ignored, %d heard, %d frames arrived; want 1, 0, 1", c.ControlIgnored, c.Heard.Frames, len(r.inboxes[1]))
		}
		r.idle()
	}
}

// TestAsymmetricPFC: the peer may pause any priority, this side pauses lossless ones only.
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
	if frames, told := r.received(1); len(frames) != 50 || len(told) != 0 || r.port(0).Sent.Frames != 0 {
		t.Errorf("%d frames arrived, want 50; %d and %d PFC frames sent, want none", len(frames), len(told), r.port(0).Sent.Frames)
	}
	r.idle()
}
