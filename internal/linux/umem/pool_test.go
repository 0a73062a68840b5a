package umem

import (
	"testing"

	"pgregory.net/rapid"
)

// TestPoolAgainstModel tracks the owner of every buffer: none is handed out twice, and none is
// lost.
func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, size := rapid.IntRange(0, 1000).Draw(t, "first"), rapid.IntRange(0, 50).Draw(t, "size")
		p := NewPool(first, size)
		out := map[uint32]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				dst := make([]uint32, rapid.IntRange(0, 20).Draw(t, "burst"))
				n := p.Get(dst)
				if want := min(len(dst), size-len(out)); n != want {
					t.Fatalf("got %d buffers of %d, want %d", n, len(dst), want)
				}
				for _, id := range dst[:n] {
					if out[id] || int(id) < first || int(id) >= first+size {
						t.Fatalf("got buffer %d: out already %t, pool is %d to %d", id, out[id], first, first+size-1)
					}
					out[id] = true
				}
			},
			"put": func(t *rapid.T) {
				var ids []uint32
				for id := range out {
					if len(ids) == 7 {
						break
					}
					ids = append(ids, id)
				}
				for _, id := range ids {
					delete(out, id)
				}
				p.Put(ids)
			},
			"put one": func(t *rapid.T) {
				for id := range out {
					delete(out, id)
					p.PutOne(id)
					break
				}
			},
			"": func(t *rapid.T) {
				if p.Free() != size-len(out) || p.Size() != size {
					t.Fatalf("%d of %d free, want %d of %d", p.Free(), p.Size(), size-len(out), size)
				}
			},
		})
	})
}

func TestPoolHandsOutTheWarmestFirst(t *testing.T) {
	p := NewPool(10, 4)
	var all, one [4]uint32
	p.Get(all[:])
	for _, id := range []uint32{11, 13, 10} {
		p.Put([]uint32{id})
	}
	for _, want := range []uint32{10, 13, 11} {
		if p.Get(one[:1]); one[0] != want {
			t.Fatalf("got %d, want %d", one[0], want)
		}
	}
}

func TestPoolRefusesMoreThanItHas(t *testing.T) {
	for name, put := range map[string]func(*Pool){
		"Put":    func(p *Pool) { p.Put([]uint32{1}) },
		"PutOne": func(p *Pool) { p.PutOne(1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			put(NewPool(0, 4))
		})
	}
}
