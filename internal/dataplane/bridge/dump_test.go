package bridge

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/frame"
)

// TestDump: Dump, with pieces of any size, returns every address with its last port and age, and
// none that has aged or was forgotten.
func TestDump(t *testing.T) {
	const stations, ageing = 500, 1000 * us
	still := StaticEntry{MAC: alice, VID: 1, Port: 1}
	for slots := 1; slots < 1<<13; slots *= 3 {
		b := mustNew(t, Params{Ports: make([]PortParams, 3), Capacity: 1000, Ageing: ageing,
			Static: []StaticEntry{still}})
		seen, where := map[frame.MAC]int64{}, map[frame.MAC]int{}
		random := rand.New(rand.NewPCG(1, uint64(slots)))
		now := int64(0)
		for range 3 * stations {
			mac, port := stranger(random.IntN(stations)), random.IntN(2)
			b.decide(now, port, untagged(mac, frame.Broadcast))
			seen[mac], where[mac] = now, port
			now += us
		}
		b.decide(now, 2, untagged(stranger(stations), frame.Broadcast))
		b.Forget(now, 2)
		now += 2 * us
		for mac, last := range seen {
			if at(last) < at(now)-b.ageing {
				delete(seen, mac)
			}
		}
		var all []FDBEntry
		looks := 0
		for next := 0; next > 0 || looks == 0; looks++ {
			all, next = b.Dump(now, next, slots, all)
		}
		if want := (len(b.table.slots) + slots - 1) / slots; looks != want {
			t.Errorf("%d slots at a time: %d looks, want %d", slots, looks, want)
		}
		if len(all) != len(seen)+1 {
			t.Errorf("%d slots at a time: %d stations, want %d", slots, len(all), len(seen)+1)
		}
		for _, s := range all {
			if s.Static {
				if s != (FDBEntry{MAC: alice, VID: 1, Port: 1, Static: true}) {
					t.Errorf("static entry %+v", s)
				}
				continue
			}
			last, known := seen[s.MAC]
			if age := now - last; !known || s.Port != where[s.MAC] || s.VID != 1 || s.Age < age-1024 ||
				s.Age > age+1024 {
				t.Errorf("%d slots at a time: %+v; was seen %d ns ago on port %d (%t)", slots, s, age, where[s.MAC],
					known)
			}
		}
	}
}

// TestDumpBeyondTheEnd: a reader that continues in a table that has shrunk is at its end.
func TestDumpBeyondTheEnd(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 1), Capacity: 1})
	if all, next := b.Dump(0, len(b.table.slots), 1, nil); all != nil || next != 0 {
		t.Errorf("got %v and slot %d", all, next)
	}
}

// TestFind returns what Dump does, for one address in one VLAN.
func TestFind(t *testing.T) {
	const ageing = 1000 * us
	b := mustNew(t, Params{Ports: make([]PortParams, 4), Ageing: ageing,
		Static: []StaticEntry{{MAC: bob, VID: 4094, Port: 1}}})
	b.decide(2*us, 3, tagged(alice, frame.Broadcast, 4094))
	for _, c := range []struct {
		now  int64
		mac  frame.MAC
		vid  uint16
		want FDBEntry // empty: unknown
	}{
		{5 * us, alice, 4094, FDBEntry{MAC: alice, VID: 4094, Port: 3, Age: 3 * us}},
		{2*us + ageing, alice, 4094, FDBEntry{MAC: alice, VID: 4094, Port: 3, Age: ageing}},
		{-5 * us, alice, 4094, FDBEntry{MAC: alice, VID: 4094, Port: 3}}, // seen by a worker that is ahead
		{3*us + ageing, alice, 4094, FDBEntry{}},
		{0, alice, 1, FDBEntry{}},
		{0, carol, 4094, FDBEntry{}},
		{ageing + us, bob, 4094, FDBEntry{MAC: bob, VID: 4094, Port: 1, Static: true}},
	} {
		if e, known := b.Find(c.now, c.mac, c.vid); e != c.want || known != (c.want != FDBEntry{}) {
			t.Errorf("%v in VLAN %d at %d ns: %+v, %v; want %+v", c.mac, c.vid, c.now, e, known, c.want)
		}
	}
}
