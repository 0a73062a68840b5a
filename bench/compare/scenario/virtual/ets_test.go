package virtual

import (
	"math"
	"testing"

	"sluice/bench/testkit/benchtest"
)

func TestScenarioETS(t *testing.T) {
	r := benchtest.Quick(t, ETS)
	for _, m := range etsMixes {
		for _, c := range m.classes {
			for _, trial := range benchtest.TrialsOf(t, r, m.name, "rate of "+c.name) {
				d := trial.Detail
				if math.Abs(trial.Value-c.want) > 0.01*c.want {
					t.Errorf("%s: %s has %.4f Gbit/s, want %.4f within 1 %%", m.name, c.name, trial.Value, c.want)
				}
				want := 0.0
				if c.lost {
					want = c.offered - c.want
				}
				// Frames that were sent and not received may also be queued: up to a megabyte more
				// or less than when the measurement began.
				const waits = 1e6 * 8 / 100e6 // Gbit/s
				if math.Abs(d["lost"]-want) > waits+0.01*want || c.lost != (d["frames_lost"] > 0) {
					t.Errorf("%s: %s loses %.4f Gbit/s and %v frames, want %.4f Gbit/s", m.name, c.name, d["lost"],
						d["frames_lost"], want)
				}
			}
		}
	}
	if len(r.Tables) != 1 {
		t.Errorf("%d tables", len(r.Tables))
	}
}
