package bridge

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// succeeded returns a successor that has taken over.
func succeeded(t *testing.T, now int64, b *Bridge, p Params) *Bridge {
	t.Helper()
	next, err := b.Successor(p)
	if err != nil {
		t.Fatal(err)
	}
	next.TakeOver(now, b)
	return next
}

// TestTakeOverKnowsStations: learned addresses stay known, on ports with the same numbers; floods
// reach new ports.
func TestTakeOverKnowsStations(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	b.decide(0, 0, untagged(alice, bob))
	next := succeeded(t, 10_000, b, Params{Ports: make([]PortParams, 3)})
	if d := next.decide(20_000, 1, untagged(bob, alice)); d.Out != 0 {
		t.Errorf("a station known before: %+v, want port 0", d)
	}
	if d := next.decide(30_000, 0, untagged(alice, carol)); d.Out != Flood || len(d.Flood) != 2 {
		t.Errorf("a station not known: %+v, want it flooded to two ports", d)
	}
	if s := next.Stats(); s.Learned != 2 || next.Len() != 2 || next.LearnedOn(0) != 1 {
		t.Errorf("counts do not go on: %+v, %d known", s, next.Len())
	}
}

// TestTakeOverOfAnomalies: counts of anomalies continue, except those of a number that no port has
// any more. Examples do not name that number, since another port may get it next.
func TestTakeOverOfAnomalies(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	for i := range 5 {
		b.decide(int64(i), i%2, untagged(alice, bob))
	}
	next := succeeded(t, 10_000, b, Params{Ports: []PortParams{{}, {VLANs: new(VLANSet), Peer: -1}}})
	want := AnomalyCount{Frames: 2, MAC: alice, VLAN: 1, From: -1}
	if stays, left := next.PortStats(0)[Moved], next.PortStats(1); stays != want || left != (PortStats{}) {
		t.Errorf("port 0: %+v, want %+v; the port that left: %+v", stays, want, left)
	}
	next = succeeded(t, 20_000, next, Params{Ports: make([]PortParams, 2)})
	if stays, came := next.PortStats(0)[Moved], next.PortStats(1); stays != want || came != (PortStats{}) {
		t.Errorf("port 0: %+v, want %+v; the port that came: %+v", stays, want, came)
	}
}

// TestTakeOverForgetsWhoLeftAVLAN: frames of a VLAN never go to a port that has left it, whether
// the address is known or not.
func TestTakeOverForgetsWhoLeftAVLAN(t *testing.T) {
	member := func(second *VLANSet) Params {
		return Params{Ports: []PortParams{{VLANs: vlans(1, 10)}, {VLANs: second}, {VLANs: vlans(1, 10)}}}
	}
	b := mustNew(t, member(vlans(1, 10)))
	b.decide(0, 1, tagged(alice, bob, 10))
	b.decide(0, 2, tagged(carol, bob, 10))
	next := succeeded(t, 10_000, b, member(vlans(1)))
	if d := next.decide(20_000, 0, tagged(bob, alice, 10)); d.Out != Flood || len(d.Flood) != 1 || d.Flood[0] != 2 {
		t.Errorf("to a station whose port left the VLAN: %+v, want it flooded to port 2", d)
	}
	if d := next.decide(20_000, 0, tagged(bob, carol, 10)); d.Out != 2 {
		t.Errorf("to a station whose port stayed: %+v", d)
	}
}

// TestTakeOverStaticEntries: static entries are added, removed and moved, and replace learned ones.
func TestTakeOverStaticEntries(t *testing.T) {
	with := func(s ...StaticEntry) Params { return Params{Ports: make([]PortParams, 3), Capacity: 64, Static: s} }
	b := mustNew(t, with(StaticEntry{MAC: alice, Port: 0}, StaticEntry{MAC: bob, Port: 1}))
	b.decide(0, 2, untagged(carol, alice))
	next := succeeded(t, 10_000, b, with(StaticEntry{MAC: bob, Port: 2}, StaticEntry{MAC: carol, Port: 1}))
	for _, c := range []struct {
		to   frame.MAC
		want int32
	}{{alice, Flood}, {bob, 2}, {carol, 1}} {
		if d := next.decide(20_000, 0, untagged(stranger(1), c.to)); d.Out != c.want {
			t.Errorf("to %v: %+v, want %d", c.to, d, c.want)
		}
	}
	if next.Len() != 3 || next.LearnedOn(2) != 0 || next.LearnedOn(0) != 1 {
		t.Errorf("%d in the table, learned %d on port 0 and %d on port 2", next.Len(), next.LearnedOn(0),
			next.LearnedOn(2))
	}
	last := succeeded(t, 30_000, next, with())
	if d := last.decide(40_000, 0, untagged(stranger(1), carol)); d.Out != Flood || last.Len() != 1 {
		t.Errorf("an entry that is gone: %+v, %d in the table", d, last.Len())
	}
}

// TestTakeOverOfStormLimits: a takeover does not renew credit that was spent. A limit that is new,
// or lower, begins with its burst.
func TestTakeOverOfStormLimits(t *testing.T) {
	p := Params{Ports: make([]PortParams, 2)}
	b := mustNew(t, p)
	for _, c := range []struct {
		limit FloodLimit // of broadcasts
		want  int        // of 10 broadcasts
	}{
		{FloodLimit{}, 10},
		{FloodLimit{Rate: 1, Burst: 3}, 3},
		{FloodLimit{Rate: 1, Burst: 3}, 0},
		{FloodLimit{Rate: 2, Burst: 9}, 0},
		{FloodLimit{}, 10},
		{FloodLimit{Rate: 1, Burst: 9}, 9},
		{FloodLimit{}, 10},
		{FloodLimit{Rate: 1}, 1},
	} {
		// Of another kind, which is limited alone at first and with the other limits later.
		for _, unknown := range []FloodLimit{{}, {Rate: 1}} {
			next := Params{Ports: make([]PortParams, 2)}
			next.Ports[0].Storm = StormParams{Broadcast: c.limit, UnknownUnicast: unknown}
			b = succeeded(t, 1, b, next)
		}
		flooded := 0
		for range 10 {
			if b.decide(1, 0, untagged(alice, frame.Broadcast)).Out == Flood {
				flooded++
			}
		}
		if flooded != c.want {
			t.Errorf("%+v: %d of 10 broadcasts were flooded, want %d", c.limit, flooded, c.want)
		}
		b = succeeded(t, 1, b, b.params)
	}
	p.Ports[0].Storm[Broadcast] = FloodLimit{Rate: 1, Burst: 8}
	b = succeeded(t, 1, mustNew(t, p), p)
	p.Ports[0].Storm[Broadcast].Burst = 2
	b = succeeded(t, 1, b, p)
	for i, want := range []int32{Flood, Flood, Nowhere} {
		if d := b.decide(1, 0, untagged(alice, frame.Broadcast)); d.Out != want {
			t.Errorf("broadcast %d with a burst of 2, after 8 before: %+v", i, d)
		}
	}
}

// TestTakeOversBetweenAnnouncements: an address that sends all the time is announced once in each
// quarter of the ageing time, whenever a bridge takes over, and however long its ageing time is.
func TestTakeOversBetweenAnnouncements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const gap, upkeep = 30, 64 // ticks at most between two frames, and between two upkeeps
		p := Params{Ports: make([]PortParams, 2), Capacity: 64, Ageing: 4000 * us}
		b := mustNew(t, p)
		now, latest := int64(0), int64(0) // ticks; the next announcement comes until latest
		until := func() int64 { return now + b.params.Ageing/us/periodsPerAgeing + upkeep + gap }
		announced, takeovers := 0, 0
		for range 200 {
			now += rapid.Int64Range(0, gap).Draw(t, "ticks")
			if rapid.IntRange(0, 20).Draw(t, "take over") == 0 {
				p.Ageing = rapid.SampledFrom([]int64{4000 * us, 400 * us}).Draw(t, "ageing")
				next, err := b.Successor(p)
				if err != nil {
					t.Fatal(err)
				}
				next.TakeOver(now*us, b)
				b = next
				latest = min(latest, until())
				takeovers++
			}
			switch news := b.decide(now*us, 0, untagged(alice, bob)).Learned; {
			case news:
				latest = until()
				announced++
			case now > latest:
				t.Fatalf("not announced since %d ticks longer than allowed", now-latest)
			}
		}
		if most := 2 + takeovers + int(now/(400/periodsPerAgeing)); announced > most {
			t.Fatalf("announced %d times, want %d at most", announced, most)
		}
	})
}

func TestSuccessorRefuses(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 3)})
	for _, p := range []Params{
		{Ports: make([]PortParams, 2)},
		{Ports: make([]PortParams, 3), Capacity: 100},
		{Ports: []PortParams{{Peer: 1}, {Peer: 0}, {Peer: -1}}, Mode: Wire},
		{Ports: make([]PortParams, 3), Ageing: -1},
	} {
		if _, err := b.Successor(p); err == nil {
			t.Errorf("%+v: no error", p)
		}
	}
}
