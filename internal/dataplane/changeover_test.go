package dataplane

import (
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/drop"
)

// rigor is a reload at the worst moment: the TX ring of port 0 holds all that may be in flight, and
// the lossless group of port 0 is about to stop a peer that then sends all that it can.
type rigor struct {
	*lines
	lossy [4][]byte
}

const (
	rigorGap  = 1000 // ns between two iterations, as headroom assumes
	rigorHigh = 64_000
)

// rigorously gives all ports this many bytes in flight, and the exact headroom for them.
func rigorously(t *testing.T, p *Params, inFlight int) {
	for i := range p.Ports {
		p.Ports[i].InFlight = inFlight
		p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 100,
			Headroom: roomFor(t, rigorGap, inFlight), XON: 20}
		p.Ports[i].Cells.Groups[0] = cells.GroupParams{Share: 4000}
		p.Ports[i].Cells.Queues[0] = cells.QueueParams{Limit: 4000}
	}
}

func newRigor(t *testing.T) *rigor {
	x := &rigor{lines: newLines(t, 4, 200, func(p *Params) { rigorously(t, p, rigorHigh) })}
	x.lossy = [4][]byte{1: data(1, 0, 0, 60, 0), 3: data(3, 0, 0, 60, 0)}
	x.step(400_000, nil) // the TX ring fills
	x.pause(2, 65535)
	x.step(20_000, nil)
	return x
}

// step lets ns pass, or fewer until something holds, while port 0 has more to send than it may.
func (x *rigor) step(ns int64, until func() bool) {
	x.run(ns, func() bool {
		x.fill(1, 0, x.lossy[1])
		x.fill(3, 0, x.lossy[3])
		return until != nil && until()
	})
}

// attack has the peer of port 0 send lossless frames to a paused port at the rate of its link.
func (x *rigor) attack(ns int64, until func() bool) {
	b := data(0, 2, lossless, 60, 0)
	x.step(ns, func() bool { x.fill(0, lossless, b); return until != nil && until() })
}

// reload changes the parameters of the running switch.
func (x *lines) reload(change func(*Params)) {
	x.t.Helper()
	p := x.s.generation.params
	p.Ports = append([]PortParams(nil), p.Ports...)
	change(&p)
	g, err := x.s.Prepare(p)
	if err != nil {
		x.t.Fatal(err)
	}
	x.relink(g, func([]Link) {})
}

// relink publishes a plan with other links, and a generation if it is not nil.
func (x *lines) relink(g *Generation, change func([]Link)) {
	plan := *x.s.Workers[0].current
	plan.Links, plan.Generation = append([]Link(nil), plan.Links...), g
	change(plan.Links)
	x.s.Publish(&plan)
}

// TestHeadroomOutlastsWhatItCovers: a reload that leaves a port with less headroom loses nothing,
// although the TX ring still holds what the old headroom was for. The new headroom holds
// afterwards.
func TestHeadroomOutlastsWhatItCovers(t *testing.T) {
	const low = 2000
	for _, inXOFF := range []bool{false, true} {
		t.Run(fmt.Sprint("in XOFF ", inXOFF), func(t *testing.T) {
			x := newRigor(t)
			x.attack(100_000, func() bool {
				g := x.port(0).Groups[lossless]
				return inXOFF && g.Headroom > 0 || !inXOFF && g.Shared > 80
			})
			x.reload(func(p *Params) { rigorously(t, p, low) })
			x.attack(300_000, nil)
			p := x.port(0)
			if p.LosslessDrops() != 0 || p.PFCSent.XOFF[lossless] == 0 {
				t.Errorf("%d lossless drops, %d XOFF: %v", p.LosslessDrops(), p.PFCSent.XOFF[lossless], dropped(p))
			}
			if p.Limits[lossless].Headroom != roomFor(t, rigorGap, rigorHigh) {
				t.Errorf("in XOFF the headroom is %d, before the reload it was %d", p.Limits[lossless].Headroom,
					roomFor(t, rigorGap, rigorHigh))
			}
			x.pause(2, 0)
			x.step(2_000_000, nil)
			if n := x.port(0).Limits[lossless].Headroom; n != roomFor(t, rigorGap, low) || x.s.Workers[0].changing {
				t.Errorf("afterwards the headroom is %d, by the parameters %d", n, roomFor(t, rigorGap, low))
			}
		})
	}
}

// hog has port 1 paused, and fills the memory with lossy frames for it from another port.
func (r *rig) hog(from, frames int) {
	r.t.Helper()
	for i := range frames {
		if i%500 == 0 {
			r.pause(1, 0xff, 65535)
		}
		r.send(from, data(from, 1, 0, 60, i))
		r.run(100)
	}
}

// TestDemandWaitsForHeadroom: a reload lets a port have more in flight, while lossy frames hold the
// cells of the headroom for that. It may have more only once they are gone.
func TestDemandWaitsForHeadroom(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[0] = cells.GroupParams{Share: 3000}
			p.Ports[i].Cells.Queues[0] = cells.QueueParams{Limit: 3000}
			p.Ports[i].Receiver.Priorities = 0xff
		}
	})
	r.introduce()
	r.hog(2, 3000)
	before := r.port(0).Limits[lossless].Headroom
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].InFlight *= 2
			p.Ports[i].Response *= 2
			p.Ports[i].Cells.Groups[lossless].Headroom = 400
			p.Ports[i].Cells.Groups[0].Share = 2000
		}
	})
	r.pause(1, 0xff, 65535)
	r.run(1000)
	w := r.s.Workers[0]
	if p := w.ports[0]; p.InFlight != 16<<10 || r.port(0).Limits[lossless].Headroom != before || r.s.Lossless(0) == 0 {
		t.Errorf("%d bytes in flight, headroom %d, was %d", p.InFlight, r.port(0).Limits[lossless].Headroom, before)
	}
	r.resume(1, 0xff)
	r.run(3_000_000)
	if p := w.ports[0]; p.InFlight != 32<<10 || r.port(0).Limits[lossless].Headroom != 400 || w.changing {
		t.Errorf("afterwards %d bytes in flight, headroom %d", p.InFlight, r.port(0).Limits[lossless].Headroom)
	}
}

// TestHeadroomIsBackedBeforeItIsPromised: ports agree on a lossless class, or begin to have flow
// control, while lossy frames hold the memory of the headroom. Peers that rely on the class only
// once it is lossless lose nothing.
func TestHeadroomIsBackedBeforeItIsPromised(t *testing.T) {
	t.Run("agreed", func(t *testing.T) { testBacked(t, func(*PortParams) {}) })
	t.Run("flow control", func(t *testing.T) {
		testBacked(t, func(p *PortParams) {
			p.FlowControl = NoFlowControl
			p.Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Alpha: cells.AlphaUnit, Headroom: 1}
		})
	})
}

// testBacked takes what is different before at the ports that lossless frames come in at.
func testBacked(t *testing.T, before func(*PortParams)) {
	const headroom = 300
	r := newRig(t, 4, 1, func(p *Params) {
		for i := range p.Ports {
			agree(&p.Ports[i], false)
			p.Ports[i].Receiver.Priorities = 0xff
			p.Ports[i].Cells.Groups[0] = cells.GroupParams{Alpha: 8 * cells.AlphaUnit}
			p.Ports[i].Cells.Queues[0] = cells.QueueParams{Limit: 4000}
			p.Ports[i].Cells.Queues[lossless] = cells.QueueParams{}
			if p.Ports[i].Cells.Groups[lossless] = (cells.GroupParams{Alpha: cells.AlphaUnit}); i != 1 {
				before(&p.Ports[i])
			}
		}
	})
	r.introduce()
	r.hog(3, 3300)
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Alpha: cells.AlphaUnit,
				Headroom: headroom}
			p.Ports[i].Generator.Priorities, p.Ports[i].FlowControl = 1<<lossless, PriorityFlowControl
		}
	})
	r.run(1000)
	if n := r.s.Lossless(0); n != 0 {
		t.Errorf("priorities %#x are lossless without memory for their headroom", n)
	}
	sent, early := uint64(0), [3]uint64{}
	for i := range 3 * headroom { // each peer sends no more than the headroom holds
		for n, from := range []int{0, 2, 3} {
			p := r.port(from)
			if p.Lossless == 0 {
				early[n] = p.RX[lossless]
			} else if p.PausedPeer == 0 {
				r.send(from, data(from, 1, lossless, 60, 2*i))
				r.send(from, data(from, 1, lossless, 60, 2*i+1))
				sent += 2
			}
		}
		r.run(1000)
		if i == headroom {
			r.resume(1, 0xff) // the lossy frames leave
		}
		if i%100 == 0 && i < headroom {
			r.pause(1, 0xff, 65535)
		}
	}
	r.run(3_000_000)
	took := uint64(0)
	for n, from := range []int{0, 2, 3} {
		p := r.port(from)
		took += p.RX[lossless] - early[n]
		if p.LosslessDrops() != 0 {
			t.Errorf("port %d: %v", from, dropped(p))
		}
	}
	if took != sent || sent < headroom {
		t.Errorf("of %d frames %d were received", sent, took)
	}
}

// TestFramesKeepTheirPromise: worker 0 runs a generation in which a class is lossless, worker 1
// still the one before, in which its queues have a limit. Whatever comes in as lossless is sent.
func TestFramesKeepTheirPromise(t *testing.T) {
	r := newRig(t, 2, 2, func(p *Params) {
		for i := range p.Ports {
			agree(&p.Ports[i], false)
			p.Ports[i].Receiver.Priorities = 0xff
			p.Ports[i].Cells.Queues[lossless] = cells.QueueParams{Limit: 20}
		}
	})
	r.introduce()
	r.pause(1, 1<<lossless, 3_000_000)
	r.run(2000)
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			agree(&p.Ports[i], true)
			p.Ports[i].Cells.Queues[lossless] = cells.QueueParams{}
		}
	})
	for i := range 40 { // worker 1's iteration goes on
		r.send(0, data(0, 1, lossless, 60, i))
		r.now += 100
		r.wires[0].Advance(r.now)
		r.wires[1].Advance(r.now)
		r.s.Workers[0].Step(r.now)
		r.s.Workers[1].pass(r.now)
	}
	r.resume(1, 1<<lossless)
	r.run(200_000)
	if frames, _ := r.received(1); len(frames) != 40 || len(dropped(r.port(1))) > 0 {
		t.Errorf("%d of 40 frames arrived, dropped %v", len(frames), dropped(r.port(1)))
	}
	r.idle()
}

// TestLossesAreCountedWhereverTheyHappen: a class is lossless where frames come in, and lossy where
// they leave. What the driver refuses there is a lossless drop all the same; what is lost with the
// link is counted, but is no lack of room.
func TestLossesAreCountedWhereverTheyHappen(t *testing.T) {
	r := agreeingRig(t, 1)
	r.regenerate(func(p *Params) { agree(&p.Ports[1], false) })
	r.run(1000)
	w := r.s.Workers[0]
	driver := w.ports[1].driver
	r.send(0, data(0, 1, lossless, 60, 1))
	r.now += 1000
	r.wires[0].Advance(r.now)
	w.ports[1].driver = failing{driver}
	w.Step(r.now)
	w.ports[1].driver = driver
	p := r.port(1)
	if p.LosslessDrops() != 1 || p.Lost[drop.RefusedByDriver][lossless] != 1 {
		t.Errorf("refused by the driver: %d lossless drops, %v", p.LosslessDrops(), dropped(p))
	}
	r.plan.Links[1].Up = false
	r.publish()
	r.run(1000)
	r.send(0, data(0, 1, lossless, 60, 2))
	r.send(0, data(0, 2, lossless, 60, 3))
	r.run(5000)
	if p = r.port(1); p.LosslessDrops() != 1 || p.Lost.Sum(drop.Reason.Failure) != 0 {
		t.Errorf("flooded elsewhere: %v", dropped(p))
	}
}
