package dataplane

import (
	"bytes"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
)

// TestHeldDownPortTakesNothing: a port that the control plane holds down can't stop its peer, which
// still has a carrier. It takes no frames.
func TestHeldDownPortTakesNothing(t *testing.T) {
	x := newLines(t, 3, 200, func(p *Params) { rigorously(t, p, 2000) })
	x.relink(nil, func(l []Link) { l[0].Up = false })
	x.run(10_000, nil)
	x.pause(1, 65535)
	x.run(10_000, nil)
	b := data(0, 1, lossless, 60, 0)
	x.run(300_000, func() bool { x.fill(0, lossless, b); return false })
	if p := x.port(0); p.Up || p.RX[lossless] != 0 || p.Dropped() != 0 || len(x.s.Workers[0].ports[0].stalled) == 0 {
		t.Errorf("up %t: received %d, dropped %v", p.Up, p.RX[lossless], dropped(p))
	}
}

// TestFramesWaitForALink: a port that comes up has the frames that its peer sent since the link has
// carrier. If that takes longer than a bridge may keep a frame, they are dropped and counted.
func TestFramesWaitForALink(t *testing.T) {
	for _, test := range []struct {
		wait int64 // ns
		want map[string]uint64
	}{{longestStall / 2, map[string]uint64{}}, {2 * longestStall, map[string]uint64{"link_down/3": 10}}} {
		r := newRig(t, 2, 1, nil)
		r.introduce()
		link := r.plan.Links[0]
		link.Up = false
		r.relink(0, link, 5000)
		for n := range 10 {
			r.send(0, data(0, 1, lossless, 60, n))
		}
		r.run(10_000)
		r.now += test.wait
		r.run(10_000)
		r.wantDrops(0, test.want)
		link.Up = true
		r.relink(0, link, 20_000)
		frames, _ := r.received(1)
		if p := r.port(0); len(frames)+int(p.Dropped()) != 10 || p.Lost.Sum(drop.Reason.Failure) != p.Dropped() {
			t.Errorf("after %d ns %d frames arrived, dropped %v", test.wait, len(frames), dropped(p))
		}
		r.idle()
	}
}

// TestFramesFromBeforeALinkWentDown are forwarded, and nothing is learned from them.
func TestFramesFromBeforeALinkWentDown(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Queues[1].Limit = 200
		}
	})
	r.introduce()
	for n := range 100 {
		r.send(0, data(0, 1, 1, 60, n))
	}
	r.now += 10_000
	r.wires[0].Advance(r.now) // they wait with the driver
	link := r.plan.Links[0]
	link.Up = false
	r.relink(0, link, 50_000)
	if frames, _ := r.received(1); len(frames) != 100 {
		t.Errorf("%d of 100 frames arrived", len(frames))
	}
	if e, known := r.s.Workers[0].bridge.Find(r.now, station0(0), 1); known {
		t.Errorf("%+v is known, though its link is down", e)
	}
	r.idle()
}

// TestNewPortWaitsForItsHeadroom: a port that comes up takes frames only when there is memory for
// its headroom.
func TestNewPortWaitsForItsHeadroom(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[0] = cells.GroupParams{Share: 3000}
			p.Ports[i].Cells.Queues[0] = cells.QueueParams{Limit: 3000}
			p.Ports[i].Receiver.Priorities = 0xff
		}
	})
	r.introduce()
	link := r.plan.Links[0]
	link.Up = false
	r.relink(0, link, 5000)
	r.hog(2, 3000)
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless].Headroom = 400
			p.Ports[i].Cells.Groups[0].Share = 2000
		}
	})
	r.pause(1, 0xff, 65535)
	link.Up = true
	r.relink(0, link, 5000)
	r.send(0, data(0, 2, lossless, 60, 1))
	r.run(20_000)
	if p := r.port(0); p.RX[lossless] > 0 || !p.Up || p.Reads {
		t.Error("it takes frames, although lossy frames hold the memory of its headroom")
	}
	r.resume(1, 0xff)
	r.run(3_000_000)
	if r.port(0).RX[lossless] != 1 {
		t.Error("it takes no frame, although there is memory")
	}
}

// strangers returns the number of frames from host 1 that ports 2 and 3 sent.
func (r *rig) strangers() (n int) {
	for _, port := range []int{2, 3} {
		frames, _ := r.received(port)
		for _, b := range frames {
			if frame.MACFrom(b[6:12]) == station0(1) {
				n++
			}
		}
	}
	return n
}

// TestLearnedBeforeOthersKnowTheLink: two workers. A host sends one frame while its port has no
// link yet, or before the worker of another host knows that it has one. All frames to it go to it
// alone.
func TestLearnedBeforeOthersKnowTheLink(t *testing.T) {
	for _, late := range []int{0, 1} {
		r := newRig(t, 4, 2, nil)
		for i := 1; i < 4; i++ { // all but the host of port 0 are known
			b := data(i, i, 1, 60, 0)
			frame.Broadcast.Put(b)
			r.send(i, b)
		}
		r.run(5000)
		link := r.plan.Links[0]
		link.Up = false
		r.relink(0, link, 5000)
		r.send(0, data(0, 1, 1, 60, 7))
		r.run(3000)
		r.plan.Links[0].Up = true
		r.publish()
		for range 100 { // the worker that is late is in the middle of an iteration
			r.now += 100
			for i := range r.wires {
				r.wires[i].Advance(r.now)
			}
			r.s.Workers[1-late].Step(r.now)
			r.s.Workers[late].pass(r.now)
		}
		r.run(5000)
		r.strangers()
		for i := range r.inboxes {
			r.inboxes[i] = nil
		}
		for n := range 50 {
			r.send(1, data(1, 0, 1, 60, n))
			r.run(2000)
		}
		if n := r.strangers(); n > 0 || len(r.inboxes[0]) != 50 {
			t.Errorf("worker %d late: %d frames reached strangers, %d the host", late, n, len(r.inboxes[0]))
		}
	}
}

// TestAnnouncementsOfAnEarlierLink are ignored, also by a worker that has not seen the link down.
func TestAnnouncementsOfAnEarlierLink(t *testing.T) {
	r := newRig(t, 4, 2, nil)
	r.introduce()
	w, other := r.s.Workers[0], r.s.Workers[1]
	w.announce(announcement{MAC: station0(0x99), VID: 1, Port: 0, Seen: r.now})
	r.plan.Links[0].Up = false
	r.publish()
	r.plan.Links[0].Up = true
	r.publish()
	r.run(10_000)
	for _, mac := range []frame.MAC{station0(0x99), station0(0)} {
		if e, known := other.bridge.Find(r.now, mac, 1); known {
			t.Errorf("%+v is known", e)
		}
	}
}

// TestMovesCrowdNobodyOut: two lossy ports send from the same addresses, so each frame moves one
// and is announced. The announcement of another host still reaches the other worker.
func TestMovesCrowdNobodyOut(t *testing.T) {
	const victim = frame.MAC(0x0200_0000_7777)
	x := newLines(t, 6, 10_000, func(p *Params) {
		p.Workers = 2
		for i := range p.Ports {
			p.Ports[i].Worker, p.Ports[i].InFlight = i%2, 16_000
		}
	})
	n := 0
	storm := func() bool {
		for _, port := range []int{0, 2} {
			for x.free[port] < (x.now+100)*1000 {
				b := data(port, 2-port, 0, 60, 0)
				(frame.MAC(0x0200_0001_0000) + frame.MAC(n/2%3000)).Put(b[6:])
				n++
				x.send(port, b)
			}
		}
		return false
	}
	x.run(1_000_000, storm)
	hello := data(4, 1, 1, 60, 0)
	victim.Put(hello[6:])
	x.send(4, hello)
	x.run(6_000_000, storm) // while it goes on
	e, known := x.s.Workers[1].bridge.Find(x.now, victim, 1)
	if moved := x.s.Workers[0].Look(x.now).Bridge.Moved; !known || e.Port != 4 || moved < 10_000 {
		t.Errorf("known %t at port %d after %d moves", known, e.Port, moved)
	}
}

// TestWorkersAskForUnknownAddresses: a worker that does not know an address that another one knows
// floods a frame, and then knows it.
func TestWorkersAskForUnknownAddresses(t *testing.T) {
	r := newRig(t, 4, 2, nil)
	r.introduce()
	r.s.Workers[1].bridge.Flush(r.now, -1, 0)
	r.run(5000)
	for n := range 20 {
		r.send(1, data(1, 0, 1, 60, n))
		r.run(2000)
	}
	if n := r.strangers(); n != 2 {
		t.Errorf("%d frames reached strangers, want a copy of one for each", n)
	}
}

// TestFramesThatWaitedFindRoom: more frames wait for a link than the headroom of the port holds,
// and they can't leave. The peer is stopped first, and the others wait until there is room.
func TestFramesThatWaitedFindRoom(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Buffers = ringSize
		}
	})
	r.introduce()
	link := r.plan.Links[0]
	link.Up = false
	r.relink(0, link, 5000)
	r.pause(1, 1<<lossless, 65535)
	const frames = 100 // the group has room for 15
	for n := range frames {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(10_000)
	r.inboxes[0] = nil
	link.Up = true
	r.relink(0, link, 50_000)
	if _, told := r.received(0); len(told) == 0 || told[0].Quanta[lossless] == 0 || len(dropped(r.port(0))) > 0 {
		t.Errorf("the peer was sent %+v, dropped %v", told, dropped(r.port(0)))
	}
	for r.port(1).TX[lossless] < frames {
		before := r.port(1).TX[lossless]
		r.pause(1, 1<<lossless, 0)
		r.run(20_000)
		if r.port(1).TX[lossless] == before {
			t.Fatalf("%d of %d frames left: %v", before, frames, dropped(r.port(0)))
		}
	}
	if p := r.port(0); p.PausedPeer != 0 || len(dropped(p)) > 0 {
		t.Errorf("afterwards %#x is stopped, dropped %v", p.PausedPeer, dropped(p))
	}
	r.idle()
}

// TestStalledFrames: more lossless frames wait for a port that comes up than its group takes, since
// the port that they are bound for is paused. Those for which the ring has no room are dropped, the
// others wait. Lossy frames pass them, and a pause takes effect at once.
func TestStalledFrames(t *testing.T) {
	r := newRig(t, 3, 1, nil)
	r.introduce()
	ring, down := r.params.Ports[0].Buffers, r.plan.Links[0]
	down.Up = false
	r.relink(0, down, 5000)
	for n := range ring {
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(200)
	}
	up := r.plan.Links[0]
	up.Up = true
	r.pause(1, 0xff, 1_000_000)
	r.relink(0, up, 20_000)
	dropped := r.port(0).Lost[drop.LinkDown][lossless]
	if p := r.port(0); p.Reads || dropped == 0 || int(dropped) > ring/2 || p.LosslessDrops() != 0 {
		t.Fatalf("reads %t, %d dropped as link_down, %d for lack of room", p.Reads, dropped, p.LosslessDrops())
	}
	r.pause(0, 1<<lossless, 500_000)
	r.send(0, data(0, 2, 1, 60, ring))
	r.run(5000)
	if frames, _ := r.received(2); r.port(0).Paused != 1<<lossless || len(frames) != 1 {
		t.Errorf("paused %#x; %d lossy frames have passed, want 1", r.port(0).Paused, len(frames))
	}
	r.resume(1, 0xff)
	r.run(1_000_000)
	frames, _ := r.received(1)
	if p := r.port(0); !p.Reads || len(frames)+int(dropped) != ring || p.LosslessDrops() != 0 {
		t.Errorf("reads %t, %d frames arrived of %d", p.Reads, len(frames), ring)
	}
	for n := range frames {
		if !bytes.Equal(frames[n], data(0, 1, lossless, 60, n)) {
			t.Fatalf("frame %d is out of order", n)
		}
	}
	r.idle()
}

// TestPortWithoutLinkTakesNoTime: a peer that sends all the time to a port which is held down costs
// a worker no more than a burst in each iteration.
func TestPortWithoutLinkTakesNoTime(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	down := r.plan.Links[0]
	down.Up = false
	r.relink(0, down, 5000)
	w, a := r.s.Workers[0], r.wires[0].A
	for n := range 3 * w.quantum {
		r.send(0, data(0, 1, 1, 60, n))
		r.now += 100
		r.wires[0].Advance(r.now)
		r.collect(0)
	}
	for waiting := a.Waiting(); waiting > 0; waiting = a.Waiting() {
		if w.Step(r.now); a.Waiting() < waiting-burstSize {
			t.Fatalf("takes %d frames in an iteration", waiting-a.Waiting())
		}
	}
}
