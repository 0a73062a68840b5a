package show

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/state"
)

// TestRateTable checks that rates are computed by the worker's clock, and are missing for a new
// port.
func TestRateTable(t *testing.T) {
	at := time.Unix(1000, 0)
	before := &state.Switch{Time: at, UptimeNS: 9e9, Ports: []state.Port{{Name: "a", NowNS: 9e9, Speed: 1e9}}}
	now := &state.Switch{Time: at.Add(2 * time.Second), UptimeNS: 11e9, Ports: []state.Port{
		{Name: "a", NowNS: 11e9, Speed: 1e9, Received: 2000, ReceivedBytes: 200_000, Sent: 4000, SentBytes: 2_000_000,
			Dropped: 3},
		{Name: "b", NowNS: 11e9, Speed: 1e9, Received: 5},
	}}
	x := rateTable(now, before)
	var b strings.Builder
	x.print(&b)
	got := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"Rates over the last 2s:", // 124 and 524 bytes per frame on the wire
		"a 992k 1.00k 0.1 8.38M 2.00k 0.8 1.50",
		"b – – – – – – –",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, &b)
		}
	}
}

// TestPortsThatAreDown checks that the table says why a port is down, and what to do.
func TestPortsThatAreDown(t *testing.T) {
	tables := portTables(&state.Switch{Ports: []state.Port{
		{Name: "a", Up: true, Mode: "zero-copy"}, {Name: "b", Mode: "zero-copy"},
		{Name: "c", Mode: state.SetDown, DownWhy: "set it up"}, {Name: "d", Mode: state.Absent, DownWhy: "make it"},
		{Name: "e", Mode: state.Closed, DownWhy: "lower its MTU"}, {Name: "f", Mode: state.Closed, Shut: true},
		{Name: "g", Up: true, Stalled: true, Mode: "zero-copy"},
	}})
	var b strings.Builder
	tables[0].print(&b)
	got := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"a up", "b down", "c set down", "d absent", "e down", "f shut",
		"c: set it up d: make it e: lower its MTU g: lossless frames may stall"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, &b)
		}
	}
}

// TestPortsOnOtherLinks checks that show ports names the ports that send slower than their links.
func TestPortsOnOtherLinks(t *testing.T) {
	notes := portTables(&state.Switch{Ports: []state.Port{{Name: "a", Speed: 20e6, LinkSpeed: 1e9},
		{Name: "b", Speed: 1e9, LinkSpeed: 1e9},
		{Name: "of an older switch", Speed: 1e9}}})[0].notes
	if len(notes) != 1 || notes[0] != "a: its link runs at 1G, and pauses and headroom follow that rate" {
		t.Errorf("%q", notes)
	}
}
