package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
)

// TestFilterHelp checks that each view has exactly the filters that the help of show lists for it.
func TestFilterHelp(t *testing.T) {
	show, _, err := command().Find([]string{"show"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range allFilters {
		var views []string
		var look func(*cobra.Command)
		look = func(view *cobra.Command) {
			if view.LocalFlags().Lookup(name) != nil {
				views = append(views, strings.TrimPrefix(view.CommandPath(), "sluice show "))
			}
			for _, below := range view.Commands() {
				look(below)
			}
		}
		look(show)
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
