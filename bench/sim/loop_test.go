package sim

import (
	"testing"

	"sluice/bench/traffic"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
)

// loop is a loop of two switches without a spanning tree: flooded frames circulate for ever.
//
//	A, B ── left ══ right ── C, which broadcasts
type loop struct {
	*Fabric
	left, right *Switch
	a, b, c     *Host
}

const (
	loopUnicast  = 5 * gbit // from A to B, in the class of the broadcasts
	loopLossless = 1 * gbit // the same in the lossless class
	loopTime     = 4_000_000
)

// newLoop returns a closed loop in which C does not send yet. A and B know each other's address,
// and the switches know both.
func newLoop(t *testing.T, limits bridge.StormParams) *loop {
	t.Helper()
	const hostC = frame.MAC(0x0200_0000_000c)
	x := &loop{Fabric: NewFabric(1)}
	t.Cleanup(func() { x.Close() })
	cable := Cable{Rate: 10 * gbit, Metres: 300}
	for _, s := range []struct {
		name string
		is   **Switch
	}{{"left", &x.left}, {"right", &x.right}} {
		var err error
		if *s.is, err = x.AddLosslessSwitch(s.name, LosslessSwitch{Ports: 4, Cable: cable, Storm: limits}); err != nil {
			t.Fatal(err)
		}
	}
	x.b = testHost(t, x.Fabric, x.left, 1, hostB, 10*gbit, traffic.Flow{ID: 9, Dst: hostA, VID: 100, Size: 60,
		Count: 1})
	x.Run(20_000)
	x.a = testHost(t, x.Fabric, x.left, 0, hostA, 10*gbit,
		traffic.Flow{ID: 0, Dst: hostB, VID: 100, Size: 1000, Rate: loopUnicast},
		traffic.Flow{ID: lossless, Dst: hostB, VID: 100, PCP: lossless, Size: 1000, Rate: loopLossless})
	x.Run(20_000)
	for port := 2; port < 4; port++ {
		if err := x.Join(x.left, port, x.right, port, cable); err != nil {
			t.Fatal(err)
		}
	}
	x.c = testHost(t, x.Fabric, x.right, 0, hostC, 10*gbit,
		traffic.Flow{ID: 16, Dst: frame.Broadcast, VID: 100, Size: 200, Rate: gbit})
	return x
}

// rates runs for loopTime and returns the rates at which B receives A's flows, relative to the
// offered rates.
func (x *loop) rates() (unicast, unicastLossless float64) {
	before := x.bytes()
	x.Run(loopTime)
	after := x.bytes()
	rate := func(id uint32, want uint64) float64 {
		return float64(8*(after[id]-before[id])) / loopTime * 1e9 / float64(want)
	}
	return rate(0, loopUnicast), rate(lossless, loopLossless)
}

// bytes returns what B has received, by flow.
func (x *loop) bytes() map[uint32]uint64 {
	m := map[uint32]uint64{}
	for _, r := range x.b.Stats(x.Now()).Received {
		m[r.ID] = r.Bytes + r.Frames*frame.WireOverhead
	}
	return m
}

// floods returns the most frames that a port of a switch has flooded, and the number of frames that
// all ports refused because of the limit.
func (x *loop) floods(s *Switch) (most, refused uint64) {
	up := uint64(0)
	for _, l := range s.links {
		if l.Up {
			up++
		}
	}
	for _, p := range s.Ports(x.Now()) {
		most = max(most, p.FloodCopies/(up-2)) // a frame goes to all but one port, and the first is no copy
		for _, n := range p.Drops[drop.StormLimit] {
			refused += n
		}
	}
	return most, refused
}

// TestLoopWithAStormLimit: two switches joined twice stay usable and report the storm. Other
// traffic is hardly affected.
func TestLoopWithAStormLimit(t *testing.T) {
	const limit, burst = 20_000, 50
	x := newLoop(t, bridge.StormParams{bridge.Broadcast: {Rate: limit, Burst: burst}})
	unicast, unicastLossless := x.rates()
	if unicast < 0.9 || unicastLossless < 0.99 {
		t.Errorf("A reaches B at %.1f %% of its rate, lossless at %.1f %%; want 90 %% and 99 %%", 100*unicast,
			100*unicastLossless)
	}
	for _, s := range []*Switch{x.left, x.right} {
		most, refused := x.floods(s)
		stats := s.Workers[0].Look(x.Now()).Bridge
		if allowed := uint64(burst + limit*loopTime/1_000_000_000 + 1); most > allowed || most < burst {
			t.Errorf("%s: a port had %d frames flooded, allowed are %d", s.Name, most, allowed)
		}
		if refused == 0 || stats.Stormy != [bridge.FloodKinds]uint64{bridge.Broadcast: refused} {
			t.Errorf("%s: %d frames dropped for the limit, counted as %v", s.Name, refused, stats.Stormy)
		}
		if stats.Moved == 0 {
			t.Errorf("%s: C seems to come from everywhere, but no move is counted", s.Name)
		}
	}
	if err := x.Settle(5e6); err != nil {
		t.Errorf("the storm goes on without C: %v", err)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	for i, p := range x.left.Ports(x.Now()) {
		if n := p.LosslessDrops(); n != 0 {
			t.Errorf("port %d of left lost %d lossless frames", i, n)
		}
	}
}

// busy runs for ns and returns the share of that time for which each port of left was sending.
func (x *loop) busy(ns int64) (parts [4]float64) {
	before := x.left.Ports(x.Now())
	x.Run(ns)
	for i, p := range x.left.Ports(x.Now()) {
		bytes := p.TXBytes - before[i].TXBytes + frame.WireOverhead*(p.TXFrames-before[i].TXFrames)
		parts[i] = float64(8*bytes) / float64(ns) / 10
	}
	return parts
}

// TestLoopWithoutALimit: without a limit other traffic suffers, and the storm does not end.
func TestLoopWithoutALimit(t *testing.T) {
	x := newLoop(t, bridge.StormParams{})
	// A's share of the queue to B is that of each port of the loop.
	if unicast, _ := x.rates(); unicast > 0.9 {
		t.Errorf("A reaches B at %.1f %% of its rate: the storm is none", 100*unicast)
	}
	if p := x.busy(1e6); p[0] < 0.99 || p[1] < 0.99 || p[2] < 0.5 || p[3] < 0.5 {
		t.Errorf("with C the ports of left are busy to %.2f: those to the hosts, where both directions meet, must "+
			"be full", p)
	}
	if x.Settle(2e6) == nil {
		t.Error("the storm ended by itself")
	}
	first, second := x.busy(1e6), x.busy(1e6)
	if first[1] < 0.3 || second[1] < 0.99*first[1] {
		t.Errorf("without C the ports of left are busy to %.2f, then to %.2f: the storm must go on as it was", first,
			second)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}
