package dataplane

import (
	"testing"

	"sluice/pfc"
	"sluice/pmd"
)

// silent is a driver that receives nothing.
type silent struct{ pmd.Port }

func (silent) Receive([]pmd.Desc) int { return 0 }
func (silent) Waiting() int           { return 0 }

// withDriver lets ns pass with another driver at a port.
func (r *rig) withDriver(port int, replace func(pmd.Port) pmd.Port, ns int64) {
	for _, w := range r.s.Workers {
		if p := w.ports[port]; p.worker == w.index {
			driver := p.driver
			p.driver = replace(driver)
			defer func() { p.driver = driver }()
		}
	}
	r.run(ns)
}

// TestUnreadFramesPauseTheirPeer: if frames wait at a port after an iteration, its peer stops its
// lossless priorities until none wait. Peers of other ports do not.
func TestUnreadFramesPauseTheirPeer(t *testing.T) {
	s, drivers, _ := overwhelmed(t, 3, nil)
	w, plan := s.Workers[0], &Plan{}
	for i := range 3 {
		plan.Links = append(plan.Links, Link{Driver: silent{drivers[i]}, Up: true, TXRing: 2048})
	}
	s.Publish(plan)
	check := func(what string, now int64, paused uint8, xoff, xon uint64) {
		t.Helper()
		w.Step(now)
		for _, p := range w.Look(now).Ports {
			f := p.PFCSent
			if p.Number == 1 && (p.PausedPeer != paused || f.XOFF[lossless] != xoff || f.XON[lossless] != xon) {
				t.Errorf("%s: peer told to stop %#x with %d XOFF and %d XON, want %#x, %d and %d",
					what, p.PausedPeer, f.XOFF[lossless], f.XON[lossless], paused, xoff, xon)
			}
			if p.Number != 1 && (p.PausedPeer != 0 || f.Frames != 0 || p.PortCounters.Behind != 0) {
				t.Errorf("%s: port %d is behind %d times and sent %d frames, but nothing waits there", what, p.Number,
					p.PortCounters.Behind, f.Frames)
			}
		}
	}
	check("nothing waits", 1_000_000, 0, 0, 0)
	w.ports[1].driver = drivers[1]
	check("frames wait at a port", 1_001_000, 1<<lossless, 1, 0)
	check("more wait", 1_002_000, 1<<lossless, 1, 0)
	w.ports[1].driver = silent{drivers[1]}
	w.Step(1_003_000)
	check("none waited in the iteration before", 1_004_000, 0, 1, 1)
}

// TestDriverRefusesAPause: an XOFF that the driver does not take is sent in the next iteration, and
// counts once.
func TestDriverRefusesAPause(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}})
	r.run(2000)
	for n := range 10 { // fill the group's share
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(1000)
	}
	r.send(0, data(0, 1, lossless, 60, 10))
	r.withDriver(0, func(d pmd.Port) pmd.Port { return failing{d} }, 2000)
	if p := r.port(0); p.Groups[lossless].Headroom != 1 || p.PFCSent.Frames != 0 || p.PausedPeer != 0 {
		t.Errorf("%d cells of headroom in use, %d frames sent, peer told to stop %#x; want 1, 0 and 0",
			p.Groups[lossless].Headroom, p.PFCSent.Frames, p.PausedPeer)
	}
	r.run(100) // an iteration
	if p := r.port(0); p.PFCSent.XOFF[lossless] != 1 || p.PausedPeer != 1<<lossless {
		t.Errorf("%d XOFF sent, peer told to stop %#x in the next iteration", p.PFCSent.XOFF[lossless], p.PausedPeer)
	}
	r.run(1000)
	if _, told := r.received(0); len(told) != 1 || told[0].Quanta[lossless] == 0 {
		t.Errorf("the peer got %+v, want one XOFF", told)
	}
}
