package dataplane

import (
	"testing"
	"time"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/linux/umem"
	"sluice/pfc"
)

// addPort adds an absent port behind the existing ones.
func (r *rig) addPort(p *Params, worker int, change func(*PortParams)) {
	port := testPort(len(p.Ports), worker)
	if change != nil {
		change(&port)
	}
	p.Ports, p.Bridge.Ports = append(p.Ports, port), append(p.Bridge.Ports, bridge.PortParams{})
	r.plan.Links = append(r.plan.Links, Link{Closed: true})
}

// TestFramesForAPortThatAnotherWorkerDoesNotKnowYet sends frames to a new port, by a static entry,
// before all workers have changed over to its generation.
func TestFramesForAPortThatAnotherWorkerDoesNotKnowYet(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	r.introduce()
	p := r.params
	p.Ports = append([]PortParams(nil), p.Ports...)
	p.Bridge.Ports = append([]bridge.PortParams(nil), p.Bridge.Ports...)
	r.addPort(&p, 1, nil)
	p.Bridge.Static = []bridge.StaticEntry{{MAC: station0(2), Port: 2}}
	g, err := r.s.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	r.params, r.plan.Generation = p, g
	plan := r.plan
	r.s.Workers[0].plan.Store(&plan) // half of Publish
	r.send(0, data(0, 2, lossless, 1000, 1))
	r.run(5000)
	r.s.Workers[1].plan.Store(&plan)
	r.run(5000)
	if n := r.port(2).Drops[drop.PortDown][lossless]; n != 1 {
		t.Errorf("%d frames dropped at the port that is down, want 1", n)
	}
	r.idle()
}

// TestSnapshotForgetsWhatIsGone checks that a snapshot has no state of flow control or a watchdog
// that the port no longer has.
func TestSnapshotForgetsWhatIsGone(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Ports[1].Watchdog = pfc.WatchdogParams{Priorities: 1 << lossless, Detection: 1e9, Restoration: 1e9}
	})
	r.introduce()
	snapshot := func() PortSnapshot {
		got := make(chan Snapshot)
		go func() {
			s, err := r.s.Workers[0].Snapshot(time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		for {
			select {
			case s := <-got:
				return s.Ports[1]
			default:
				r.run(100_000)
			}
		}
	}
	r.plan.Links[1].Storm = 1 << lossless
	r.publish()
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}})
	r.run(1000)
	if s := snapshot(); s.PFCReceived.Frames != 1 || s.Watchdog.Storming == 0 || s.Guard.Priorities == 0 {
		t.Fatalf("received %d, storming %#x, guard %+v", s.PFCReceived.Frames, s.Watchdog.Storming, s.Guard)
	}
	r.regenerate(func(p *Params) { p.Ports[1].FlowControl = NoFlowControl })
	r.run(1000)
	if s := snapshot(); s.PFCReceived.Frames != 0 || s.Watchdog.Storming != 0 || s.Guard.Priorities != 0 ||
		s.Paused != 0 {
		t.Errorf("without flow control: received %d, storming %#x, guard %+v", s.PFCReceived.Frames,
			s.Watchdog.Storming, s.Guard)
	}
}

// TestPortAddedWhileNoBufferIsFree checks that a port added while frames hold all buffers gets
// those for its PFC frames later.
func TestPortAddedWhileNoBufferIsFree(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) {
		p.CellSize = bufferSize
		for i := range p.Ports {
			p.Ports[i].Buffers = 64
			p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Lossless: true,
				Share: 4096 - 2*(64+OwnBuffers) - 101, Headroom: 1 + 99*(1-i), XON: 4}
		}
	})
	r.introduce()
	hold := pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}}
	for i := range 5000 { // port 1 is paused
		if i%1000 == 0 {
			r.control(1, hold)
			r.run(500)
		}
		r.send(0, data(0, 1, lossless, 60, i))
		r.run(300)
	}
	if free := r.s.Workers[0].Look(r.now).Free; free >= OwnBuffers {
		t.Fatalf("%d buffers are free: the test tests nothing", free)
	}
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless].Share -= 268
		}
		r.addPort(p, 0, func(port *PortParams) {
			port.Buffers = 64
			port.Cells.Groups[lossless] = p.Ports[0].Cells.Groups[lossless]
			port.Cells.Groups[lossless].Headroom = 10
		})
	})
	r.run(200)
	r.wires, r.sent, r.inboxes = append(r.wires, nil), append(r.sent, 0), append(r.inboxes, nil)
	r.memory = append(r.memory, make([]byte, 2*ringSize*bufferSize)...)
	w := r.newWire(2)
	r.wires[2] = w
	w.A.Fill(r.s.Parked(2))
	r.relink(2, Link{Driver: w.A, Up: true, TXRing: ringSize}, 1000)
	r.control(1, pfc.Frame{Enable: 1 << lossless}) // port 1 may send again
	r.run(10_000_000)
	if b := r.port(2).Buffers; b.Spare != OwnBuffers || b.Filled != 64 || b.Ring != 64 {
		t.Errorf("when all frames have left: %+v", b)
	}
	r.idle()
}

// TestNumberReusedWithoutWatermarks checks that a port does not start with the watermarks of the
// former port with its number.
func TestNumberReusedWithoutWatermarks(t *testing.T) {
	r := newRig(t, 3, 1, nil)
	r.introduce()
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 1000}})
	r.run(1000)
	r.send(2, data(2, 1, lossless, 1500, 1))
	r.run(100_000)
	if p := r.port(2); p.Groups[lossless].PeakShared == 0 {
		t.Fatalf("%+v", p.Groups)
	}
	r.relink(2, Link{}, 1000)
	r.relink(2, Link{Closed: true}, 1000)
	r.regenerate(func(p *Params) {
		p.Ports[2], p.Bridge.Ports[2] = PortParams{Vacant: true}, bridge.PortParams{VLANs: new(bridge.VLANSet),
			Peer: -1}
	})
	r.run(1000)
	r.regenerate(func(p *Params) {
		p.Ports[2], p.Bridge.Ports[2] = testPort(2, 0), bridge.PortParams{}
		p.Ports[2].Name = "other"
	})
	r.run(1000)
	for i, p := 0, r.port(2); i < Priorities; i++ {
		if g, q := p.Groups[i], p.Queues[i]; g != (cells.GroupUsage{}) || q != (cells.QueueUsage{}) {
			t.Errorf("class %d begins with %+v, %+v", i, g, q)
		}
	}
}

// TestPauseReceivedOutlastsItsKind checks that a received pause lasts until it expires even if the
// kind of flow control changes.
func TestPauseReceivedOutlastsItsKind(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}})
	r.run(1000)
	r.regenerate(func(p *Params) { p.Ports[1].FlowControl = LinkPause })
	r.run(1000)
	r.send(0, data(0, 1, lossless, 1000, 1))
	r.run(100_000)
	if frames, _ := r.received(1); len(frames) != 0 {
		t.Errorf("%d frames were sent to a partner that had said XOFF", len(frames))
	}
	r.run(4_000_000)
	if frames, _ := r.received(1); len(frames) != 1 {
		t.Errorf("%d frames were sent when the pause had run out", len(frames))
	}
}

// TestAbsentPortsCostNothing checks that many numbers without a driver, in a large memory, do not
// slow down the adoption of a plan.
func TestAbsentPortsCostNothing(t *testing.T) {
	memory, err := umem.Map(1<<16, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	p := Params{Memory: memory, CellSize: 160, Workers: 1, Ports: []PortParams{testPort(0, 0)},
		Bridge: bridge.Params{Ports: make([]bridge.PortParams, 64)}}
	for len(p.Ports) < len(p.Bridge.Ports) {
		p.Ports = append(p.Ports, PortParams{Vacant: true})
	}
	s, err := NewSwitch(p)
	if err != nil {
		t.Fatal(err)
	}
	const enough = 500 * time.Microsecond
	fastest := time.Hour
	for now := range int64(20) {
		plan := &Plan{Links: make([]Link, len(p.Ports))}
		for i := range plan.Links {
			plan.Links[i].Closed = true
		}
		s.Publish(plan)
		start := time.Now()
		s.Workers[0].Step(now)
		fastest = min(fastest, time.Since(start))
	}
	if fastest > enough {
		t.Errorf("a plan is adopted in %v at best", fastest)
	}
}

// TestGenerationsAreTakenInTurn checks that Publish panics if a generation would be left out,
// because each engine takes over from the one before it.
func TestGenerationsAreTakenInTurn(t *testing.T) {
	prepare := func(r *rig) *Generation {
		g, err := r.s.Prepare(r.params)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	publish := func(r *rig, g *Generation) (refused any) {
		defer func() { refused = recover() }()
		r.plan.Generation = g
		r.publish()
		return nil
	}
	for _, c := range []struct {
		name string
		do   func(r *rig) (refused any)
		want bool
	}{
		{"in turn", func(r *rig) any { r.regenerate(func(*Params) {}); r.run(100); return publish(r, prepare(r)) },
			false},
		{"once more", func(r *rig) any { r.regenerate(func(*Params) {}); return publish(r, r.plan.Generation) }, false},
		{"before a worker runs the last", func(r *rig) any {
			r.regenerate(func(*Params) {})
			r.s.Workers[0].Step(r.now + 1)
			return publish(r, prepare(r))
		}, true},
		{"prepared before the last was published", func(r *rig) any {
			g := prepare(r)
			r.regenerate(func(*Params) {})
			r.run(100)
			return publish(r, g)
		}, true},
		{"back to an earlier one", func(r *rig) any {
			r.regenerate(func(*Params) {})
			g := r.plan.Generation
			r.run(100)
			r.regenerate(func(*Params) {})
			r.run(100)
			return publish(r, g)
		}, true},
	} {
		if refused := c.do(newRig(t, 2, 2, nil)); (refused != nil) != c.want {
			t.Errorf("%s: %v", c.name, refused)
		}
	}
}

// TestPortAddedLeavesHeadroomAlone checks that a new port takes no buffers that are promised to
// frames bound for other ports, and gets them when frames have left.
func TestPortAddedLeavesHeadroomAlone(t *testing.T) {
	const headroom = 1000
	r := newRig(t, 2, 1, func(p *Params) {
		p.CellSize = bufferSize
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 2000,
				Headroom: headroom * (1 - i), XON: 4}
		}
		p.Ports[1].Cells.Groups[lossless].Headroom = 1
	})
	r.introduce()
	send := func(n int) {
		for i := range n {
			if i%1000 == 0 {
				r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}})
			}
			r.send(0, data(0, 1, lossless, 60, i))
			r.run(300)
		}
	}
	for r.port(0).Groups[lossless].Headroom == 0 { // until XOFF
		send(1)
	}
	r.regenerate(func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless].Share = 1500
		}
		r.addPort(p, 0, func(port *PortParams) {
			port.Buffers = 1200
			port.Cells.Groups = [Priorities]cells.GroupParams{}
		})
	})
	send(headroom - 1) // all that the headroom holds
	p := r.port(0)
	if lost := r.wires[0].A.Stats().Lost(); lost != 0 || p.LosslessDrops() != 0 ||
		p.Groups[lossless].Headroom != headroom {
		t.Errorf("%d frames lost in the driver, %d behind it; %d cells of headroom in use", lost, p.LosslessDrops(),
			p.Groups[lossless].Headroom)
	}
	r.control(1, pfc.Frame{Enable: 1 << lossless})
	r.run(10_000_000)
	r.publish()
	r.run(1000)
	if n := len(r.s.Parked(2)); n != 1200 {
		t.Errorf("%d buffers of 1200 when there are enough", n)
	}
	if err := r.s.Check(); err != nil {
		t.Error(err)
	}
}
