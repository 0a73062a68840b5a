package bridge

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

func TestTableAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 12 // in 16 slots: runs, and runs across the end, are frequent
		table := newTable(capacity, 0)
		model := map[uint64]int64{}
		keys := rapid.Uint64Range(1, 20)
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				key, seen := keys.Draw(t, "key"), rapid.Int64().Draw(t, "seen")
				if _, ok := model[key]; ok || len(model) == capacity {
					t.Skip("known, or no room")
				}
				table.insert(key).seen = sighting(seen)
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

// Addresses come in patterns: one vendor's series, one host in all VLANs. A search must stay short for each.
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
			// What an ideal hash needs, averaged over the filling (Knuth 6.4, theorem K): half a step in a table that
			// fills up to one half, 1.6 up to 0.76.
			full := float64(n) / float64(len(table.slots))
			ideal := (1/(1-full) - 1) / 2
			if mean := float64(steps) / float64(n); mean > 1.5*ideal {
				t.Errorf("%d, %s: %.2f steps from home on average, ideal is %.2f", n, name, mean, ideal)
			}
		}
	}
}

func TestTableSize(t *testing.T) {
	for _, c := range []struct{ capacity, slots int }{{1, 16}, {13, 16}, {14, 32}, {16384, 32768}, {32768, 65536}, {100_000, 131_072}, {1 << 20, 1 << 21}} {
		if n := len(newTable(c.capacity, 0).slots); n != c.slots {
			t.Errorf("%d slots for %d entries, want %d", n, c.capacity, c.slots)
		}
	}
}
