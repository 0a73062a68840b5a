package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/cli"
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
		f := filter{ports: ports, cos: wanted}
		f.apply(r)
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
	f := filter{ports: []string{"a"}, vlans: []int{7, 9}}
	if f.apply(r); !slices.Equal(r.FDB, []state.FDBEntry{{VLAN: 7, Port: "a"}}) || r.Ports != nil {
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
	f := filter{ports: []string{"b"}, cos: []int{6, 3}}
	f.apply(r)
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

// TestFilterHelp checks that each view has exactly the filters that the help of show lists for it.
func TestFilterHelp(t *testing.T) {
	show, _, err := command().Find([]string{"show"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range allFilters {
		var views []string
		for _, view := range show.Commands() {
			if view.LocalFlags().Lookup(name) != nil {
				views = append(views, view.Name())
			}
		}
		slices.Sort(views)
		if line := fmt.Sprintf("\n  --%-5s %s\n", name, strings.Join(views, ", ")); len(views) == 0 ||
			!strings.Contains(show.Long, line) {
			t.Errorf("help does not say %q:\n%s", line, show.Long)
		}
	}
}

// checkFilters runs views with filters on a switch with two ports.
func (h *shop) checkFilters(t *testing.T) {
	for _, c := range []struct {
		args       []string
		has, lacks []string
	}{
		{[]string{"ports", "--port", "port2"}, []string{"port2 "}, []string{"port1 "}},
		{[]string{"pg", "--cos", "3", "--cos", "0"}, []string{"port1   3  storage", "port2   0  lan"},
			[]string{"port1   4"}},
		{[]string{"queues", "--port", "port2,port1", "--cos", "3"}, []string{"port1", "port2"}, []string{"lan"}},
		{[]string{"pfc", "--cos", "3", "--port", "port1"}, []string{"PFC3", "TX PAUSES"},
			[]string{"PFC2", "port2", "MALFORMED"}},
		{[]string{"watermarks", "--cos", "3"}, []string{"UC3", "port1"}, []string{"UC0", "ingress0"}},
		{[]string{"pfcwd", "--cos", "3", "--port", "port2"}, []string{"port2:3"}, []string{"port1"}},
		{[]string{"ets", "--cos", "7"}, []string{"strict"}, []string{"storage"}},
		{[]string{"drops", "--port", "port2"}, []string{"none", "port2", "lossless drops: 1"},
			[]string{"headroom_full  "}},
		{[]string{"fdb", "--vlan", "7"}, []string{"02:00:00:00:00:2a"}, []string{"dynamic", "LEARNED"}},
		{[]string{"fdb", "--vlan", "100", "--port", "port1"}, []string{"02:00:00:00:00:01"},
			[]string{"port2", "static"}},
		{[]string{"fdb", "--vlan", "8"}, []string{"none"}, []string{"02:"}},
	} {
		text := h.ask(append([]string{"show"}, c.args...)...)
		_, tables, _ := strings.Cut(text, "\n")
		for _, words := range c.has {
			if !strings.Contains(text, words) {
				t.Errorf("%v does not show %q:\n%s", c.args, words, text)
			}
		}
		for _, words := range c.lacks {
			if strings.Contains(tables, words) {
				t.Errorf("%v shows %q:\n%s", c.args, words, text)
			}
		}
	}
	h.refused(cli.ExitFailure, []string{"show", "ports", "--port", "port9"}, "--port port9", "port1, port2")
	h.refused(cli.ExitUsage, []string{"show", "pg", "--cos", "8"}, "--cos 8", "0 to 7")
	h.refused(cli.ExitUsage, []string{"show", "fdb", "--vlan", "4095"}, "--vlan 4095", "1 to 4094")
	h.refused(cli.ExitUsage, []string{"show", "workers", "--port", "port1"}, "unknown flag: --port")
}
