package dcbx

import "testing"

func TestSmoke(t *testing.T) {
	a := NewMachine(Config{Version: Auto, MAC: [6]byte{1}, Enabled: [3]bool{true, true, true},
		PFC: PFC{Priorities: 8, Capability: 8},
		ETS: ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{2}}})
	b := NewMachine(Config{Version: CEE, MAC: [6]byte{2}, Enabled: [3]bool{true, true, true},
		Willing: [3]bool{true, true, true},
		PFC:     PFC{Capability: 8},
		ETS:     ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{2}}})
	for i := range 20 {
		if !a.Pending() && !b.Pending() {
			t.Log(i)
			break
		}
		if a.Pending() {
			b.Receive([6]byte{1}, a.TLVs(nil))
		}
		if b.Pending() {
			a.Receive([6]byte{2}, b.TLVs(nil))
		}
	}
	for _, m := range []*Machine{a, b} {
		s := m.Status()
		t.Logf("%v %s %+v", s.Version, s.Why, s.Control)
		for f, x := range s.Features {
			t.Logf("%v %v %v %s", Feature(f), x.State, x.Source, x.Why)
		}
	}
}
