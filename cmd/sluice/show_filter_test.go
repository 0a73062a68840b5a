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

// TestFilterTables filters tables of all shapes: what passes is what the filter names, all of
// it, and in order.
func TestFilterTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.IntRange(0, 7), 1, 20)
		key := rapid.SampledFrom([]string{"cos", "pg", "queue", "priority"}).Draw(t, "key")
		classes, wanted := all.Draw(t, "rows"), all.Draw(t, "wanted")
		x := table{key: "x", columns: []column{text("port", "PORT"), number(key, "N"), count("frames", "FRAMES")}}
		var want []any
		for i, cos := range classes {
			x.rows = append(x.rows, []any{fmt.Sprint("port", i%3), cos, uint64(i)})
			if i%3 == 1 && slices.Contains(wanted, cos) {
				want = append(want, uint64(i))
			}
		}
		f := filter{ports: []string{"port1"}, cos: wanted}
		var got []any
		for _, pass := range f.tables([]table{x}) {
			for _, row := range pass.rows {
				got = append(got, row[2])
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v of %v at port1: rows %v, want %v", wanted, classes, got, want)
		}
	})
}

// TestFilterColumns: of a table with a column for each class, the filter leaves those of the
// classes it names.
func TestFilterColumns(t *testing.T) {
	r := &state.Switch{Ports: []state.Port{{Name: "a"}, {Name: "b"}}}
	for i := range r.Ports {
		for cos := range r.Ports[i].ByCoS {
			r.Ports[i].ByCoS[cos].Sent = uint64(10*i + cos)
		}
	}
	sent := func(c *state.CoS) uint64 { return c.Sent }
	f := filter{ports: []string{"b"}, cos: []int{6, 3}}
	pass := f.tables([]table{byPriority(r, "x", "", "PORT", "Q", sent), {key: "workers", columns: []column{number("worker", "WORKER")}}})
	if len(pass) != 1 {
		t.Fatalf("%d tables pass: one of workers tells nothing about ports", len(pass))
	}
	var b strings.Builder
	pass[0].print(&b)
	if got := strings.Fields(b.String()); !slices.Equal(got, []string{"PORT", "Q3", "Q6", "----", "--", "--", "b", "13", "16"}) {
		t.Errorf("%v", got)
	}
}

// TestFilterHelp: each view has the flags that the help of show lists for it, and no others.
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
		if line := fmt.Sprintf("\n  --%-5s %s\n", name, strings.Join(views, ", ")); len(views) == 0 || !strings.Contains(show.Long, line) {
			t.Errorf("help does not say %q:\n%s", line, show.Long)
		}
	}
}

// checkFilters asks a switch with two ports for a part of what it has.
func (h *shop) checkFilters(t *testing.T) {
	for _, c := range []struct {
		args       []string
		has, lacks []string
	}{
		{[]string{"ports", "--port", "port2"}, []string{"port2 "}, []string{"port1 "}},
		{[]string{"pg", "--cos", "3", "--cos", "0"}, []string{"port1   3  storage", "port2   0  lan"}, []string{"port1   4"}},
		{[]string{"queues", "--port", "port2,port1", "--cos", "3"}, []string{"port1", "port2"}, []string{"lan"}},
		{[]string{"pfc", "--cos", "3", "--port", "port1"}, []string{"PFC3", "TX PAUSES"}, []string{"PFC2", "port2", "MALFORMED"}},
		{[]string{"watermarks", "--cos", "3"}, []string{"UC3", "port1"}, []string{"UC0", "ingress0"}},
		{[]string{"pfcwd", "--cos", "3", "--port", "port2"}, []string{"port2:3"}, []string{"port1"}},
		{[]string{"ets", "--cos", "7"}, []string{"first"}, []string{"storage"}},
		{[]string{"drops", "--port", "port2"}, []string{"none", "port2", "lossless drops: 1"}, []string{"headroom_full  "}},
		{[]string{"fdb", "--vlan", "7"}, []string{"02:00:00:00:00:2a"}, []string{"dynamic", "LEARNED"}},
		{[]string{"fdb", "--vlan", "100", "--port", "port1"}, []string{"02:00:00:00:00:01"}, []string{"port2", "static"}},
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
