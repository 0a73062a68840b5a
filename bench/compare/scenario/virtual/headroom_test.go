package virtual

import (
	"testing"

	"sluice/bench/testkit/benchtest"
	"sluice/cells/headroom"
)

func TestScenarioHeadroom(t *testing.T) {
	r := benchtest.Quick(t, Headroom)
	for _, delay := range peerDelays {
		for _, trial := range benchtest.TrialsOf(t, r, headroomWire, headroomMetric(delay)) {
			d := trial.Detail
			if trial.Value > 1 || d["computed"]-d["used"] > 1 || d["dropped"] != 0 || d["dropped_short"] == 0 {
				t.Errorf("peer reacts after %d ns: %v", delay, d)
			}
		}
	}
	for _, delay := range []int64{1000, 3072, 20_000} {
		for _, trial := range benchtest.TrialsOf(t, r, headroomSwitch, headroomMetric(delay)) {
			if d := trial.Detail; trial.Value > 1 || trial.Value < 0.7 || d["dropped"] != 0 || d["dropped_short"] == 0 {
				t.Errorf("under siege, peer reacts after %d ns: %v", delay, d)
			}
		}
	}
	for _, trial := range benchtest.TrialsOf(t, r, string(headroom.Exact),
		"headroom computed / needed, random links, median") {
		if d := trial.Detail; d["short"] != 0 || trial.Value > 1.01 {
			t.Errorf("exact: median %v, %v", trial.Value, d)
		}
	}
	if len(r.Tables) != 2 || len(r.Plots) != 1 {
		t.Errorf("%d tables and %d plots", len(r.Tables), len(r.Plots))
	}
}
