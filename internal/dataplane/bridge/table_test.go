package bridge

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

func TestTableAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity, most = 4, 12 // in 16 slots, so that runs, also across the end, are frequent
		table := newTable(capacity, 0)
		model := map[uint64]int64{}
		keys := rapid.Uint64Range(1, 20)
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				key, seen := keys.Draw(t, "key"), rapid.Int64().Draw(t, "seen")
				if _, ok := model[key]; ok || len(model) == most {
					t.Skip("known, or no room")
				}
				table.insert(key).seen = lastSeen(seen)
				model[key] = seen
			},
			"remove": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				if _, ok := model[key]; !ok {
					t.Skip("not there")
				}
				table.remove(table.position(key))
				delete(model, key)
			},
			"": func(t *rapid.T) {
				if table.used != len(model) {
					t.Fatalf("%d entries, want %d", table.used, len(model))
				}
				for key := range uint64(21) {
					if key == 0 {
						continue
					}
					e := table.find(key)
					if seen, ok := model[key]; ok != (e != nil) || ok && int64(e.seen) != seen {
						t.Fatalf("key %d: %+v, want %d, %v", key, e, seen, ok)
					}
				}
			},
		})
	})
}

// TestHashSpreads: addresses come in patterns, such as one vendor's series or one host in all
// VLANs. For each the searches must stay short.
func TestHashSpreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	patterns := map[string]func(i int) uint64{
		"series":        func(i int) uint64 { return keyOf(alice+frame.MAC(i), 1) },
		"every 256th":   func(i int) uint64 { return keyOf(frame.MAC(i)<<8, 1) },
		"every 4096th":  func(i int) uint64 { return keyOf(frame.MAC(i)<<12, 1) },
		"every 65536th": func(i int) uint64 { return keyOf(frame.MAC(i)<<16, 1) },
		"vendors":       func(i int) uint64 { return keyOf(frame.MAC(i)<<25, 1) },
		"VLANs":         func(i int) uint64 { return keyOf(alice+frame.MAC(i/4094), uint16(i%4094+1)) },
		"random":        func(int) uint64 { return keyOf(frame.MAC(rng.Uint64()>>16), 1) },
	}
	for _, n := range []int{DefaultCapacity, 100_000} {
		for name, key := range patterns {
			table := newTable(n, 0)
			steps := 0
			for i := range n {
				k := key(i)
				if table.find(k) != nil {
					continue
				}
				table.insert(k)
				steps += int((table.position(k) - table.home(k)) & uint(len(table.slots)-1))
			}
			// An ideal hash needs 0.17 on average in a table that is a quarter full at most (Knuth
			// 6.4, theorem K).
			if mean := float64(steps) / float64(n); mean > 0.5 {
				t.Errorf("%d, %s: %.2f steps from home on average", n, name, mean)
			}
		}
	}
}

func TestTableSize(t *testing.T) {
	for _, c := range []struct{ capacity, slots int }{
		{1, 16}, {2, 16}, {4, 16}, {5, 32}, {8, 32}, {9, 64}, {16384, 65536}, {16385, 131_072},
		{100_000, 524_288}, {1 << 20, 1 << 22},
	} {
		if n := len(newTable(c.capacity, 0).slots); n != c.slots {
			t.Errorf("%d slots for %d entries, want %d", n, c.capacity, c.slots)
		}
	}
}

// TestSeedsAreRandom, unless one is given: nobody can choose addresses that share a slot.
func TestSeedsAreRandom(t *testing.T) {
	seeds := func() (all [3]uint64) {
		links, err := NewVirtualLinks([]VirtualLink{link})
		if err != nil {
			t.Fatal(err)
		}
		b := mustNew(t, Params{Ports: make([]PortParams, 1)})
		return [...]uint64{b.table.seed, links.byVN.seed, links.known.seed}
	}
	first, second := seeds(), seeds()
	for i := range first {
		if first[i] == second[i] {
			t.Errorf("table %d has the same seed %#x twice", i, first[i])
		}
	}
	if seed := mustNew(t, Params{Ports: make([]PortParams, 1), Seed: 7}).table.seed; seed != 7 {
		t.Errorf("seed %d, want 7", seed)
	}
}
