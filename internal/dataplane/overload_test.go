package dataplane

import (
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/frame"
	"sluice/pmd/mem"
	"sluice/sched"
)

// flood has the partner of port 0 send as fast as its line carries, 148 frames an iteration, for so many of them, each of
// 10 µs. Whatever reaches a partner is thrown away.
func (r *rig) flood(iterations int, class uint8) {
	for n := 0; iterations > 0; iterations-- {
		for r.wires[0].InFlight() < 200 && r.signalled(0)>>class&1 == 0 {
			r.send(0, data(0, 1, class, 60, n))
			n++
		}
		r.now += 10_000
		for i := range r.wires {
			r.wires[i].Advance(r.now)
		}
		r.s.Workers[0].Step(r.now)
		for i := range r.wires {
			for range 16 {
				r.collect(i)
			}
		}
	}
}

// signalled returns the priorities that the switch has told the partner of a port to stop.
func (r *rig) signalled(port int) (paused uint8) {
	var h frame.Header
	for _, b := range r.inboxes[port] {
		if frame.Parse(b, &h) == frame.OK && h.Type == frame.TypeMACControl {
			for n := range Priorities {
				if b[17]>>n&1 == 1 {
					paused &^= 1 << n
					if b[18+2*n]|b[19+2*n] != 0 {
						paused |= 1 << n
					}
				}
			}
		}
	}
	return paused
}

// overloaded returns a rig with so many receive buffers at port 0, whose lossless group holds a little and headroom for all
// of them.
func overloaded(t *testing.T, buffers int) *rig {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Ports[0].Buffers = buffers
		p.Ports[0].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 100, Headroom: 600, XON: 50}
		p.Ports[1].Sched = sched.Params{Rate: speed / 10, Burst: 1600, Overhead: 24, MaxFrame: 1518, Queues: p.Ports[1].Sched.Queues}
	})
	r.introduce()
	return r
}

// TestSlowWorkerLosesNothingLossless: a worker that comes round too seldom for its line takes frames off it all the same, so
// that their group fills and sends XOFF, and the driver never runs out of buffers.
func TestSlowWorkerLosesNothingLossless(t *testing.T) {
	for _, buffers := range []int{200, 256} {
		t.Run(fmt.Sprint(buffers), func(t *testing.T) {
			r := overloaded(t, buffers)
			r.flood(300, lossless)
			p := r.port(0)
			if lost := r.wires[0].A.Stats().Lost(); lost != 0 || p.LosslessDrops() != 0 || p.Sent.XOFF[lossless] == 0 {
				t.Errorf("%d frames lost in the driver, %d behind it, %d XOFF", lost, p.LosslessDrops(), p.Sent.XOFF[lossless])
			}
			if err := r.s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLossyOverloadStopsNobody: lossy frames that come too fast are dropped by their group, under a name. The lossless class
// beside them is not stopped for their sake.
func TestLossyOverloadStopsNobody(t *testing.T) {
	r := overloaded(t, 256)
	r.flood(300, 0)
	p := r.port(0)
	if p.Sent.XOFF[lossless] != 0 || p.Drops[DropIngressFull][0]+r.port(1).Drops[DropQueueFull][0] == 0 || r.wires[0].A.Stats().Lost() != 0 {
		t.Errorf("%d XOFF, drops %v, %d lost in the driver", p.Sent.XOFF[lossless], dropped(p), r.wires[0].A.Stats().Lost())
	}
}

// TestFloodedFramesLeaveBuffersToOthers: copies of lossy frames that their group refuses do not keep the buffers that lossless
// frames of the same burst need.
func TestFloodedFramesLeaveBuffersToOthers(t *testing.T) {
	memory, err := cells.Map(2900, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	r := newRig(t, 16, 1, func(p *Params) {
		p.Memory = memory
		for i := range p.Ports {
			p.Ports[i].FlowControl = NoFlowControl
			for q := range Priorities {
				p.Ports[i].Cells.Groups[q] = cells.GroupParams{Share: 4}
			}
		}
		p.Ports[0].FlowControl = PriorityFlowControl
		p.Ports[0].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Reserved: 200, Headroom: 50, XON: 4}
	})
	r.introduce()
	for i := range 60 {
		class := uint8(0)
		if i >= 50 {
			class = lossless
		}
		b := data(0, 1, class, 60, i)
		frame.Broadcast.Put(b)
		r.send(0, b)
	}
	r.now += 20_000
	r.wires[0].Advance(r.now)
	r.run(30_000)
	if n := r.port(0).Drops[DropNoBuffer][lossless]; n != 0 {
		t.Errorf("%d lossless copies found no buffer", n)
	}
	r.idle()
}

// TestWatermarkOfWhatAQueueRefuses: a group's peak is what it held, and not what came.
func TestWatermarkOfWhatAQueueRefuses(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Ports[1].Cells.Queues[0] = cells.QueueParams{Limit: 5} })
	r.introduce()
	for i := range 60 {
		r.send(0, data(0, 1, 0, 60, i))
	}
	r.now += 20_000
	r.wires[0].Advance(r.now)
	r.s.Workers[0].Step(r.now)
	if g := r.port(0).Groups[0]; g.PeakShared > 6 {
		t.Errorf("%+v: at most 5 were held, and one at a time asked for", g)
	}
}

// piledUp is a driver before which ever more frames wait than it can hold.
type piledUp struct{ *mem.Null }

func (piledUp) Waiting() int { return 1 << 20 }

// TestReceptionEnds: frames that come faster than they can be dropped don't keep those that wait from leaving.
func TestReceptionEnds(t *testing.T) {
	memory, err := cells.Map(8192, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	params := Params{Memory: memory, CellSize: 160, Workers: 1, Bridge: bridge.Params{Ports: make([]bridge.PortParams, 2)}}
	plan := &Plan{}
	for i := range 2 {
		params.Ports = append(params.Ports, testPort(i, 0))
		p := &params.Ports[i]
		p.Buffers, p.Sched.Burst = 2048, 1<<20
		p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Share: 500}, cells.QueueParams{Limit: 500}
	}
	s, err := NewSwitch(params)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		d := piledUp{mem.NewNull(memory.Bytes(), 4096, 60, data(i, 1-i, 0, 60, 0))}
		d.Fill(s.Parked(i))
		plan.Links = append(plan.Links, Link{Driver: d, Up: true, TXRing: 256})
	}
	s.Publish(plan)
	const steps = 10
	for i := range steps {
		s.Workers[0].Step(int64(i) * 100_000)
	}
	for i, p := range s.Workers[0].Look(steps * 100_000).Ports {
		if p.RXFrames != steps*DefaultBudget/2 || p.TXFrames < (steps-1)*burstSize || p.Behind != steps || p.PausedPeer != 1<<lossless {
			t.Errorf("port %d: %d received, %d sent, behind in %d iterations, peer told to stop %#x", i, p.RXFrames, p.TXFrames, p.Behind, p.PausedPeer)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
