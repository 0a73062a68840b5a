package dataplane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
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

// congest has port 1 paused for ns nanoseconds, and port 0 send it lossless frames.
func (r *rig) congest(frames int, ns int64) {
	r.pause(1, 1<<lossless, ns)
	r.run(1000)
	for n := range frames {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(5000)
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
	r.congest(15, 1_000_000)
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
				r.congest(before, 1_000_000)
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

// stream has port 0 send lossy frames to port 2 for ns nanoseconds, one in each iteration, and
// returns how many of them arrived there.
func (r *rig) stream(ns int64) (arrived int) {
	r.received(2)
	for n := range ns / 100 {
		r.send(0, data(0, 2, 1, 60, int(n)))
		r.run(100)
	}
	frames, _ := r.received(2)
	return len(frames)
}

// TestStalledPortReadsAfterAnOverrun: what stalls for a time leaves no room for lossy frames. Once
// it can be forwarded, the port reads again, although a lossy stream goes on.
func TestStalledPortReadsAfterAnOverrun(t *testing.T) {
	overruns := map[string]func() *rig{
		"no headroom": func() *rig {
			r := withoutHeadroom(t)
			r.pause(1, 0xff, 3_000_000)
			r.up(true, 0)
			return r
		},
		"headroom in use": func() *rig {
			r := newRig(t, 3, 1, func(p *Params) {
				for i := range p.Ports {
					p.Ports[i].Cells.Groups[lossless].Headroom = 120
				}
			})
			r.introduce()
			r.pause(1, 1<<lossless, 1_000_000)
			for n := range 130 + 110 { // shared and in the headroom; and until the peer stops
				if r.send(0, data(0, 1, lossless, 60, n)); n == 130 {
					r.flap()
				}
				r.run(100)
			}
			return r
		},
	}
	for how, overrun := range overruns {
		t.Run(how, func(t *testing.T) {
			r := overrun()
			r.stream(30_000)
			r.resume(1, 0xff)
			r.stream(1_000_000)
			if n, p := r.stream(100_000), r.port(0); !p.Reads || p.PausedPeer != 0 || n < 990 {
				t.Errorf("reads %t; its peer is stopped for %#x; %d of 1000 frames pass", p.Reads, p.PausedPeer, n)
			}
		})
	}
}

// TestFloodsOfStalledPortsKeepToTheBudget: broadcasts stall at all ports. An iteration makes no
// more copies of them than otherwise.
func TestFloodsOfStalledPortsKeepToTheBudget(t *testing.T) {
	const ports = 16
	copies := func(stalls bool) (n uint64) {
		r := newRig(t, ports, 1, func(p *Params) {
			p.Budget = 128
			for i := range p.Ports {
				p.Ports[i].Buffers = 64
				for class := range p.Ports[i].Cells.Groups {
					if class != lossless {
						p.Ports[i].Cells.Groups[class] = cells.GroupParams{Share: 1}
					}
				}
				p.Ports[i].Cells.Groups[1].Share = 60
			}
		})
		r.introduce()
		for i := range ports {
			if stalls {
				r.plan.Links[i].Flaps++
			}
			n -= r.port(i).FloodCopies
			for k := range 30 {
				b := data(i, i, 1, 60, k)
				frame.Broadcast.Put(b)
				r.send(i, b)
			}
		}
		r.publish()
		r.now += 5000
		for i := range r.wires {
			r.wires[i].Advance(r.now)
		}
		r.s.Workers[0].Step(r.now)
		r.now += 2 * snapshotInterval
		for i := range ports {
			n += r.port(i).FloodCopies
		}
		return n
	}
	if reads, stalls := copies(false), copies(true); stalls == 0 || stalls > reads {
		t.Errorf("%d copies in an iteration, %d if the ports read", stalls, reads)
	}
}

// shy is a driver whose next frame has more parts than a burst.
type shy struct{ pmd.Port }

func (shy) Waiting() int           { return 1 }
func (shy) Receive([]pmd.Desc) int { return 0 }

// TestPeerOfAStalledPortIsLetGo: its port was behind when others had spent the budget.
func TestPeerOfAStalledPortIsLetGo(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) { p.Budget = 64 })
	r.introduce()
	r.congest(12, 200_000)
	r.flap()
	r.run(1000)
	p := r.s.Workers[0].ports[0]
	driver := p.driver
	p.driver = shy{driver}
	for n := range 100 {
		r.send(2, data(2, 0, 1, 60, n))
	}
	r.now += 10_000
	r.run(1000)
	p.driver = driver
	r.resume(1, 0xff)
	r.run(2_000_000)
	if p := r.port(0); !p.Reads || p.PausedPeer != 0 {
		t.Errorf("reads %t; its peer is stopped for %#x", p.Reads, p.PausedPeer)
	}
}

// TestStalledBurstIsWhole: floods have made the burst of a port short, before it stalls.
func TestStalledBurstIsWhole(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.congest(15, 1_000_000)
	r.flap()
	p := r.s.Workers[0].ports[0]
	p.burst = 1
	r.send(0, data(0, 1, lossless, 60, 15))
	if r.run(5000); p.reads || p.burst != r.s.Workers[0].quantum {
		t.Errorf("reads %t; receives %d frames at once", p.reads, p.burst)
	}
}

// TestStormDoesNotStall: a class that the watchdog drops stalls at no port.
func TestStormDoesNotStall(t *testing.T) {
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Watchdog = pfc.WatchdogParams{Priorities: 0xff, Detection: stormTime, Restoration: stormTime,
				Action: pfc.Drop}
		}
	})
	r.introduce()
	r.pause(1, 0xff, 800_000)
	r.run(1000)
	for n := range 15 {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	r.run(3000)
	link := r.plan.Links[0]
	link.Storm = 1 << lossless
	r.relink(0, link, 1000)
	r.flap()
	r.run(1000)
	const frames = 50
	for n := range frames {
		r.send(0, data(0, 1, lossless, 60, n))
		r.run(200)
	}
	r.run(1000)
	if p := r.port(0); p.Reads || p.Drops[drop.Storm][lossless] != frames {
		t.Errorf("reads %t; dropped %v", p.Reads, dropped(p))
	}
}

// TestFramesLikeLLDPStall: the type alone makes no LLDP.
func TestFramesLikeLLDPStall(t *testing.T) {
	like := func(n int) []byte {
		b := data(0, 1, lossless, 60, n)
		binary.BigEndian.PutUint16(b[16:], frame.TypeLLDP)
		return b
	}
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.pause(1, 1<<lossless, 1_000_000)
	r.run(1000)
	for n := range 15 {
		r.send(0, like(n))
	}
	r.run(5000)
	r.flap()
	for n := range 4 {
		r.send(0, like(15+n))
	}
	r.run(20_000)
	r.resume(1, 0xff)
	r.run(1_000_000)
	r.wantInOrder(19)
}

// TestStalledFramesOutlastASecond: a link is up, and there is no memory for its headroom for longer
// than a second. Its peer is stopped, so what has come in is kept.
func TestStalledFramesOutlastASecond(t *testing.T) {
	const frames = 10
	r := withoutHeadroom(t)
	r.pause(1, 0xff, 3_000_000)
	r.up(true, 5000)
	for n := range frames {
		r.send(0, data(0, 1, lossless, 60, n))
	}
	for range 1000 {
		r.now += 1_200_000
		r.pause(1, 0xff, 3_000_000)
		r.run(500)
	}
	if p := r.port(0); p.Reads || p.PausedPeer != 1<<lossless || p.Dropped() > 0 {
		t.Errorf("reads %t; its peer is stopped for %#x; dropped %v", p.Reads, p.PausedPeer, dropped(p))
	}
	r.resume(1, 0xff)
	r.run(3_000_000)
	if p := r.port(0); !p.Reads || p.Dropped() > 0 || p.RX[lossless] != frames {
		t.Errorf("reads %t; took %d frames; dropped %v", p.Reads, p.RX[lossless], dropped(p))
	}
}

// TestStalledPortCatchesUp: a lossy stream that the worker has time for goes on while the link
// flaps, or is down for a while. The port reads again soon.
func TestStalledPortCatchesUp(t *testing.T) {
	t.Run("flap", func(t *testing.T) {
		testCatchesUp(t, 100, map[int]func(*rig){1000: (*rig).flap})
	})
	for _, frames := range []int{2, 40, 100} {
		t.Run(fmt.Sprint("down, ", frames), func(t *testing.T) {
			testCatchesUp(t, frames, map[int]func(*rig){
				1000: func(r *rig) { r.up(false, 100) },
				1100: func(r *rig) { r.up(true, 100) },
			})
		})
	}
}

// testCatchesUp sends so many frames in each iteration. Before some, by number, something happens.
func testCatchesUp(t *testing.T, frames int, events map[int]func(*rig)) {
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
		if event := events[n]; event != nil {
			event(r)
		}
		for range frames {
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
	if p := r.port(0); !p.Reads || p.PausedPeer != 0 {
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
