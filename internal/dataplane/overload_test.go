package dataplane

import (
	"fmt"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
	"sluice/sched"
)

// flood makes the partner of port 0 send at line rate, 148 frames per iteration of 10 µs. It
// discards what reaches the partners.
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

// signalled returns the priorities that the partner of a port has been told to stop.
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

// overloaded returns a rig with this many receive buffers at port 0, whose lossless group has a
// small share and headroom for all of them.
func overloaded(t *testing.T, buffers int) *rig {
	r := newRig(t, 2, 1, func(p *Params) {
		p.Ports[0].Buffers = buffers
		p.Ports[0].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 100, Headroom: 600, XON: 50}
		p.Ports[1].Sched = sched.Params{Rate: speed / 10, Burst: 1600, Overhead: 24, MaxFrame: 1518,
			Queues: p.Ports[1].Sched.Queues}
	})
	r.introduce()
	return r
}

// TestSlowWorkerLosesNothingLossless checks that a worker whose iterations are too rare for its
// line still takes all frames off it, so that their group fills and sends XOFF, and the driver
// never runs out of buffers.
func TestSlowWorkerLosesNothingLossless(t *testing.T) {
	for _, buffers := range []int{200, 256} {
		t.Run(fmt.Sprint(buffers), func(t *testing.T) {
			r := overloaded(t, buffers)
			r.flood(300, lossless)
			p := r.port(0)
			if lost := r.wires[0].A.Stats().Lost(); lost != 0 || p.LosslessDrops() != 0 ||
				p.PFCSent.XOFF[lossless] == 0 {
				t.Errorf("%d frames lost in the driver, %d behind it, %d XOFF", lost, p.LosslessDrops(),
					p.PFCSent.XOFF[lossless])
			}
			if err := r.s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLossyOverloadStopsNobody checks that excess lossy frames are dropped and counted, and that
// the lossless class beside them is not stopped because of them.
func TestLossyOverloadStopsNobody(t *testing.T) {
	r := overloaded(t, 256)
	r.flood(300, 0)
	p := r.port(0)
	if p.PFCSent.XOFF[lossless] != 0 || p.Drops[drop.IngressFull][0]+r.port(1).Drops[drop.QueueFull][0] == 0 ||
		r.wires[0].A.Stats().Lost() != 0 {
		t.Errorf("%d XOFF, drops %v, %d lost in the driver", p.PFCSent.XOFF[lossless], dropped(p),
			r.wires[0].A.Stats().Lost())
	}
}

// TestFloodedFramesLeaveBuffersToOthers checks that copies of lossy frames which their group
// refuses do not hold buffers that lossless frames of the same burst need.
func TestFloodedFramesLeaveBuffersToOthers(t *testing.T) {
	memory, err := umem.Map(2900, bufferSize)
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
	if n := r.port(0).Drops[drop.NoBuffer][lossless]; n != 0 {
		t.Errorf("%d lossless copies found no buffer", n)
	}
	r.idle()
}

// TestWatermarkOfWhatAQueueRefuses checks that a group's peak is what it held, not what was offered
// to it.
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

// piledUp is a driver at which ever more frames wait than it can hold. It counts the frames that it
// gives and takes in an iteration.
type piledUp struct {
	*mem.Null
	moved *int
	began func()
	sent  func(b pmd.Desc)
}

func (piledUp) Waiting() int { return 1 << 20 }

func (d piledUp) Receive(burst []pmd.Desc) int {
	if d.began != nil {
		d.began()
	}
	n := d.Null.Receive(burst)
	*d.moved += n
	return n
}

func (d piledUp) Transmit(burst []pmd.Desc) int {
	n := d.Null.Transmit(burst)
	*d.moved += n
	if d.sent != nil && n == 1 {
		d.sent(burst[0])
	}
	return n
}

// overwhelmed returns a worker that receives frames faster than it can take them at all ports, each
// for the next port, and a count of the frames that it moves.
func overwhelmed(t *testing.T, ports int, tune func(*Params)) (*Switch, []*piledUp, *int) {
	t.Helper()
	memory, err := umem.Map(32768, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	params := Params{Memory: memory, CellSize: 160, Workers: 1,
		Bridge: bridge.Params{Ports: make([]bridge.PortParams, ports)}}
	plan, moved := &Plan{}, new(int)
	for i := range ports {
		params.Ports = append(params.Ports, testPort(i, 0))
		p := &params.Ports[i]
		p.Buffers, p.Sched.Burst, p.InFlight = 1024, 1<<20, 64_000
		p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Share: 500}, cells.QueueParams{Limit: 500}
	}
	if tune != nil {
		tune(&params)
	}
	s, err := NewSwitch(params)
	if err != nil {
		t.Fatal(err)
	}
	var drivers []*piledUp
	for i := range ports {
		d := &piledUp{Null: mem.NewNull(memory.Bytes(), 2048, 60, data(i, (i+1)%ports, 0, 60, 0)), moved: moved}
		d.Fill(s.Parked(i))
		drivers = append(drivers, d)
		s.Workers[0].bridge.Learn(0, station0(i), 1, i)
		plan.Links = append(plan.Links, Link{Driver: d, Up: true, TXRing: 2048})
	}
	s.Publish(plan)
	return s, drivers, moved
}

// TestIterationIsBounded checks that an iteration moves no more frames than its budget allows, for
// any number of ports and of waiting frames, and that it stops the peers of ports that it leaves
// behind. Frames still leave in every iteration.
func TestIterationIsBounded(t *testing.T) {
	for _, ports := range []int{2, 8, 16} {
		for _, frames := range []int{64, 250, budget.Default} {
			s, _, moved := overwhelmed(t, ports, func(p *Params) { p.Budget = frames })
			const steps = 50
			for i := range steps {
				*moved = 0
				s.Workers[0].Step(int64(i) * 100_000)
				// Frames received and frames sent may each reach the budget and a pass more: one
				// burst of each port, of at least budget.LeastBurst.
				if most := 2 * (frames + max(frames, ports*budget.LeastBurst)); *moved > most {
					t.Errorf("%d ports, budget %d: iteration %d moved %d frames, at most %d are allowed", ports, frames,
						i, *moved, most)
				}
			}
			for i, p := range s.Workers[0].Look(steps * 100_000).Ports {
				if p.TXFrames < steps || p.Behind != steps || p.PausedPeer != 1<<lossless {
					t.Errorf("%d ports, budget %d, port %d: %d sent, behind in %d iterations, peer told to stop %#x",
						ports, frames, i, p.TXFrames, p.Behind, p.PausedPeer)
				}
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFloodsAreBounded checks that copies of flooded frames count like frames. An iteration in
// which all ports receive broadcasts makes at most as many copies as its budget allows, plus those
// of one burst.
func TestFloodsAreBounded(t *testing.T) {
	const ports = 16
	for _, frames := range []int{64, 250, budget.Default} {
		s, drivers, _ := overwhelmed(t, ports, func(p *Params) { p.Budget = frames })
		w := s.Workers[0]
		for i, d := range drivers {
			b := data(i, i, 0, 60, 0)
			frame.Broadcast.Put(b)
			n := piledUp{Null: mem.NewNull(w.memory.Bytes(), 2048, 60, b), moved: d.moved}
			n.Fill(s.Parked(i))
			*d = n
		}
		before := uint64(0)
		for i := range 50 {
			w.Step(int64(i) * 100_000)
			copies := uint64(0)
			for _, p := range w.own {
				copies += p.count.FloodCopies
			}
			if most := max(frames, w.quantum*ports) + w.quantum*(ports-1); copies-before > uint64(most) {
				t.Errorf("budget %d: iteration %d made %d copies, at most %d are allowed", frames, i, copies-before,
					most)
			}
			before = copies
		}
	}
}

// TestReactionDoesNotGrow checks that between the burst that makes a group congested and the PFC
// frame in the TX ring, no other port has a turn and no frame of the burst is queued, with early
// detection or without. So the reaction takes no longer with 16 busy ports than with 2.
func TestReactionDoesNotGrow(t *testing.T) {
	for _, c := range []struct {
		ports int
		red   cells.REDParams
	}{{2, cells.REDParams{}}, {16, cells.REDParams{}}, {2, cells.REDParams{Min: 1, Max: 10, Probability: 1}}} {
		ports := c.ports
		s, drivers, moved := overwhelmed(t, ports, func(p *Params) {
			for i := range p.Ports {
				p.Ports[i].Cells.Groups[0] = cells.GroupParams{Lossless: true, Share: 30, Headroom: 500, XON: 10}
				p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Share: 100}
				p.Ports[i].Cells.Queues[0], p.Ports[i].Cells.Queues[lossless] = cells.QueueParams{RED: c.red},
					cells.QueueParams{Limit: 50}
				p.Ports[i].Generator.Priorities, p.Ports[i].Receiver.Priorities = 1, 1
				p.Ports[i].InFlight = 2000
			}
		})
		w, worst, crossings, first := s.Workers[0], 0, 0, 0
		for i, d := range drivers {
			began := 0 // value of moved when the port's last turn began
			d.sent = func(b pmd.Desc) {
				if kind, _ := pfc.Decode(w.memory.Frame(b.Addr, b.Len), new(pfc.Frame)); kind == pfc.PFC &&
					w.accounts.Congested(i) != 0 {
					worst, crossings = max(worst, *moved-began), crossings+1
					if len(w.batches) > 0 {
						first++ // before the burst is queued
					}
				}
			}
			d.began = func() { began = *moved }
		}
		for i := range 20 {
			w.Step(int64(i) * 1000)
		}
		if first < ports || worst > burstSize+1 {
			t.Errorf("%d ports, %+v: %d XOFF, %d before the burst was queued, up to %d frames moved from the "+
				"beginning of the port's turn on",
				ports, c.red, crossings, first, worst)
		}
	}
}
