package dataplane

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/drop"
	"sluice/pfc"
)

// agree makes the lossless class lossless on a port, or lossy.
func agree(p *PortParams, agreed bool) {
	g := &p.Cells.Groups[lossless]
	if *g = (cells.GroupParams{Share: 100}); agreed {
		*g = cells.GroupParams{Lossless: true, Share: 100, Headroom: 300, XON: 50}
	}
	p.Generator.Priorities, p.Receiver.Priorities = 0, 0
	if agreed {
		p.Generator.Priorities, p.Receiver.Priorities = 1<<lossless, 1<<lossless
	}
	p.Watchdog = pfc.WatchdogParams{Priorities: p.Receiver.Priorities, Detection: stormTime, Restoration: stormTime}
}

// agreeingRig returns a rig with three ports that have agreed on the lossless class. Its queues
// have no limit, on any port.
func agreeingRig(t *testing.T, workers int) *rig {
	r := newRig(t, 3, workers, func(p *Params) {
		for i := range p.Ports {
			agree(&p.Ports[i], true)
		}
	})
	r.introduce()
	return r
}

// TestEndOfAnAgreement: a port has used headroom for a class and stopped its peer when the class
// becomes lossy there. The peer is resumed, frames that were accepted leave, more than the share is
// dropped and is no alarm, and the class stays lossless on other ports.
func TestEndOfAnAgreement(t *testing.T) {
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			r := agreeingRig(t, workers)
			r.pause(1, 1<<lossless, 3_000_000)
			for i := range 20 { // 10 cells each: twice the share
				r.send(0, data(0, 1, lossless, 1500, i))
				r.run(2000)
			}
			if p := r.port(0); p.PausedPeer != 1<<lossless || p.Groups[lossless].Headroom == 0 {
				t.Fatalf("%#x is stopped, %+v: the test tests nothing", p.PausedPeer, p.Groups[lossless])
			}
			r.inboxes[0] = nil
			r.regenerate(func(p *Params) { agree(&p.Ports[0], false) })
			r.run(1000)
			_, sent := r.received(0)
			if len(sent) != 1 || sent[0].Enable != 1<<lossless || sent[0].Quanta[lossless] != 0 {
				t.Errorf("the peer gets %+v, want XON", sent)
			}
			for i := range 20 {
				r.send(0, data(0, 1, lossless, 1500, 100+i))
				r.send(2, data(2, 1, lossless, 1500, 200+i))
				r.run(2000)
			}
			first, third := r.port(0), r.port(2)
			if first.Groups[lossless].Headroom != 0 || first.Drops[drop.IngressFull][lossless] != 20 ||
				first.PausedPeer != 0 || first.Lossless != 0 {
				t.Errorf("beyond the share of a lossy class: %+v, %d dropped", first.Groups[lossless],
					first.Drops[drop.IngressFull][lossless])
			}
			if third.Groups[lossless].Headroom == 0 || third.PausedPeer != 1<<lossless {
				t.Errorf("where the class is still lossless: %+v, stopped %#x", third.Groups[lossless],
					third.PausedPeer)
			}
			r.resume(1, 1<<lossless)
			r.run(200_000)
			first, third = r.port(0), r.port(2)
			if frames, _ := r.received(1); len(frames) != 40 || first.LosslessDrops()+third.LosslessDrops() != 0 {
				t.Errorf("%d frames arrived, want the 20 of each port", len(frames))
			}
			r.idle()
		})
	}
}

// TestBeginOfAnAgreement: a port holds more of a class than its share when the class becomes
// lossless there. Its peer is stopped with the next frame, and nothing is lost.
func TestBeginOfAnAgreement(t *testing.T) {
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			r := agreeingRig(t, workers)
			r.regenerate(func(p *Params) { agree(&p.Ports[0], false) })
			r.pause(1, 1<<lossless, 3_000_000)
			for i := range 20 {
				r.send(0, data(0, 1, lossless, 1500, i))
				r.run(2000)
			}
			p := r.port(0)
			dropped := p.Drops[drop.IngressFull][lossless]
			if dropped == 0 || p.PFCSent.Frames != 0 {
				t.Fatalf("%d frames dropped, %d PFC frames sent: the test tests nothing", dropped, p.PFCSent.Frames)
			}
			r.regenerate(func(p *Params) { agree(&p.Ports[0], true) })
			for i := range 20 { // 200 cells of headroom
				r.send(0, data(0, 1, lossless, 1500, 100+i))
				r.run(2000)
			}
			p = r.port(0)
			if p.PFCSent.XOFF[lossless] != 1 || p.LosslessDrops() != 0 ||
				p.Drops[drop.IngressFull][lossless] != dropped {
				t.Errorf("%d XOFF, %d lossless drops", p.PFCSent.XOFF[lossless], p.LosslessDrops())
			}
			r.resume(1, 1<<lossless)
			r.run(200_000)
			frames, _ := r.received(1)
			if want := 40 - int(dropped); len(frames) != want || r.port(0).PFCSent.XON[lossless] != 1 {
				t.Errorf("%d frames arrived, want %d", len(frames), want)
			}
			r.idle()
		})
	}
}

// TestAgreementInAFullMemory: the headroom of a new agreement is to be taken from shared memory
// that is in use. Until enough of it is free, the class stays lossy at the port, and no frame is
// lost at a port where the class was lossless before.
func TestAgreementInAFullMemory(t *testing.T) {
	const full = 305 // frames of 10 cells
	r := newRig(t, 3, 1, func(p *Params) {
		for i := range p.Ports {
			agree(&p.Ports[i], i > 0)
			p.Ports[i].Cells.Groups[0].Share = 10
		}
		p.Ports[0].Cells.Groups[lossless].Share = 10 * full
	})
	r.introduce()
	for i := range full {
		if i%100 == 0 {
			r.pause(1, 1<<lossless, 3_000_000)
		}
		r.send(0, data(0, 1, lossless, 1500, i))
		r.run(2000)
	}
	pool, dropped := r.s.Workers[0].Look(r.now).Pools[0], r.lost(drop.IngressFull)
	if pool.Size-pool.Used > 200 || dropped > 30 {
		t.Fatalf("%+v, %d frames dropped: the test tests nothing", pool, dropped)
	}
	r.regenerate(func(p *Params) { agree(&p.Ports[0], true) })
	r.pause(1, 1<<lossless, 3_000_000)
	for i := range 20 {
		r.send(0, data(0, 1, lossless, 1500, full+i))
		r.send(2, data(2, 1, lossless, 1500, i))
		r.run(2000)
	}
	for i, is := range []uint8{0, 1 << lossless, 1 << lossless} {
		p := r.port(i)
		if p.LosslessDrops() != 0 || p.Lossless != is || r.wires[i].A.Stats().Lost() != 0 {
			t.Errorf("port %s: lossless %#x, %d lossless drops, %+v", p.Name, p.Lossless, p.LosslessDrops(),
				p.Groups[lossless])
		}
	}
	if p := r.port(2); p.PausedPeer != 1<<lossless || p.Groups[lossless].Headroom < 100 {
		t.Errorf("%#x is stopped, %+v", p.PausedPeer, p.Groups[lossless])
	}
	r.resume(1, 1<<lossless)
	r.run(2_000_000)
	if frames, _ := r.received(1); len(frames) != full-int(dropped)+20 || r.lost(drop.IngressFull) != dropped+20 {
		t.Errorf("%d frames arrived, want %d", len(frames), full-int(dropped)+20)
	}
	if p := r.port(0); p.Lossless != 1<<lossless {
		t.Errorf("there is room for the headroom, but lossless is %#x", p.Lossless)
	}
	r.idle()
}

// TestPausesWithoutAnAgreement: pauses of a priority that is no longer agreed end at once, and
// others are not honoured; the counters go on.
func TestPausesWithoutAnAgreement(t *testing.T) {
	r := agreeingRig(t, 1)
	pause := pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}}
	r.control(1, pause)
	r.run(1000)
	r.send(0, data(0, 1, lossless, 1500, 1))
	r.run(2 * stormTime)
	if p := r.port(1); p.Queues[lossless].Used == 0 || p.Watchdog.Storming != 1<<lossless {
		t.Fatalf("%+v waits, storms %#x: the test tests nothing", p.Queues[lossless], p.Watchdog.Storming)
	}
	r.regenerate(func(p *Params) { agree(&p.Ports[1], false) })
	r.control(1, pause)
	r.run(10_000)
	p := r.port(1)
	if frames, _ := r.received(1); len(frames) != 1 || p.Paused != 0 || p.PFCReceived.Ignored[lossless] != 1 {
		t.Errorf("%d frames arrived, %#x is paused, %d pauses ignored", len(frames), p.Paused,
			p.PFCReceived.Ignored[lossless])
	}
	if p.Watchdog.Storms[lossless] != 1 || p.Watchdog.Restorations[lossless] != 1 || p.PFCReceived.XOFF[lossless] != 1 {
		t.Errorf("%+v, %d XOFF received", p.Watchdog, p.PFCReceived.XOFF[lossless])
	}
	r.regenerate(func(p *Params) { agree(&p.Ports[1], true) })
	r.control(1, pause)
	r.run(1000)
	if p := r.port(1); p.Paused != 1<<lossless || p.Watchdog.Storms[lossless] != 1 {
		t.Errorf("agreed again: %#x is paused, %+v", p.Paused, p.Watchdog)
	}
}

// TestAgreementsComeAndGo: two lines overload a third, and the class of both becomes lossy and
// lossless again on one of them, at random. Frames are never dropped where their class is lossless,
// all frames of the other line arrive, and the peer is never left in XOFF.
func TestAgreementsComeAndGo(t *testing.T) {
	for _, workers := range []int{1, 2} {
		seed := rand.Uint64()
		t.Logf("%d workers, seed %d", workers, seed)
		random := rand.New(rand.NewPCG(seed, 0))
		c := &converging{rig: agreeingRig(t, workers), loose: [2]bool{true, false}}
		stopped := 0
		for i := range 300 {
			agreed := i%2 == 0
			if !agreed && c.signalled(0)>>lossless&1 == 1 {
				stopped++
			}
			c.regenerate(func(p *Params) { agree(&p.Ports[0], agreed) })
			for range 2 + random.IntN(20) {
				c.step(t)
			}
			if !agreed && c.signalled(0) != 0 {
				t.Fatalf("without an agreement the peer is still stopped: %#x", c.signalled(0))
			}
			for port := range 2 {
				if p := c.port(port); p.LosslessDrops() != 0 || c.wires[port].A.Stats().Lost() != 0 {
					t.Fatalf("port %d: %d lossless drops after %d changes", port, p.LosslessDrops(), i)
				}
			}
		}
		if stopped == 0 || c.port(0).Drops[drop.IngressFull][lossless] == 0 {
			t.Errorf("the peer was stopped in %d changes, %d frames dropped while lossy", stopped,
				c.port(0).Drops[drop.IngressFull][lossless])
		}
		c.run(20_000_000)
		c.judge(t)
		if sent, arrived := c.numbers[1][0], c.seen[1][0]; sent != arrived || sent < 1000 {
			t.Errorf("%d of %d frames of the other line arrived", arrived, sent)
		}
		if err := c.s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestLosslessWhereItCameIn: early detection drops no frame that is lossless at its ingress port,
// even if its class is lossy where it leaves.
func TestLosslessWhereItCameIn(t *testing.T) {
	for _, workers := range []int{1, 2} {
		r := newRig(t, 3, workers, func(p *Params) {
			holdable(p)
			for i := 1; i < 3; i++ {
				g := &p.Ports[i].Cells.Groups[lossless]
				g.Lossless, g.Headroom, g.XON = false, 0, 0
			}
			p.Ports[1].Cells.Queues[lossless].RED = cells.REDParams{Min: 5, Max: 5, Probability: 1}
			p.Ports[1].ECN = 1 << lossless
		})
		r.introduce()
		r.hold(1)
		for i := range 12 {
			r.send(0, data(0, 1, lossless, 60, i))
		}
		r.run(10_000)
		r.send(2, data(2, 1, lossless, 60, 0))
		r.run(10_000)
		r.release(1)
		p := r.port(1)
		frames, _ := r.received(1)
		if len(frames) != 12 || p.Drops[drop.Early][lossless] != 1 || p.LosslessDrops() != 0 {
			t.Errorf("%d frames arrived, %d were dropped early; want 12, and the lossy one", len(frames),
				p.Drops[drop.Early][lossless])
		}
		r.idle()
	}
}
