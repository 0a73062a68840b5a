package dataplane

import (
	"bytes"
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/drop"
	"sluice/internal/punt"
	"sluice/pfc"
)

// up says that the link of port 0 is up or down, and lets ns nanoseconds pass.
func (r *rig) up(up bool, ns int64) {
	link := r.plan.Links[0]
	link.Up = up
	r.relink(0, link, ns)
}

// flap says that the link of port 0 was down for a moment.
func (r *rig) flap() {
	r.plan.Links[0].Flaps++
	r.publish()
}

// sendUntilStopped has port 0 send lossless frames at line rate until an XOFF arrives, with numbers
// from first on, and returns the next number.
func (r *rig) sendUntilStopped(first int) (next int) {
	r.inboxes[0] = nil
	for range 20 {
		if len(r.inboxes[0]) == 0 {
			r.send(0, data(0, 1, lossless, 60, first))
			first++
		}
		r.run(100)
	}
	return first
}

// wantInOrder checks that port 1 has received so many lossless frames of port 0, in order, and that
// port 0 has dropped none.
func (r *rig) wantInOrder(want int) {
	r.t.Helper()
	frames, _ := r.received(1)
	if p := r.port(0); !p.Reads || len(frames) != want || p.Dropped() > 0 {
		r.t.Fatalf("reads %t; %d frames arrived, want %d; dropped %v", p.Reads, len(frames), want, dropped(p))
	}
	for n := range frames {
		if !bytes.Equal(frames[n][18:], data(0, 1, lossless, 60, n)[18:]) {
			r.t.Fatalf("frame %d is out of order", n)
		}
	}
	r.idle()
}

// anotherLossless makes class 4 lossless, too.
func anotherLossless(p *Params) {
	for i := range p.Ports {
		q := &p.Ports[i]
		q.Cells.Groups[4], q.Cells.Queues[4] = q.Cells.Groups[lossless], cells.QueueParams{}
		q.Generator.Priorities, q.Receiver.Priorities = 1<<lossless|1<<4, 0xff
	}
}

// TestPortWithoutFlowControlReads: it can't stop its peer, so it waits for nothing.
func TestPortWithoutFlowControlReads(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Ports[0].FlowControl, p.Ports[0].Cells.Groups[lossless].Headroom = NoFlowControl, 1
	})
	r.introduce()
	r.pause(1, 1<<lossless, 1_000_000)
	r.run(1000)
	for n := range 15 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(5000)
	r.flap()
	r.send(0, data(0, 1, lossless, 60, 15))
	if r.run(5000); !r.port(0).Reads || r.port(0).Groups[lossless].Headroom != 1 {
		t.Errorf("reads %t; %d cells of headroom are in use", r.port(0).Reads, r.port(0).Groups[lossless].Headroom)
	}
}

// TestStalledFramesFollowTheMaps: a reload puts frames that stall into another lossless class. They
// stall by that one, and stay in order with those that come later.
func TestStalledFramesFollowTheMaps(t *testing.T) {
	const before, after = 60, 4
	r := newRig(t, 2, 1, anotherLossless)
	r.introduce()
	r.up(false, 5000)
	r.pause(1, 0xff, 3_000_000)
	for n := range before {
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(100)
	}
	r.run(10_000)
	r.regenerate(func(p *Params) {
		c := bridge.PlainClassifier()
		c.PCP[lossless] = 4
		for i := range p.Bridge.Ports {
			p.Bridge.Ports[i].Classifier = c
		}
	})
	for n := before; n < before+after; n++ {
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(200)
	}
	r.up(true, 50_000)
	r.resume(1, 0xff)
	r.run(1_000_000)
	r.wantInOrder(before + after)
}

// TestHeadroomInUseAtLinkUp: the headroom is in use from before the link comes up, and its peer has
// forgotten XOFF. What it sends until the next XOFF finds no room there, but is not lost.
func TestHeadroomInUseAtLinkUp(t *testing.T) {
	const before = 10 + 5 // shared, and of the headroom
	for _, workers := range []int{1, 2} {
		for _, flaps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d workers, flaps %t", workers, flaps), func(t *testing.T) {
				r := newRig(t, 2, workers, nil)
				r.introduce()
				r.pause(1, 1<<lossless, 1_000_000)
				r.run(1000)
				for n := range before {
					r.send(0, data(0, 1, lossless, 60, n))
				}
				r.run(5000)
				if flaps {
					r.flap()
				} else {
					r.up(false, 5000)
					r.up(true, 0)
				}
				sent := r.sendUntilStopped(before)
				r.run(20_000)
				r.resume(1, 0xff)
				r.run(1_000_000)
				r.wantInOrder(sent)
			})
		}
	}
}

// TestPortReadsOnceNothingWaits: lossless frames wait in the driver behind a burst of lossy ones
// when the link comes up, and the headroom has no room for them.
func TestPortReadsOnceNothingWaits(t *testing.T) {
	const held, lossy, waiting = 60, 64, 40
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless].Headroom = 60
			p.Ports[i].Cells.Queues[1].Limit = 200
			p.Ports[i].Buffers = ringSize
		}
	})
	r.introduce()
	r.pause(1, 1<<lossless, 1_000_000)
	r.run(1000)
	for n := range held {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(10_000)
	r.up(false, 5000)
	for n := range lossy {
		r.send(0, data(0, 2, 1, 60, n))
	}
	for n := range waiting {
		r.send(0, data(0, 1, lossless, 60, held+n))
	}
	r.now += 9000 // for which the worker is held up
	r.wires[0].Advance(r.now)
	r.up(true, 20_000)
	r.resume(1, 0xff)
	r.run(1_000_000)
	r.wantInOrder(held + waiting)
}

// withoutHeadroom returns a rig in which port 0 is down. When its link comes up, there is no memory
// for its headroom while port 1 is paused.
func withoutHeadroom(t *testing.T) *rig {
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			subscribed(1000, 10)(p)
			p.Ports[i].Cells.Groups[0] = cells.GroupParams{Share: 3000}
			p.Ports[i].Cells.Queues[0] = cells.QueueParams{Limit: 3000}
			p.Ports[i].Receiver.Priorities = 0xff
		}
	})
	r.introduce()
	r.up(false, 5000)
	r.hog(2, 3000)
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless].Headroom = 400
			p.Ports[i].Cells.Groups[0].Share = 2000
		}
	})
	return r
}

// TestControlFramesFindBuffers: a peer fills the ring of a port that does not read, and then stops
// the port.
func TestControlFramesFindBuffers(t *testing.T) {
	fill := func(r *rig, frames int) { // while the worker is held up
		for n := range frames {
			r.send(0, data(0, 1, lossless, 60, n))
			r.now += 100
			r.wires[0].Advance(r.now)
		}
	}
	stops := func(t *testing.T, r *rig) {
		t.Helper()
		r.run(20_000)
		fill(r, 16)
		r.control(0, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}})
		if r.run(5000); r.port(0).Reads || r.port(0).Paused != 1<<lossless {
			t.Errorf("reads %t; its peer has stopped it for %#x", r.port(0).Reads, r.port(0).Paused)
		}
		r.resume(0, 0xff)
		r.resume(1, 0xff)
		r.run(3_000_000)
		r.idle()
	}
	t.Run("flap", func(t *testing.T) {
		r := newRig(t, 3, 1, anotherLossless)
		r.introduce()
		r.pause(1, 0xff, 900_000)
		r.run(1000)
		for n := range 12 { // XOFF
			r.send(0, data(0, 1, lossless, 60, n))
			r.run(200)
		}
		r.flap()
		fill(r, r.params.Ports[0].Buffers)
		stops(t, r)
	})
	t.Run("no headroom", func(t *testing.T) {
		r := withoutHeadroom(t)
		r.pause(1, 0xff, 3_000_000)
		fill(r, r.params.Ports[0].Buffers)
		r.up(true, 0)
		stops(t, r)
	})
}

// TestControlFramesAreNoExcess: half of the ring stalls when the link comes up, and control frames
// wait behind. They don't cost as many of the frames that come next.
func TestControlFramesAreNoExcess(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.up(false, 5000)
	r.pause(1, 0xff, 1_000_000)
	half := r.params.Ports[0].Buffers / 2
	for n := range half {
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(200)
	}
	r.run(1000)
	for range 8 {
		r.control(0, pfc.Frame{Enable: 1 << 4, Quanta: [8]uint16{4: 100}})
	}
	r.now += 1000
	r.wires[0].Advance(r.now)
	r.up(true, 0)
	sent := r.sendUntilStopped(half)
	r.run(20_000)
	r.resume(1, 0xff)
	r.run(1_000_000)
	r.wantInOrder(sent)
}

// TestStalledPortCatchesUp: a lossy stream that the worker has time for goes on while the link
// flaps. The port reads again soon.
func TestStalledPortCatchesUp(t *testing.T) {
	r := newRig(t, 4, 1, func(p *Params) {
		p.Budget = 128
		for i := range p.Ports {
			p.Ports[i].Buffers = ringSize
			p.Ports[i].InFlight = 1 << 20
			p.Ports[i].Cells.Groups[1] = cells.GroupParams{Share: 500}
			p.Ports[i].Cells.Queues[1] = cells.QueueParams{Limit: 500}
		}
	})
	r.introduce()
	for n := range 2000 {
		if n == 1000 {
			r.flap()
		}
		for range 100 {
			r.send(0, data(0, 1, 1, 60, n))
			r.now += 68
			for i := range r.wires {
				r.wires[i].Advance(r.now)
				r.collect(i)
			}
		}
		r.s.Workers[0].Step(r.now)
		r.inboxes[0], r.inboxes[1] = nil, nil
	}
	if p := r.port(0); !p.Reads || p.PausedPeer != 0 || p.Dropped() > 0 {
		t.Errorf("reads %t; its peer is stopped for %#x; dropped %v", p.Reads, p.PausedPeer, dropped(p))
	}
}

// TestStalledFramesWaitForAPortThatLeaves: they are forwarded while the peers are held, and only
// then dropped.
func TestStalledFramesWaitForAPortThatLeaves(t *testing.T) {
	const frames = 40
	for _, waits := range []bool{true, false} {
		r := newRig(t, 2, 1, nil)
		r.introduce()
		r.up(false, 5000)
		r.pause(1, 0xff, 1_000_000)
		for n := range frames {
			r.send(0, data(0, 1, lossless, 60, n))
			r.run(200)
		}
		r.up(true, 50_000)
		link := r.plan.Links[0]
		link.Drain = HoldPeers
		if r.relink(0, link, 50_000); r.port(0).Reads {
			t.Fatal("nothing stalls")
		}
		if waits {
			r.resume(1, 0xff)
			r.run(1_000_000)
			r.wantInOrder(frames)
			continue
		}
		r.drain(Refuse)
		r.run(20_000)
		r.resume(1, 0xff)
		r.run(1_000_000)
		got, _ := r.received(1)
		if lost := r.port(0).Drops[drop.Draining][lossless]; len(got)+int(lost) != frames || lost == 0 {
			t.Errorf("%d frames arrived, %d dropped as draining, of %d", len(got), lost, frames)
		}
	}
}

// TestLLDPDoesNotStall: LLDP of the neighbour arrives although there is no memory for the headroom.
func TestLLDPDoesNotStall(t *testing.T) {
	r := withoutHeadroom(t)
	r.up(true, 5000)
	r.send(0, lldp(-1, 60, 0))
	if r.run(5000); r.port(0).Reads || r.port(0).Punted[punt.LLDP] != 1 {
		t.Errorf("reads %t, punted %v", r.port(0).Reads, r.port(0).Punted)
	}
}
