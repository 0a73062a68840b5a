package virtual

import (
	"strings"
	"testing"

	"sluice/bench/testkit/benchtest"
)

func TestScenarioBuffer(t *testing.T) {
	r := benchtest.Quick(t, Buffer)
	for _, metric := range []string{"buffer, frames of 64 B", "buffer, frames of 1518 B"} {
		for _, trial := range benchtest.TrialsOf(t, r, bufferLossy, metric) {
			d := trial.Detail
			if then, later := d["latency_ns"], d["latency_later_ns"]; then <= 0 || later > 1.1*then {
				t.Errorf("%s: latency of %v ns at the inflection, %v later", metric, then, later)
			}
		}
	}
	for _, ratio := range []string{"vs_configured_64B", "vs_configured_1518B"} {
		if v := r.Ratios[ratio].Median; v < 0.95 || v > 1.05 {
			t.Errorf("%s is %v", ratio, v)
		}
	}
	for _, trial := range r.Trials {
		switch {
		case trial.Name == bufferLossless && trial.Value != 0:
			t.Errorf("lossless class, %s: %v", trial.Metric, trial.Value)
		case trial.Name == bufferLossy && strings.HasPrefix(trial.Metric, "lost") && trial.Value == 0:
			t.Errorf("lossy class, %s: none", trial.Metric)
		case trial.Name == bufferLossy && strings.HasPrefix(trial.Metric, "microburst"):
			if c := trial.Detail["configured"]; trial.Value < 0.9*c || trial.Value > 1.1*c {
				t.Errorf("%s: %v frames, configured are %v", trial.Metric, trial.Value, c)
			}
		}
	}
	if len(r.Tables) != 2 || len(r.Plots) != 1 {
		t.Errorf("%d tables and %d plots", len(r.Tables), len(r.Plots))
	}
}
