package dataplane

import (
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/drop"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// TestNothingStaysUnread checks that frames do not stay in a port's RX ring, where they are charged
// to no group, however slow the worker is. Everything that the partner sends until it has stopped
// fits into its headroom.
func TestNothingStaysUnread(t *testing.T) {
	for _, test := range []struct {
		length, inFlight, buffers int
		gap                       int64
	}{{60, 16 << 10, 4096, 10_000}, {508, 64_000, 4096, 40_000}, {60, 64_000, 4096, 50_000},
		{60, 16 << 10, 256, 10_000}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			x := newLines(t, 2, test.gap, func(p *Params) {
				for i := range p.Ports {
					p.Ports[i].InFlight, p.Ports[i].Buffers = test.inFlight, test.buffers
					p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{
						Lossless: true, Share: 2000, Headroom: roomFor(t, test.gap, test.inFlight), XON: 1000,
					}
				}
			})
			b := data(0, 1, lossless, test.length, 0)
			send := func() bool { x.fill(0, lossless, b); return false }
			x.run(1_000_000, send)
			x.pause(1, 65535)
			x.run(1_000_000, send)
			if n := x.losslessLost(0); n != 0 || x.port(0).PausedPeer != 1<<lossless {
				t.Errorf("%d lossless frames lost, peer told to stop %#x", n, x.port(0).PausedPeer)
			}
			if waiting := x.wires[0].A.Waiting(); waiting > int(test.gap)*10/8/(test.length+24)+1 {
				t.Errorf("%d frames wait in the ring, more than arrive between two iterations", waiting)
			}
		})
	}
}

// TestPauseDoesNotWaitInTheRing checks that a PFC frame behind more than a burst of frames is
// honoured in the iteration that finds it.
func TestPauseDoesNotWaitInTheRing(t *testing.T) {
	x := newLines(t, 3, 10_000, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].InFlight, p.Ports[i].Buffers = 2000, 4096
			p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 4000, Headroom: 1000,
				XON: 1000}
		}
	})
	lossy, others := data(1, 2, 0, 60, 0), data(0, 1, lossless, 1514, 0)
	send := func() bool {
		x.fill(1, 0, lossy)
		x.fill(0, lossless, others)
		return false
	}
	x.run(400_000, send)
	x.pause(1, 65535)
	x.run(11_000, send) // it has arrived, and an iteration has run since
	before := x.port(1).TX[lossless]
	x.run(300_000, send)
	if n := x.port(1).TX[lossless] - before; n != 0 {
		t.Errorf("%d frames were sent after the iteration that found the pause", n)
	}
}

// TestSecondXOFF sends XOFF, XON and XOFF again while the first is still in the TX ring. Each finds
// a buffer, and a partner that honours them loses nothing.
func TestSecondXOFF(t *testing.T) {
	const inFlight = 64_000
	x := newLines(t, 4, 200, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[0] = cells.GroupParams{Share: 4000}
			p.Ports[i].Cells.Queues[0] = cells.QueueParams{Limit: 4000}
			p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 40,
				Headroom: roomFor(t, 1000, inFlight), XON: 20}
		}
		p.Ports[0].InFlight, p.Ports[2].InFlight = inFlight, 600
	})
	lossy := [4][]byte{1: data(1, 0, 0, 60, 0), 3: data(3, 0, 0, 60, 0)}
	attack := data(0, 2, lossless, 60, 0)
	keepFull := func() { // keeps the TX ring of port 0 full
		x.fill(1, 0, lossy[1])
		x.fill(3, 0, lossy[3])
	}
	told := func() uint8 { return x.s.Workers[0].ports[0].flow.generator.Paused() }
	x.run(400_000, func() bool { keepFull(); return false })
	x.pause(2, 65535)
	x.run(20_000, func() bool { keepFull(); x.fill(0, lossless, attack); return told() != 0 })
	x.pause(2, 0)
	x.run(20_000, func() bool { keepFull(); return told() == 0 })
	x.pause(2, 65535)
	began := x.now
	x.run(300_000, func() bool { keepFull(); x.fill(0, lossless, attack); return false })
	p := x.port(0)
	if p.LosslessDrops() != 0 || p.PFCSent.XOFF[lossless] < 2 || p.PFCSent.XON[lossless] < 1 {
		t.Errorf("from %d ns on: %d lossless drops, %d XOFF, %d XON", began, p.LosslessDrops(),
			p.PFCSent.XOFF[lossless], p.PFCSent.XON[lossless])
	}
}

// neverSends is a driver that takes all frames and completes none.
type neverSends struct{ *mem.Null }

func (neverSends) Transmit(burst []pmd.Desc) int { return len(burst) }
func (neverSends) Complete([]uint64) int         { return 0 }

// TestControlFramesInFlight checks, with random congestion while nothing leaves, that each new XOFF
// is sent at once, and that it never has more PFC frames ahead of it than the headroom counts.
func TestControlFramesInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		priorities := uint8(rapid.IntRange(1, 255).Draw(t, "lossless priorities"))
		_, w, p := portWithPriorities(t, priorities)
		var k int
		for n := range Priorities {
			k += int(priorities >> n & 1)
		}
		for now := int64(1000); now < 400_000; now += 1000 {
			before := p.flow.sending
			for n := range Priorities {
				if priorities>>n&1 == 1 && rapid.Bool().Draw(t, "toggles") {
					toggleGroup(w, p, n)
				}
			}
			w.sendPauses(p, now)
			if late := w.accounts.Congested(p.number) &^ p.flow.generator.Paused(); late != 0 {
				t.Fatalf("%d of %d buffers in use: priorities %#x are not stopped", p.flow.sending, ControlBuffers,
					late)
			}
			if p.flow.sending > before && before > ControlAhead(k) {
				t.Fatalf("a PFC frame behind %d others, %d are counted", before, ControlAhead(k))
			}
			if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
				leave(w, p, holdingControl)
			}
		}
	})
}

// portWithPriorities returns a switch with one port that has the given lossless priorities and a
// driver that sends nothing.
func portWithPriorities(t *rapid.T, priorities uint8) (*Switch, *Worker, *port) {
	memory, err := umem.Map(2048, bufferSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	q := testPort(0, 0)
	q.Generator.Priorities, q.Generator.Quanta, q.Generator.Refresh = priorities, 60, 30
	for n := range Priorities {
		q.Cells.Groups[n], q.Cells.Queues[n] = cells.GroupParams{Share: 20}, cells.QueueParams{Limit: 50}
		if priorities>>n&1 == 1 {
			q.Cells.Groups[n], q.Cells.Queues[n] = cells.GroupParams{Lossless: true, Share: 10, Headroom: 5, XON: 4},
				cells.QueueParams{}
		}
	}
	s, err := NewSwitch(Params{Memory: memory, CellSize: 160, Workers: 1, Ports: []PortParams{q},
		Bridge: bridge.Params{Ports: make([]bridge.PortParams, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	d := neverSends{mem.NewNull(memory.Bytes(), 256, 60, data(0, 0, 0, 60, 0))}
	s.Publish(&Plan{Links: []Link{{Driver: d, Up: true, TXRing: 256}}})
	w := s.Workers[0]
	w.adopt(w.plan.Load(), 0)
	return s, w, w.ports[0]
}

// toggleGroup makes a group congested, or empties it if it is.
func toggleGroup(w *Worker, p *port, n int) {
	if g := w.accounts.Group(p.number, n); g.Headroom > 0 {
		w.accounts.Release(p.number, n, g.Reserved+g.Shared+g.Headroom)
		return
	}
	for w.accounts.Group(p.number, n).Headroom == 0 {
		w.accounts.Admit(p.number, n, 1)
	}
}

// leave completes the first frame of a kind that the driver still holds.
func leave(w *Worker, p *port, kind uint8) {
	for id, holding := range p.held {
		if holding == kind {
			w.complete(p, uint32(id))
			return
		}
	}
}

// givesTwice is a driver that returns buffers twice, as igb has been seen to do in zero-copy mode:
// in the same burst, and a whole burst again after its frames were forwarded.
type givesTwice struct {
	pmd.Port
	given []pmd.Desc
	again bool
}

func (d *givesTwice) Receive(burst []pmd.Desc) int {
	if d.again && len(d.given) > 0 {
		d.again = false
		return copy(burst, d.given)
	}
	n := d.Port.Receive(burst[:len(burst)/2])
	if n > 0 {
		d.given = append(d.given[:0], burst[:n]...)
	}
	return n + copy(burst[n:], burst[:n])
}

// TestBufferGivenTwice checks that a buffer which the driver does not have to receive into, but
// returns with a frame, is refused and counted, that its frame is not forwarded, and that no buffer
// is missing afterwards.
func TestBufferGivenTwice(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	d := &givesTwice{Port: r.wires[0].A}
	r.s.Workers[0].ports[0].driver, r.plan.Links[0].Driver = d, d
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 65535}}) // forwarded frames stay queued
	for i := range 8 {
		r.send(0, data(0, 1, lossless, 60, i))
	}
	r.run(10_000)
	d.again = true
	r.run(10_000)
	if d.again {
		t.Fatal("no iteration has looked")
	}
	r.control(1, pfc.Frame{Enable: 1 << lossless})
	r.run(100_000)
	frames, _ := r.received(1)
	for i, b := range frames {
		if n := binary.BigEndian.Uint32(b[18:]); n != uint32(i) {
			t.Fatalf("frame %d is number %d", i, n)
		}
	}
	if p := r.port(0); p.RXTwice < 8+1 || len(frames) != 8 || p.RX[lossless] != 8 {
		t.Errorf("%d refused, %d forwarded and %d received of 8", p.RXTwice, len(frames), p.RX[lossless])
	}
	r.idle()
}

// TestPauseIsCountedFromItsArrival checks that a pause which arrives during an iteration lasts as
// long as its sender expects.
func TestPauseIsCountedFromItsArrival(t *testing.T) {
	const late, quanta = 700, 10
	r := newRig(t, 2, 1, nil)
	w := r.s.Workers[0]
	w.UseClock(func() int64 { return r.now + late })
	r.control(1, pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: quanta}})
	r.run(1000)
	h := r.port(1).PFCReceived.History
	at := h.All()[0].At
	const pause = quanta * pfc.QuantumBits * 1e9 / speed
	if until := at + pause + late; w.ports[1].flow.paused(until-1) != 1<<lossless ||
		w.ports[1].flow.paused(until) != 0 {
		t.Errorf("the pause does not last until %d", until)
	}
}

// TestPortDownSendsNothing checks that frames queued for a port whose link goes down are dropped,
// even if there are too many for one iteration, and not given to its driver.
func TestPortDownSendsNothing(t *testing.T) {
	x := newLines(t, 2, 1000, func(p *Params) {
		p.Budget = budget.Least
		for i := range p.Ports {
			p.Ports[i].Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 4000, Headroom: 1000,
				XON: 1000}
		}
	})
	x.pause(1, 65535)
	b := data(0, 1, lossless, 60, 0)
	x.run(200_000, func() bool { x.fill(0, lossless, b); return false })
	before := x.port(1)
	if before.Buffers.Queued < 10*budget.Least {
		t.Fatalf("%d frames wait, which is too few", before.Buffers.Queued)
	}
	plan := *x.s.Workers[0].current
	plan.Links = append([]Link(nil), plan.Links...)
	plan.Links[1].Up = false
	x.s.Publish(&plan)
	x.run(100_000, nil)
	after := x.port(1)
	if n := after.TXFrames - before.TXFrames; n != 0 ||
		after.Drops[drop.PortDown][lossless] < uint64(before.Buffers.Queued) || after.Buffers.Queued != 0 {
		t.Errorf("%d frames sent, %d dropped of %d, %d wait", n, after.Drops[drop.PortDown][lossless],
			before.Buffers.Queued, after.Buffers.Queued)
	}
}

// TestShortFramesTakeTheirTime checks that a frame below Ethernet's minimum counts as one of
// minimum length, because it takes as long on the wire. So no more of them are in flight.
func TestShortFramesTakeTheirTime(t *testing.T) {
	x := newLines(t, 3, 100, func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].InFlight = 6000
		}
	})
	lossy := [3][]byte{data(0, 1, 0, 22, 0), nil, data(2, 1, 0, 22, 0)}
	most := 0
	x.run(100_000, func() bool {
		x.fill(0, 0, lossy[0])
		x.fill(2, 0, lossy[2])
		most = max(most, x.port(1).Buffers.Sending)
		return false
	})
	if most != 6000/pfc.FrameLength {
		t.Errorf("%d frames in flight, want %d", most, 6000/pfc.FrameLength)
	}
	if err := x.s.Check(); err != nil {
		t.Error(err)
	}
}
