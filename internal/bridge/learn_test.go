package bridge

import (
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
		if d := b.decide(now, 1, untagged(frame.Broadcast, late)); d.Out != Flood {
			t.Fatalf("to a station that found no room: %+v, want a flood", d)
		}
	}
	for i := range most { // none was evicted
		if d := b.decide(ageing, 1, untagged(frame.Broadcast, stranger(i))); d.Out != 0 {
			t.Fatalf("to station %d: %+v, want port 0", i, d)
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
	if d := b.decide(ageing+us, 1, untagged(frame.Broadcast, late)); d.Out != 0 {
		t.Errorf("after the others had aged: %+v, want port 0", d)
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
			if d := b.decide(now, 0, untagged(frame.Broadcast, at(port, i))); d.Out != int32(port) {
				t.Fatalf("to station %d of port %d: %+v", i, port, d)
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
		b.decide(us, 0, untagged(stranger(i), frame.Broadcast))
	}
	moved := 0
	for i := range 50 {
		switch d := b.decide(us, 2, untagged(frame.Broadcast, stranger(i))); d.Out {
		case 0:
			moved++
		case 1:
		default:
			t.Errorf("to station %d: %+v", i, d)
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
		if d := b.decide(us, 1, untagged(frame.Broadcast, stranger(i))); d.Out != want {
			t.Errorf("to station %d: %+v, want %d", i, d, want)
		}
	}
	if s := b.Stats(); s.PortFull != 2 || s.TableFull != 0 || b.LearnedOn(0) != 3 {
		t.Errorf("%d learned, %+v", b.LearnedOn(0), s)
	}
	// When those have aged there is room again, at the latest after a full sweep.
	for range len(b.table.slots) / sweepBurst {
		b.decide(ageing+us, 0, untagged(stranger(4), frame.Broadcast))
	}
	if d := b.decide(ageing+us, 1, untagged(frame.Broadcast, stranger(4))); d.Out != 0 {
		t.Errorf("after the others had aged: %+v, want port 0", d)
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
	if d := b.decide(0, 0, untagged(alice, frame.Broadcast)); d.Learned || d.Out != Flood {
		t.Errorf("from the switch's own address: %+v; want it flooded, not learned", d)
	}
	b.Learn(0, alice, 1, 2)
	if s := b.Stats(); b.Len() != 0 || s.Own != 2 {
		t.Errorf("%d entries, %+v", b.Len(), s)
	}
	b.SetOwn(1, 0)
	if !b.decide(0, 0, untagged(alice, frame.Broadcast)).Learned ||
		!b.decide(0, 0, untagged(0, frame.Broadcast)).Learned {
		t.Error("not learned, though no port has the address any more")
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
		if d := b.decide(0, 3, untagged(frame.Broadcast, mac)); d.Out != want && want != 3 {
			t.Fatalf("station %d: %+v, want port %d", i, d, want)
		}
	}
	if s := b.Stats(); s.Learned != n || s.Moved != n/ports/10 || s.TableFull != 0 {
		t.Errorf("%+v", s)
	}
}
