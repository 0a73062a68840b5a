package veth

import (
	"testing"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
)

// TestIncastOfNothing: if no frame comes through, there are no values, and table cells are empty.
func TestIncastOfNothing(t *testing.T) {
	c := incast{Options: compare.Options{Trials: 1, Progress: t.Logf}, speed: 1e9, senders: []int{2},
		subjects: []incastSubject{{Forwarder: bed.NewProgram("some", "", nil)}}}
	r := &compare.Report{}
	c.add(r, "some", 2, 0, &bed.Observation{Seconds: time.Second.Seconds(), Streams: make([]bed.Observed, 2),
		Hosts: make([]bed.Pauses, 3), Discarded: 5})
	c.table(r)
	if len(r.Tables[0].Rows) != 1 || r.Tables[0].Rows[0][3] != "" || r.Tables[0].Rows[0][7] != "" || len(r.Notes) != 2 {
		t.Errorf("%q, %q", r.Tables, r.Notes)
	}
	if lost := r.Values("some", with(compare.MetricDiscarded, 2)); len(lost) != 1 || lost[0] != 5 {
		t.Errorf("discarded: %v", lost)
	}
}
