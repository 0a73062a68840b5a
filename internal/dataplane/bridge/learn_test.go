package bridge

import (
	"math"
	"math/rand/v2"
	"testing"

	"sluice/internal/frame"
)

// stranger returns the i-th of very many addresses.
func stranger(i int) frame.MAC { return 0x0600_0000_0000 + frame.MAC(i)*0x1_0007 }

func TestTableFullFloodsAndCounts(t *testing.T) {
	const capacity, ageing = 100, 1000 * us
	b := mustNew(t, Params{Ports: make([]PortParams, 2), Capacity: capacity, Ageing: ageing})
	most := capacity - b.shares[1].kept
	for i := range most {
		b.decide(0, 0, untagged(stranger(i), frame.Broadcast))
	}
	late := stranger(most)
	for now := int64(0); now <= ageing; now += us {
		if d := b.decide(now, 0, untagged(late, frame.Broadcast)); d.Learned || d.Out != Flood {
			t.Fatalf("at %d ns: %+v; want no learning into a full table, and forwarding as ever", now, d)
		}
		if out := b.place(now, late); out != Flood {
			t.Fatalf("to a station that found no room: %d, want a flood", out)
		}
	}
	for i := range most { // none was evicted
		if out := b.place(ageing, stranger(i)); out != 0 {
			t.Fatalf("to station %d: %d, want port 0", i, out)
		}
	}
	if s := b.Stats(); s.TableFull != 1001 || s.Removed != 0 || b.Len() != most {
		t.Errorf("%+v with %d entries; want 1001 frames without room, %d entries", s, b.Len(), most)
	}
	// All are too old now. Each frame that finds no room examines a few slots for one of them.
	b.decide(ageing+us, 0, untagged(late, frame.Broadcast))
	for range len(b.table.slots) / sweepBurst {
		b.decide(ageing+us, 0, untagged(late, frame.Broadcast))
	}
	if out := b.place(ageing+us, late); out != 0 {
		t.Errorf("after the others had aged: %d, want port 0", out)
	}
}

// TestAddressFloodStaysAtItsPort: while one port sends from new addresses all the time, as fast as
// it can, other ports keep their addresses, and new ones on these ports are learned with their
// first frame.
func TestAddressFloodStaysAtItsPort(t *testing.T) {
	const ports, capacity, known = 4, 1000, 40
	b := mustNew(t, Params{Ports: make([]PortParams, ports), Capacity: capacity})
	at := func(port, i int) frame.MAC { return alice + frame.MAC(port)<<16 + frame.MAC(i)<<24 }
	for port := 1; port < ports; port++ {
		for i := range known {
			b.decide(0, port, untagged(at(port, i), frame.Broadcast))
		}
	}
	now := int64(0)
	flood := func(n int) {
		for range n {
			now += 67 // ns: 10 Gbit/s of the shortest frames
			b.decide(now, 0, untagged(stranger(int(now)), frame.Broadcast))
		}
	}
	flood(100_000)
	for i := known; i < b.shares[1].kept; i++ {
		for port := 1; port < ports; port++ {
			if d := b.decide(now, port, untagged(at(port, i), frame.Broadcast)); !d.Learned {
				t.Fatalf("station %d of port %d: %+v; want it learned in the flood", i, port, d)
			}
			flood(100)
		}
	}
	for port := 1; port < ports; port++ {
		for i := range b.shares[1].kept {
			if out := b.place(now, at(port, i)); out != int32(port) {
				t.Fatalf("to station %d of port %d: %d", i, port, out)
			}
		}
	}
	s := b.Stats()
	if want := capacity - (ports-1)*b.shares[1].kept; b.LearnedOn(0) != want || s.Removed != 0 ||
		s.TableFull < 100_000 {
		t.Errorf("%d learned at the flood's port, want %d; %+v", b.LearnedOn(0), want, s)
	}
}

// TestFloodOfAnothersAddresses: a port at its limit can't take over the addresses of another port
// either.
func TestFloodOfAnothersAddresses(t *testing.T) {
	b := mustNew(t, Params{Ports: []PortParams{{Limit: 2}, {}, {}}})
	for i := range 50 {
		b.decide(0, 1, untagged(stranger(i), frame.Broadcast))
	}
	for i := range 50 {
		d := b.decide(us, 0, untagged(stranger(i), frame.Broadcast))
		if d.Out != Flood || d.Learned != (i < 2) {
			t.Errorf("frame %d: %+v; want it forwarded, and news of two addresses", i, d)
		}
	}
	moved := 0
	for i := range 50 {
		switch out := b.place(us, stranger(i)); out {
		case 0:
			moved++
		case 1:
		default:
			t.Errorf("to station %d: %d", i, out)
		}
	}
	if s := b.Stats(); moved != 2 || s.Moved != 2 || s.PortFull != 48 || b.LearnedOn(0) != 2 || b.LearnedOn(1) != 48 {
		t.Errorf("%d moved; %d and %d learned, %+v; want 2, 2 and 48, and 48 frames beyond the limit",
			moved, b.LearnedOn(0), b.LearnedOn(1), s)
	}
}

func TestLimitIsOfThePort(t *testing.T) {
	const ageing = 1000 * us
	b := mustNew(t, Params{Ports: []PortParams{{Limit: 3}, {}}, Ageing: ageing, Capacity: 64})
	for i := range 5 {
		b.decide(0, 0, untagged(stranger(i), frame.Broadcast))
	}
	for i := range 5 {
		want := int32(Flood)
		if i < 3 {
			want = 0
		}
		if out := b.place(us, stranger(i)); out != want {
			t.Errorf("to station %d: %d, want %d", i, out, want)
		}
	}
	if s := b.Stats(); s.PortFull != 2 || s.TableFull != 0 || b.LearnedOn(0) != 3 {
		t.Errorf("%d learned, %+v", b.LearnedOn(0), s)
	}
	// When those have aged there is room again, at the latest after a full sweep.
	for range len(b.table.slots) / sweepBurst {
		b.decide(ageing+us, 0, untagged(stranger(4), frame.Broadcast))
	}
	if out := b.place(ageing+us, stranger(4)); out != 0 {
		t.Errorf("after the others had aged: %d, want port 0", out)
	}
}

func TestStaticEntries(t *testing.T) {
	const ageing = 1000 * us
	b := mustNew(t, Params{
		Ports: []PortParams{{}, {PVID: 20}, {VLANs: vlans(1, 20)}}, Ageing: ageing, Capacity: 16,
		Static: []StaticEntry{{alice, 1, 0}, {bob, 0, 1}},
	})
	for _, now := range []int64{-5e9, 0, ageing + 2*us, 1e15} {
		b.decide(now, 2, untagged(alice, frame.Broadcast)) // from another port: her entry stays
		b.Learn(now, alice, 1, 2)
		if b.decide(now, 0, untagged(alice, frame.Broadcast)).Learned {
			t.Error("a static entry was learned")
		}
		b.Forget(now, 0) // the link goes down, the entry stays
		if d := b.decide(now, 2, untagged(carol, alice)); d.Out != 0 {
			t.Errorf("at %d ns, to alice: %+v, want port 0", now, d)
		}
		if d := b.decide(now, 2, tagged(carol, bob, 20)); d.Out != 1 {
			t.Errorf("at %d ns, to bob in the PVID of his port: %+v, want port 1", now, d)
		}
		if d := b.decide(now, 2, untagged(carol, bob)); d.Out != Flood {
			t.Errorf("at %d ns, to bob in another VLAN: %+v, want a flood", now, d)
		}
	}
	if s := b.Stats(); s.Pinned != 8 || s.Moved != 0 || b.LearnedOn(0) != 0 {
		t.Errorf("%+v; want 8 frames from alice elsewhere", s)
	}
	for i := range 100 { // static entries take room in the table and can't be evicted
		b.decide(1e15, 0, untagged(stranger(i), frame.Broadcast))
	}
	if b.Len() > 16 {
		t.Errorf("%d entries in a table of 16", b.Len())
	}
	if d := b.decide(1e15, 2, untagged(carol, alice)); d.Out != 0 {
		t.Errorf("to alice in a full table: %+v, want port 0", d)
	}
}

func TestOwnAddressesAreNotLearned(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 3)})
	b.SetOwn(1, alice)
	if d := b.decide(0, 0, untagged(alice, frame.Broadcast)); d.Learned || d.Reason != SourceAddress {
		t.Errorf("from the switch's own address: %+v; want it dropped, not learned", d)
	}
	b.Learn(0, alice, 1, 2)
	if s := b.Stats(); b.Len() != 0 || s.Own != 2 {
		t.Errorf("%d entries, %+v", b.Len(), s)
	}
	b.SetOwn(1, 0)
	if !b.decide(0, 0, untagged(alice, frame.Broadcast)).Learned {
		t.Error("not learned, though no port has the address any more")
	}
}

// TestImpossibleSources: frames from addresses that no station has are dropped, and neither add nor
// move an entry, nor refresh another one. On a wire they pass.
func TestImpossibleSources(t *testing.T) {
	const group frame.MAC = 0x0100_5e00_0001
	for _, c := range []struct {
		src, dst frame.MAC
		port     int
	}{
		{0, bob, 0}, {0, bob, 1}, {0, 0, 0}, {group, bob, 0}, {frame.Broadcast, frame.Broadcast, 1}, {group, alice, 1},
		{alice, alice, 0}, {alice, alice, 1}, {bob, bob, 1}, {carol, carol, 0}, {carol, carol, 1},
	} {
		b := mustNew(t, Params{Ports: make([]PortParams, 3), Static: []StaticEntry{{carol, 1, 0}}})
		b.decide(0, 0, untagged(alice, frame.Broadcast))
		d := b.decide(us, c.port, untagged(c.src, c.dst))
		if d.Reason != SourceAddress || d.Out != Nowhere || d.Learned {
			t.Errorf("from %v to %v on port %d: %+v", c.src, c.dst, c.port, d)
		}
		b.Learn(us, group, 1, 2)
		b.Learn(us, 0, 1, 2)
		if s := b.Stats(); s != (Stats{Learned: 1}) || b.Len() != 2 {
			t.Errorf("from %v to %v on port %d: %d entries, %+v", c.src, c.dst, c.port, b.Len(), s)
		}
		wire := mustNew(t, Params{Mode: Wire, Ports: []PortParams{{Peer: 1}, {Peer: 0}}})
		if d := wire.decide(0, c.port, untagged(c.src, c.dst)); d.Reason != Forwarded {
			t.Errorf("on a wire, from %v to %v: %+v", c.src, c.dst, d)
		}
	}
}

// TestLoopIsSeenInAFullTable: a frame from the switch's own address that comes back is counted as
// such, even without room in the table.
func TestLoopIsSeenInAFullTable(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2), Capacity: 1})
	b.SetOwn(1, alice)
	for i := range 10 {
		b.decide(0, i%2, untagged(stranger(i), frame.Broadcast))
	}
	before := b.Stats()
	b.decide(0, 0, untagged(alice, frame.Broadcast))
	if s := b.Stats(); s.Own != 1 || s.TableFull != before.TableFull || before.TableFull+before.PortFull == 0 {
		t.Errorf("%+v, before %+v", s, before)
	}
}

// TestHundredThousandStations: a table with a capacity of 100,000 knows 100,000 addresses, also
// after a tenth of those of one port have moved.
func TestHundredThousandStations(t *testing.T) {
	const n, ports = 100_000, 4
	b := mustNew(t, Params{Ports: make([]PortParams, ports), Capacity: n})
	rng := rand.New(rand.NewPCG(5, 6))
	macs := make([]frame.MAC, n)
	for i := range macs {
		macs[i] = frame.MAC(rng.Uint64()>>16) &^ (1 << 40)
		b.decide(0, i%ports, untagged(macs[i], frame.Broadcast))
	}
	for i := 0; i < n; i += 10 * ports { // a tenth of port 0's
		b.decide(0, 1, untagged(macs[i], frame.Broadcast))
	}
	for i, mac := range macs {
		want := int32(i % ports)
		if i%(10*ports) == 0 {
			want = 1
		}
		if out := b.place(0, mac); out != want {
			t.Fatalf("station %d: %d, want port %d", i, out, want)
		}
	}
	if s := b.Stats(); s.Learned != n || s.Moved != n/ports/10 || s.TableFull != 0 {
		t.Errorf("%+v", s)
	}
}

// TestEachPortKeepsAnEntry: a table with one entry for each port has room for an address of each,
// even after one port has flooded it. Beyond that the first that come are served.
func TestEachPortKeepsAnEntry(t *testing.T) {
	const ports = 4
	for capacity, want := range map[int]int{ports - 1: ports - 1, ports: 1, ports + 1: 2} {
		b := mustNew(t, Params{Ports: make([]PortParams, ports), Capacity: capacity})
		for i := range 10 {
			b.decide(0, 0, untagged(stranger(i), frame.Broadcast))
		}
		for port := 1; port < ports; port++ {
			b.decide(0, port, untagged(alice+frame.MAC(port), frame.Broadcast))
		}
		if b.LearnedOn(0) != want || b.Len() != capacity {
			t.Errorf("capacity %d: %d of the flood learned, want %d; %d known", capacity, b.LearnedOn(0), want, b.Len())
		}
	}
}

// TestSweepIsEven: forgotten addresses leave the table evenly within a quarter of the ageing time,
// or at one burst per tick if that is not fast enough. Takeovers neither delay nor hasten it.
func TestSweepIsEven(t *testing.T) {
	const n, capacity, slots = 256, 1024, 4096
	for _, c := range []struct{ ageing, want int64 }{ // ticks
		{4 * slots, slots}, {8 * slots, 2 * slots}, {4 * slots / sweepBurst, slots / sweepBurst},
		{4, slots / sweepBurst},
	} {
		for _, takeovers := range []int64{math.MaxInt64, c.want / 32} { // ticks between two
			p := Params{Ports: make([]PortParams, 2), Capacity: capacity, Ageing: c.ageing * us, Seed: 1}
			b := mustNew(t, p)
			for i := range n {
				b.Learn(0, stranger(i), 1, 0)
			}
			b.Forget(0, 0)
			const quarters = 4
			for now := int64(1); now <= c.want*9/8; now++ {
				if now%takeovers == 0 {
					b = succeeded(t, now*us, b, p)
				}
				b.decide(now*us, 1, untagged(bob, frame.Broadcast))
				if now%(c.want/quarters) == 0 {
					want := n - n*int(now)/int(c.want)
					if got := b.LearnedOn(0); got < want-n/8 || got > want+n/8 {
						t.Fatalf("ageing %d, takeovers after %d: %d are left at %d, want about %d", c.ageing, takeovers,
							got, now, want)
					}
				}
			}
			if b.LearnedOn(0) > 0 {
				t.Errorf("ageing %d, takeovers after %d: %d are left in the end", c.ageing, takeovers, b.LearnedOn(0))
			}
		}
	}
}

// TestRemovedIsExact: an entry counts as removed once, when it has aged by more than the ageing
// time, was forgotten, or makes way for a static one, and not before.
func TestRemovedIsExact(t *testing.T) {
	const ageing = 1000 * us
	for name, c := range map[string]struct {
		do      func(b *Bridge) *Bridge
		removed uint64
	}{
		"ageing time, sweep": {func(b *Bridge) *Bridge { b.sweep(at(ageing), len(b.table.slots)); return b }, 0},
		"past it, sweep":     {func(b *Bridge) *Bridge { b.sweep(at(ageing+us), len(b.table.slots)); return b }, 1},
		"ageing time, seen again": {func(b *Bridge) *Bridge {
			b.decide(ageing, 0, untagged(alice, frame.Broadcast))
			return b
		}, 0},
		"past it, seen again": {func(b *Bridge) *Bridge {
			b.learn(at(ageing+us), keyOf(alice, 1), 0, bob)
			return b
		}, 1},
		"past it, seen elsewhere": {func(b *Bridge) *Bridge {
			b.learn(at(ageing+us), keyOf(alice, 1), 1, bob)
			return b
		}, 1},
		"moved": {func(b *Bridge) *Bridge { b.decide(us, 1, untagged(alice, bob)); return b }, 0},
		"forgotten, sweep": {func(b *Bridge) *Bridge {
			b.Forget(0, 0)
			b.sweep(at(us), len(b.table.slots))
			return b
		}, 1},
		"static on its port": {func(b *Bridge) *Bridge {
			p := b.params
			p.Static = []StaticEntry{{MAC: alice, Port: 0}}
			return succeeded(t, us, b, p)
		}, 1},
		"static without having been learned": {func(b *Bridge) *Bridge {
			p := b.params
			p.Static = []StaticEntry{{MAC: carol, Port: 0}}
			return succeeded(t, us, b, p)
		}, 0},
	} {
		b := mustNew(t, Params{Ports: make([]PortParams, 2), Ageing: ageing, Capacity: 64})
		b.learn(at(0), keyOf(alice, 1), 0, bob)
		b = c.do(b)
		learned := b.Len() - len(b.params.Static)
		if s := b.Stats(); s.Removed != c.removed || s.Learned-s.Removed != uint64(learned) {
			t.Errorf("%s: %d removed of %d, %d left; want %d removed", name, s.Removed, s.Learned, learned, c.removed)
		}
	}
}
