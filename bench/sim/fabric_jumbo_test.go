package sim

import (
	"fmt"
	"testing"

	"sluice/bench/traffic"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
)

// jumboMTU has frames of up to 9234 bytes with a tag: three parts in buffers of 4096 bytes, six in
// buffers of 2048.
const jumboMTU = 9216

// jumboSizes are frame lengths with one part to the most, mixed.
var jumboSizes = []int{60, 9234, 1518, 4218, 60, 1664, 1665, 3712, 3713, 9014, 300, 7424, 7425, 2048}

// jumboFabric is the shape of a jumbo switch: size of buffers and cells in bytes, and the buffers
// of a ring. full: its drivers send no more parts than the longest frame has in full buffers.
type jumboFabric struct {
	buffer, cell, ring int
	full               bool
}

var jumboFabrics = []jumboFabric{
	{4096, 160, 1024, false}, {4096, 3712, 1024, false}, {2048, 160, 1024, false}, {2048, 1664, 1024, true},
	{4096, 160, 16, false}, {2048, 160, 24, true},
}

// cable returns the cable of each port.
func (x jumboFabric) cable() Cable {
	return Cable{Rate: 10 * gbit, Metres: 300, MTU: jumboMTU, Buffer: x.buffer, Ring: x.ring}
}

// limit makes the drivers of a switch send only as many parts as they can.
func (x jumboFabric) limit(s *Switch) {
	if x.full {
		for i := range s.links {
			s.links[i].Parts = DivideUp(jumboMTU+18, x.buffer)
		}
		s.Publish(&dataplane.Plan{Links: append([]dataplane.Link(nil), s.links...)})
	}
}

// jumboHost adds a host for jumbo frames.
func jumboHost(t *testing.T, f *Fabric, s *Switch, port int, c Cable, mac frame.MAC, flows ...traffic.Flow) *Host {
	t.Helper()
	h, err := f.AddHost(fmt.Sprintf("host %v", mac), s, port, c, traffic.Params{
		MAC: mac, Speed: c.Rate, InFlight: 16 << 10, Flows: flows, Priorities: 1 << lossless,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// jumboFlow returns a flow of all sizes.
func jumboFlow(id uint32, to frame.MAC, pcp uint8, rate uint64) traffic.Flow {
	return traffic.Flow{ID: id, Dst: to, VID: 100, PCP: pcp, Sizes: jumboSizes, Rate: rate}
}

// dropped returns how many frames of a class all ports of a switch have dropped.
func (s *Switch) dropped(now int64, class int) (frames uint64) {
	for _, p := range s.Ports(now) {
		for _, by := range p.Drops {
			frames += by[class]
		}
	}
	return frames
}

// TestJumboOverload has two hosts overload a third with frames of one part to the most, through one
// worker and through three. No lossless frame is lost or reordered, and every lossy one that is
// missing was counted.
func TestJumboOverload(t *testing.T) {
	for i, shape := range jumboFabrics {
		for workers := 1; workers <= 3; workers += 2 {
			t.Run(fmt.Sprintf("%+v, %d workers", shape, workers), func(t *testing.T) {
				shape.overload(t, uint64(i), workers)
			})
		}
	}
}

func (x jumboFabric) overload(t *testing.T, seed uint64, workers int) {
	f, c := NewFabric(seed), x.cable()
	s, err := f.AddLosslessSwitch("sw", LosslessSwitch{
		Ports: 3, Workers: workers, Cable: c, Cell: x.cell, XOFF: 40<<10/x.cell + 6,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hello := traffic.Flow{ID: 40, Dst: hostA, VID: 100, PCP: 1, Size: 60, Rate: 1e6}
	sink := jumboHost(t, f, s, 2, c, target, hello)
	f.Run(100_000)
	var senders []*Host
	for i, mac := range []frame.MAC{hostA, hostB} {
		id := uint32(8 * i)
		senders = append(senders, jumboHost(t, f, s, i, c, mac,
			jumboFlow(id+lossless, target, lossless, 6*gbit), jumboFlow(id+lossy, target, lossy, 4*gbit)))
	}
	x.limit(s)
	f.Run(3e6)
	lost := verify(t, f, sink, senders...)
	drops := s.dropped(f.Now(), lossy)
	if lost[lossless] != 0 || lost[lossy] == 0 || lost[lossy] != drops {
		t.Errorf("lost %d lossless and %d lossy frames, want none and the %d dropped", lost[lossless], lost[lossy],
			drops)
	}
	for i, p := range s.Ports(f.Now()) {
		if d := s.links[i].Driver.Stats(); d.Lost() > 0 || i < 2 && p.PFCSent.XOFF[lossless] == 0 {
			t.Errorf("port %d: %d XOFF, %+v", i, p.PFCSent.XOFF[lossless], d)
		}
	}
}

// TestJumboRingsTooShort has a switch poll so rarely that its receive ring overflows, or its fill
// ring runs empty, for frames of one part to the most. Frames are lost whole: the others arrive as
// they were sent, every missing one was counted by a driver or the switch, and no buffer is lost.
func TestJumboRingsTooShort(t *testing.T) {
	for i, x := range []struct{ buffer, buffers, ring int }{
		{2048, 24, 1024}, {4096, 24, 1024}, {2048, 512, 20}, {4096, 512, 20},
	} {
		f, c := NewFabric(uint64(i)), jumboFabric{buffer: x.buffer, ring: x.buffers}.cable()
		f.PollMin, f.PollMax = 1_000, 100_000
		s, err := f.AddLosslessSwitch("sw", LosslessSwitch{Ports: 2, Cable: c})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c.Ring = 1024
		sink := jumboHost(t, f, s, 1, c, target, traffic.Flow{ID: 40, Dst: hostA, VID: 100, PCP: 1, Size: 60,
			Rate: 1e6})
		f.Run(200_000)
		c.RXRing = x.ring
		sender, err := f.AddHost("sender", s, 0, c, traffic.Params{
			MAC: hostA, Speed: c.Rate, InFlight: 256 << 10, Flows: []traffic.Flow{jumboFlow(lossy, target, lossy, 0)},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Run(5e6)
		lost := verify(t, f, sink, sender)
		counted := s.dropped(f.Now(), lossy)
		for _, w := range f.wires {
			counted += w.A.Stats().Lost() + w.B.Stats().Lost()
		}
		d := s.links[0].Driver.Stats()
		scarce, none := d.RXDropped-d.RXFillEmpty, d.RXFillEmpty // frames that found too few buffers, or none
		short := x.ring < x.buffers
		if lost[lossy] != counted || short != (d.RXRingFull > 0) || short == (scarce > 0 && none > 0) {
			t.Errorf("%+v: %d frames are missing, %d counted, of which the driver %+v", x, lost[lossy], counted, d)
		}
	}
}

// TestJumboFlood has two hosts flood jumbo frames of both classes to the two others, more than the
// links take. With headroom for each copy, as docs/lossless.md has it, no lossless frame is
// lost; every copy of a lossy frame arrives or is counted.
func TestJumboFlood(t *testing.T) {
	const group = frame.MAC(0x0300_0000_0001)
	for i, shape := range jumboFabrics {
		for workers := 1; workers <= 2; workers++ {
			f, c := NewFabric(uint64(i)), shape.cable()
			s, err := f.AddLosslessSwitch("sw", LosslessSwitch{
				Ports: 4, Workers: workers, Cable: c, Cell: shape.cell, Copies: 3, XOFF: 40<<10/shape.cell + 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var hosts []*Host
			for i := range 4 {
				var flows []traffic.Flow
				if id := uint32(8 * i); i < 2 {
					flows = []traffic.Flow{jumboFlow(id+lossless, group, lossless, 4*gbit),
						jumboFlow(id+lossy, group, lossy, 6*gbit)}
				}
				hosts = append(hosts, jumboHost(t, f, s, i, c, hostA+frame.MAC(i), flows...))
			}
			shape.limit(s)
			f.Run(2e6)
			t.Run(fmt.Sprintf("%+v, %d workers", shape, workers), func(t *testing.T) { checkFlood(t, f, s, hosts) })
		}
	}
}

// checkFlood settles a fabric whose first two hosts have flooded frames to all others.
func checkFlood(t *testing.T, f *Fabric, s *Switch, hosts []*Host) {
	if err := f.Settle(50e6); err != nil {
		t.Error(err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	sent, missing := map[uint32]uint64{}, [8]uint64{}
	for _, h := range hosts[:2] {
		for _, flow := range h.Stats(f.Now()).Sent {
			sent[flow.ID] = flow.Frames
			missing[flow.ID%8] += 3 * flow.Frames
		}
	}
	for i, h := range hosts {
		stats := h.Stats(f.Now())
		if stats.Corrupt > 0 {
			t.Errorf("host %d: %d corrupt frames", i, stats.Corrupt)
		}
		for _, r := range stats.Received {
			missing[r.ID%8] -= r.Frames
			if r.Reordered+r.Duplicates+r.Stale > 0 || r.Frames == 0 || r.ID%8 == lossless && r.Frames != sent[r.ID] {
				t.Errorf("host %d: flow %d: %+v of %d", i, r.ID, r, sent[r.ID])
			}
		}
	}
	if drops := s.dropped(f.Now(), lossy); missing[lossless] != 0 || missing[lossy] == 0 || missing[lossy] != drops {
		t.Errorf("%d copies of lossless frames are missing and %d of lossy ones, want none and the %d dropped",
			missing[lossless], missing[lossy], drops)
	}
	for i, p := range s.Ports(f.Now()) {
		d, xoff := s.links[i].Driver.Stats(), p.PFCSent.XOFF[lossless]
		if d.Lost() > 0 || p.LosslessDrops() > 0 || i < 2 && xoff == 0 {
			t.Errorf("port %d: %d XOFF, %d lossless drops, %+v", i, xoff, p.LosslessDrops(), d)
		}
	}
}
