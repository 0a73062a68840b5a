package bridge

import (
	"testing"

	"sluice/internal/frame"
)

// TestManyFlushes: a bridge keeps few flushes of single VLANs; beyond that it forgets more rather
// than less.
func TestManyFlushes(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	for i := range 2 * maxFlushes {
		mac, vid := frame.MAC(0x0200_0000_0000+i), uint16(i+1)
		now := int64(10*i) * us
		b.Learn(now, mac, vid, 0)
		b.Flush(now, AnyPort, vid)
		stations, _ := b.Dump(now+us, 0, len(b.table.slots), nil)
		if len(stations) != 0 || len(b.flushes) > maxFlushes {
			t.Fatalf("after %d flushes %v are known, and %d flushes", i+1, stations, len(b.flushes))
		}
	}
}

// TestFlushesEnd: a flush counts until all addresses from before it have aged. However many follow,
// the addresses of other VLANs stay.
func TestFlushesEnd(t *testing.T) {
	const ageing = 1000 * us
	b := mustNew(t, Params{Ports: make([]PortParams, 2), Ageing: ageing})
	for i := range int64(3 * maxFlushes) {
		now := i * (ageing + 2*us)
		b.decide(now, 0, tagged(alice, bob, 2))
		b.Flush(now, AnyPort, 1)
		if _, known := b.Find(now, alice, 2); !known {
			t.Fatalf("after %d flushes of VLAN 1, an address in VLAN 2 is forgotten", i+1)
		}
	}
}

// TestAnnounce: after Announce, a known address is news to other workers once more.
func TestAnnounce(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	frames := []*frame.Header{untagged(alice, bob)}
	news := func(now int64) bool { return b.decide(now, 0, frames[0]).Learned }
	if !news(10*us) || news(20*us) {
		t.Fatal("a station is news once in a period")
	}
	b.Announce(30*us + 1)
	if news(30*us+2) || !news(31*us) || news(50*us) {
		t.Error("a station is news once more from the tick after Announce, and not more often")
	}
}

// TestTidy: a port at its limit soon has room again after its addresses were forgotten, and those
// of other ports and VLANs stay.
func TestTidy(t *testing.T) {
	for _, test := range []struct {
		name   string
		forget func(b *Bridge)
		left   int
	}{
		{"all", func(b *Bridge) { b.Flush(us, AnyPort, 0) }, 0},
		{"a port's", func(b *Bridge) { b.Flush(us, 0, 0) }, 1},
		{"a VLAN's", func(b *Bridge) { b.Flush(us, AnyPort, 1) }, 1},
		{"a port whose link goes down", func(b *Bridge) { b.Forget(us, 0) }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			const limit = 100
			b := mustNew(t, Params{Ports: []PortParams{{Limit: limit}, {PVID: 2}}, Capacity: 128}) // in many runs
			for i := range limit {
				b.Learn(0, stranger(i), 0, 0)
			}
			b.Learn(0, alice, 0, 1)
			test.forget(b)
			b = succeeded(t, us, b, b.params)
			turns := 0
			for ; (b.LearnedOn(0) > 0 || b.Len() > test.left) && turns < 1000; turns++ {
				b.Tidy(2 * us)
			}
			if most := (len(b.table.slots) + limit) / tidyBurst; turns > most+1 || b.Len() != test.left {
				t.Errorf("%d addresses in the table after %d turns, want %d after %d", b.Len(), turns, test.left, most)
			}
			if d := b.decide(3*us, 0, untagged(stranger(limit), frame.Broadcast)); !d.Learned ||
				b.Stats().PortFull > 0 {
				t.Errorf("a new address: %+v", d)
			}
			for range 2 * len(b.table.slots) / tidyBurst {
				b.Tidy(3 * us)
			}
			before := b.Len()
			if b.Tidy(1e18); b.Len() != before {
				t.Errorf("%d addresses, %d before: Tidy was at work after it had examined the table", b.Len(), before)
			}
		})
	}
}
