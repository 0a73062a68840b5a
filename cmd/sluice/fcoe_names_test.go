package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/dataplane/drop"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/state"
)

// refusalNames and endingNames are the names that snooping counts under. It does not read FCoE
// frames, and so does not find wrong delimiters.
func refusalNames() (all []string) {
	for r := snoop.Passed + 1; r < snoop.Reasons; r++ {
		if of := fcoe.Problem(r); of != fcoe.BadSOF && of != fcoe.BadEOF {
			all = append(all, r.String())
		}
	}
	return all
}

func endingNames() (all []string) {
	for c := range snoop.Causes {
		all = append(all, c.String())
	}
	return all
}

// TestFCoEReasonsAreExplained: docs/fcoe.md explains each reason of snooping once, and no other.
func TestFCoEReasonsAreExplained(t *testing.T) {
	page := read(t, "docs/fcoe.md")
	var drops []string
	for r := range drop.Reasons {
		drops = append(drops, drop.Reason(r).String())
	}
	for _, test := range []struct {
		section string
		names   []string
		all     bool
	}{
		{"### FIP frames that are refused", refusalNames(), true},
		{"### Frames that are dropped without being read", drops, false},
		{"### Sessions that end", endingNames(), true},
	} {
		_, rest, _ := strings.Cut(page, "\n"+test.section+"\n")
		rest, _, _ = strings.Cut(rest, "\n#")
		var explained []string
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(rest, -1) {
			for _, name := range strings.Split(row[1], ", ") {
				explained = append(explained, strings.Trim(name, "`"))
			}
		}
		compareNames(t, test.section, explained, test.names, test.all)
	}
}

// compareNames fails the test unless what is used are names, once each, and all of them if all is
// set.
func compareNames(t *testing.T, where string, used, names []string, all bool) {
	t.Helper()
	if len(used) == 0 {
		t.Errorf("%s: no names found", where)
	}
	for i, name := range used {
		if !slices.Contains(names, name) {
			t.Errorf("%s has %q, which nothing is counted under", where, name)
		}
		if slices.Contains(used[:i], name) {
			t.Errorf("%s has %q twice", where, name)
		}
	}
	for _, name := range names {
		if all && !slices.Contains(used, name) {
			t.Errorf("%s does not have %q", where, name)
		}
	}
}

// TestFCoEAlertsHaveReasons: there is an alert about each reason that is worth one, and about no
// other.
func TestFCoEAlertsHaveReasons(t *testing.T) {
	alerts := read(t, "deploy/alerts.yml")
	var refusals, ends []string
	for r := range snoop.Reasons {
		if r.Alerts() {
			refusals = append(refusals, r.String())
		}
	}
	for c := range snoop.Causes {
		if c.Alerts() {
			ends = append(ends, c.String())
		}
	}
	for metric, names := range map[string][]string{"sluice_fip_refused_frames_total": refusals,
		"sluice_fcoe_ended_sessions_total": ends} {
		var used []string
		for _, m := range regexp.MustCompile(metric+`\{reason="(\w*)"`).FindAllStringSubmatch(alerts, -1) {
			used = append(used, m[1])
		}
		compareNames(t, metric+" in deploy/alerts.yml", used, names, true)
	}
}

// TestAlertsAreComplaints: what there is an alert about, doctor complains of.
func TestAlertsAreComplaints(t *testing.T) {
	full := state.FCoETable{Used: 1, Limit: 1}
	for r := range snoop.Reasons {
		now := &state.Switch{
			FCoE: &state.FCoE{Tables: state.FCoETables{FCFs: full, ENodes: full, Sessions: full, Pending: full}},
			Ports: []state.Port{{FCoE: &state.PortFCoE{Refusals: []state.FCoERefusal{{Reason: r.String(),
				Serious: r.Serious(), Frames: 100, Last: &state.FCoERefusedFrame{}}}}}},
		}
		if said := now.FCoEComplaints(); len(said) > 0 != r.Alerts() {
			t.Errorf("%v: %+v", r, said)
		}
	}
}
