package show

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/state"
)

// TestFilterState checks on random states that the filter keeps exactly what it selects, in order.
func TestFilterState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(0, 7), 0, 20)
		classes, wanted, ports := list.Draw(t, "classes"), list.Draw(t, "wanted"),
			rapid.SampledFrom([][]string{nil, {"port1"}}).Draw(t, "ports")
		r := &state.Switch{Ports: []state.Port{{Name: "port0"}, {Name: "port1"}, {Name: "port2"}},
			Workers: []state.Worker{{}}}
		want := map[string][]int{}
		for i, cos := range classes {
			p := &r.Ports[i%3]
			p.ByCoS = append(p.ByCoS, state.CoS{CoS: cos})
			p.Drops = append(p.Drops, state.Drop{CoS: cos})
			p.PausedPeer = append(p.PausedPeer, state.Transition{CoS: uint8(cos)})
			p.Paused = append(p.Paused, state.Transition{CoS: uint8(cos)})
			p.Storms = append(p.Storms, state.StormEvent{CoS: uint8(cos)})
			r.Alarms = append(r.Alarms, state.Alarm{Port: p.Name, CoS: cos})
			if (len(wanted) == 0 || slices.Contains(wanted, cos)) && (ports == nil || p.Name == "port1") {
				want[p.Name] = append(want[p.Name], cos)
			}
		}
		f := Filter{Ports: ports, CoS: wanted}
		f.Apply(r)
		got := map[string][]int{}
		for _, a := range r.Alarms {
			got[a.Port] = append(got[a.Port], a.CoS)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%+v of %v: alarms %v, want %v", f, classes, got, want)
		}
		for _, p := range r.Ports {
			var by, drops, sent, received, storms []int
			for i := range p.ByCoS {
				by, drops, storms = append(by, p.ByCoS[i].CoS), append(drops, p.Drops[i].CoS),
					append(storms, int(p.Storms[i].CoS))
				sent, received = append(sent, int(p.PausedPeer[i].CoS)), append(received, int(p.Paused[i].CoS))
			}
			for _, all := range [][]int{by, drops, sent, received, storms} {
				if !slices.Equal(all, want[p.Name]) {
					t.Fatalf("%+v of %v at %s: %v, want %v", f, classes, p.Name, all, want[p.Name])
				}
			}
		}
		if ports != nil && len(r.Ports) != 1 || (r.Workers == nil) != (f.names() != 0) {
			t.Fatalf("%+v: %d ports, workers %v", f, len(r.Ports), r.Workers)
		}
	})
}

// TestFilterAddresses checks that a VLAN filter keeps the entries of the VLAN, and removes parts
// that do not separate VLANs.
func TestFilterAddresses(t *testing.T) {
	r := &state.Switch{Ports: []state.Port{{Name: "a"}}, FDB: []state.FDBEntry{{VLAN: 7, Port: "a"},
		{VLAN: 8, Port: "a"}, {VLAN: 7, Port: "b"}}}
	f := Filter{Ports: []string{"a"}, VLANs: []int{7, 9}}
	if f.Apply(r); !slices.Equal(r.FDB, []state.FDBEntry{{VLAN: 7, Port: "a"}}) || r.Ports != nil {
		t.Errorf("%+v", r)
	}
}

// TestFilterColumns checks that a filter by class keeps the columns of the selected classes.
func TestFilterColumns(t *testing.T) {
	r := &state.Switch{Ports: []state.Port{{Name: "a"}, {Name: "b"}}}
	for i := range r.Ports {
		for cos := range 8 {
			r.Ports[i].ByCoS = append(r.Ports[i].ByCoS, state.CoS{CoS: cos, Sent: uint64(10*i + cos)})
		}
	}
	f := Filter{Ports: []string{"b"}, CoS: []int{6, 3}}
	f.Apply(r)
	x := byPriority(r, "", "PORT", "Q", func(c *state.CoS) uint64 { return c.Sent })
	if !f.passes(&x) || f.passes(&table{apart: byPort}) {
		t.Error("a table of ports and classes is to pass, one of ports alone is not")
	}
	var b strings.Builder
	x.print(&b)
	if got := strings.Fields(b.String()); !slices.Equal(got, []string{"PORT", "Q3", "Q6", "----", "--", "--", "b", "13",
		"16"}) {
		t.Errorf("%v", got)
	}
}
