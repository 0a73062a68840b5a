package umem

import (
	"slices"
	"testing"
)

// TestSpares: what is lacking comes from the pool as far as it has any, and what was in use comes
// back.
func TestSpares(t *testing.T) {
	p, s := NewPool(10, 3), Spares{Lacking: 5}
	if s.Fill(p); s.N != 3 || s.Lacking != 2 || p.Free() != 0 {
		t.Errorf("%+v, %d are free", s, p.Free())
	}
	s.N--
	used := s.IDs[s.N]
	p.ids, p.free = append(p.ids, 20), 1
	p.ids[0] = 20
	if s.Fill(p); s.N != 3 || s.Lacking != 1 || slices.Contains(s.All(), used) {
		t.Errorf("%+v", s)
	}
	if s.Put(used); s.N != 4 || s.All()[3] != used {
		t.Errorf("%+v", s)
	}
}
