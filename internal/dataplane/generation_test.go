package dataplane

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/sched"
)

// regenerate publishes a generation with changed parameters.
func (r *rig) regenerate(change func(*Params)) {
	r.t.Helper()
	p := r.params
	p.Ports = append([]PortParams(nil), p.Ports...)
	p.Bridge.Ports = append([]bridge.PortParams(nil), p.Bridge.Ports...)
	change(&p)
	g, err := r.s.Prepare(p)
	if err != nil {
		r.t.Fatal(err)
	}
	r.params, r.plan.Generation = p, g
	r.publish()
}

// converging is two partners that send frames of a lossless and of a lossy class to a third port at
// line rate. They honour pauses of the lossless class.
type converging struct {
	*rig
	numbers [2][2]int // of the last frame sent, by partner and class
	seen    [2][2]int // of the last frame that arrived, likewise; or 0
	lossy   [2]int    // lossy frames arrived, by partner
	loose   [2]bool   // the lossless class is not always lossless for the partner
}

var classesOf = [2]uint8{lossless, 0}

// step runs an iteration of 10 µs, in which each line carries about eight frames of 1500 bytes.
func (c *converging) step(t *testing.T) {
	for from := range 2 {
		paused := c.signalled(from)
		for turn := 0; c.wires[from].InFlight() < 12; turn++ {
			kind := turn % 2
			if paused>>classesOf[kind]&1 == 1 {
				kind = 1
			}
			c.numbers[from][kind]++
			c.send(from, data(from, 2, classesOf[kind], 1500, c.numbers[from][kind]))
		}
	}
	c.now += 10_000
	for _, w := range c.wires {
		w.Advance(c.now)
	}
	for _, w := range c.s.Workers {
		w.Step(c.now)
	}
	for i := range c.wires {
		for range 4 {
			c.collect(i)
		}
	}
	c.judge(t)
}

// judge checks the frames that have arrived at the third port: lossless frames complete and in
// order, lossy ones in order.
func (c *converging) judge(t *testing.T) {
	t.Helper()
	for _, b := range c.inboxes[2] {
		var h frame.Header
		if frame.Parse(b, &h) != frame.OK || h.Type == frame.TypeMACControl {
			continue
		}
		from, number := int(h.Src-station0(0)), int(binary.BigEndian.Uint32(b[h.Payload:]))
		if from > 1 {
			continue // of a port that was added
		}
		if b[14]>>5 != lossless {
			c.lossy[from]++
			if number <= c.seen[from][1] {
				t.Fatalf("at %d: lossy frame %d of %d after frame %d", c.now, number, from, c.seen[from][1])
			}
			c.seen[from][1] = number
			continue
		}
		if next := c.seen[from][0] + 1; number < next || number > next && !c.loose[from] {
			t.Fatalf("at %d: lossless frame %d of %d after frame %d", c.now, number, from, c.seen[from][0])
		}
		c.seen[from][0] = number
	}
	c.inboxes[2] = c.inboxes[2][:0]
}

// shuffle changes everything that a reload may change, except which class is lossless.
func shuffle(random *rand.Rand, p *Params) {
	for i := range p.Ports {
		port := &p.Ports[i]
		g := &port.Cells.Groups[lossless]
		g.Share, g.Headroom, g.Reserved = 10+random.IntN(150), 300+random.IntN(150), random.IntN(20)
		g.XON = random.IntN(g.Share)
		port.Cells.Groups[0].Share = 50 + random.IntN(150)
		port.Cells.Queues[0].Limit = 20 + random.IntN(200)
		port.InFlight = 8<<10 + random.IntN(16<<10)
		port.Generator.Quanta = uint16(1000 + random.IntN(60000))
		port.Watchdog = pfc.WatchdogParams{
			Priorities: uint8(random.IntN(2) << lossless), Detection: 1e9, Restoration: 1e9,
			Action: pfc.Action(random.IntN(3)),
		}
		port.Sched.Groups = make([]sched.GroupParams, 1+random.IntN(3))
		for q := range port.Sched.Queues {
			port.Sched.Queues[q] = sched.QueueParams{
				Group:  random.IntN(len(port.Sched.Groups)),
				TSA:    []sched.TSA{sched.ETS, sched.StrictPriority}[random.IntN(2)],
				Weight: 1 + random.IntN(20),
			}
		}
		for n := range port.Sched.Groups {
			port.Sched.Groups[n] = sched.GroupParams{TSA: sched.ETS, Weight: 1 + random.IntN(9)}
		}
		p.Bridge.Ports[i].Limit = random.IntN(100)
	}
	p.Bridge.Ageing = 1e9 + int64(random.IntN(1e9))
}

// TestThousandGenerations changes everything a thousand times while two lines overload a third. All
// lossless frames arrive, in order; lossy ones arrive in order; nothing leaks. One change in ten
// adds a port or removes it.
func TestThousandGenerations(t *testing.T) {
	for _, workers := range []int{1, 2} {
		seed := rand.Uint64()
		t.Logf("%d workers, seed %d", workers, seed)
		random := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t, 3, workers, func(p *Params) { shuffle(random, p) })
		r.introduce()
		c := &converging{rig: r}
		for i := range 1000 {
			r.regenerate(func(p *Params) {
				shuffle(random, p)
				if i%10 == 9 {
					comeAndGo(r, p, i/10)
				}
			})
			for range 1 + random.IntN(10) {
				c.step(t)
			}
			if i%50 == 0 {
				if err := r.s.Check(); err != nil {
					t.Fatalf("after %d changes: %v", i+1, err)
				}
			}
		}
		for from := range 2 {
			sent, arrived := c.numbers[from][0], c.seen[from][0]
			if sent-arrived > 2000 || arrived < 1000 || c.lossy[from] < 1000 {
				t.Errorf("partner %d: lossless %d of %d arrived, lossy %d of %d", from, arrived, sent, c.lossy[from],
					c.numbers[from][1])
			}
		}
		r.run(20_000_000)
		c.judge(t)
		for from := range 2 {
			if sent, arrived := c.numbers[from][0], c.seen[from][0]; sent != arrived {
				t.Errorf("partner %d: lossless %d of %d arrived", from, arrived, sent)
			}
		}
		for i := range 3 {
			p := r.port(i)
			if lost := r.wires[i].A.Stats().Lost(); lost != 0 || p.LosslessDrops() != 0 {
				t.Errorf("port %d: %d frames lost in the driver, %d lossless ones behind it", i, lost,
					p.LosslessDrops())
			}
		}
		if err := r.s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// comeAndGo adds a port with number 3, or makes the number vacant.
func comeAndGo(r *rig, p *Params, n int) {
	fourth := testPort(3, 0)
	vacancy := PortParams{Vacant: true, Worker: 0}
	nowhere := bridge.PortParams{VLANs: new(bridge.VLANSet), Peer: -1}
	if len(p.Ports) == 3 {
		p.Ports, p.Bridge.Ports = append(p.Ports, fourth), append(p.Bridge.Ports, bridge.PortParams{})
		r.plan.Links = append(r.plan.Links, Link{Closed: true})
		return
	}
	if p.Ports[3].Vacant {
		fourth.Name = string(rune('d' + n%5))
		p.Ports[3], p.Bridge.Ports[3] = fourth, bridge.PortParams{}
		return
	}
	p.Ports[3], p.Bridge.Ports[3] = vacancy, nowhere
}

// TestLosslessDropsAreRemembered checks that drops of a class while it was lossless count for ever,
// and that drops before or after do not.
func TestLosslessDropsAreRemembered(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[1].InFlight = 1 })
	r.introduce()
	r.control(1, pfc.Frame{Enable: 0xff, Quanta: [8]uint16{0: 65535, 3: 65535}})
	r.run(1000)
	for i := range 200 { // port 1 is paused in CoS 3; the partner at port 0 ignores pauses
		r.send(0, data(0, 1, lossless, 1500, i))
		r.run(2000)
	}
	before := r.port(0)
	lost := before.LosslessDrops()
	if lost == 0 {
		t.Fatal("nothing was lost: the test tests nothing")
	}
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			g := &p.Ports[i].Cells.Groups[lossless]
			g.Lossless, g.Headroom, g.XON = false, 0, 0
		}
	})
	for i := range 50 {
		r.send(0, data(0, 1, lossless, 1500, i))
		r.run(2000)
	}
	p := r.port(0)
	if more := p.Drops[drop.IngressFull][lossless]; p.LosslessDrops() != lost || more == 0 {
		t.Errorf("%d lossless drops after %d, %d of the class since it is lossy", p.LosslessDrops(), lost, more)
	}
	r.relink(0, Link{}, 1000)
	r.relink(0, Link{Closed: true}, 1000)
	r.regenerate(func(p *Params) {
		p.Ports[0] = PortParams{Vacant: true}
		p.Bridge.Ports[0] = bridge.PortParams{VLANs: new(bridge.VLANSet)}
	})
	r.run(1000)
	if s := r.s.Workers[0].Look(r.now); s.Departed != lost || !s.Ports[0].Vacant {
		t.Errorf("of ports that are gone: %d lossless drops, want %d", s.Departed, lost)
	}
	if err := r.s.Check(); err != nil {
		t.Error(err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	for name, change := range map[string]func(*Params){
		"fewer ports":      func(p *Params) { p.Ports, p.Bridge.Ports = p.Ports[:1], p.Bridge.Ports[:1] },
		"other worker":     func(p *Params) { p.Ports[0].Worker = 1 },
		"other buffers":    func(p *Params) { p.Ports[0].Buffers++ },
		"other cells":      func(p *Params) { p.CellSize++ },
		"more workers":     func(p *Params) { p.Workers++ },
		"promises too big": func(p *Params) { p.Ports[0].Cells.Groups[0].Reserved = 1 << 20 },
		"no refresh":       func(p *Params) { p.Ports[0].Generator.Refresh = p.Ports[0].Generator.Quanta },
		"wrong weights":    func(p *Params) { p.Ports[1].Sched.Queues[0].Weight = -1 },
		"other mode":       func(p *Params) { p.Bridge.Mode = bridge.Wire },
	} {
		p := r.params
		p.Ports = append([]PortParams(nil), p.Ports...)
		change(&p)
		if g, err := r.s.Prepare(p); err == nil || g != nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestVacantPortsHaveNoBudget checks that removed ports do not make iterations longer than the
// response of the remaining ports allows.
func TestVacantPortsHaveNoBudget(t *testing.T) {
	const ports = 16
	r := newRig(t, ports, 1, func(p *Params) { p.Budget = 64 })
	w := r.s.Workers[0]
	if w.budget.Size != budget.LeastBurst*ports || w.quantum != budget.LeastBurst {
		t.Fatalf("%d ports have a budget of %d frames, %d each", ports, w.budget.Size, w.quantum)
	}
	for i := 2; i < ports; i++ {
		r.relink(i, Link{}, 100)
		r.relink(i, Link{Closed: true}, 100)
	}
	r.regenerate(func(p *Params) {
		for i := 2; i < ports; i++ {
			p.Ports[i], p.Bridge.Ports[i] = PortParams{Vacant: true}, bridge.PortParams{VLANs: new(bridge.VLANSet),
				Peer: -1}
		}
	})
	r.run(1000)
	if w.budget.Size != 64 || w.quantum != 32 {
		t.Errorf("2 ports have a budget of %d frames, %d each, want 64 and 32", w.budget.Size, w.quantum)
	}
}

// TestLateIterations checks that an iteration counts as late by the shortest response at its time,
// and stays counted when the response becomes longer.
func TestLateIterations(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[0].Response, p.Ports[1].Response = 1e9, 1e9 })
	w, now := r.s.Workers[0], r.now
	for _, step := range []struct {
		shortest int64 // response of the second port, ns
		gap      int64 // one more gap, ns
		late     uint64
		waits    uint64 // late sums: the gap with the one before, or with the one after, which are 0
	}{
		{1000, 100_000, 1, 1},
		{1000, 1_000_000, 2, 3},
		{400_000, 100_000, 2, 4}, // late only by the response before
		{400_000, 400_001, 3, 5},
		{10_000, 10_001, 4, 7},
		{10_000, 10_000, 4, 8},
		{0, 1, 5, 9},
	} {
		r.regenerate(func(p *Params) { p.Ports[0].Response, p.Ports[1].Response = step.shortest*1000, step.shortest })
		w.Step(now) // takes the new response
		now += step.gap
		w.Step(now)
		if got := w.Look(now).Gap; got.Late != step.late || got.LateWaits != step.waits {
			t.Errorf("with a response of %d and one more gap of %d ns: %d late iterations and %d late waits, want "+
				"%d and %d",
				step.shortest, step.gap, got.Late, got.LateWaits, step.late, step.waits)
		}
	}
}
