package memory

import (
	"testing"

	"sluice/bench/testkit/benchtest"
)

func TestScenarioScale(t *testing.T) {
	r := benchtest.Quick(t, Scale)
	for _, l := range scaleLoads {
		for _, trial := range benchtest.TrialsOf(t, r, l.name, scaleMetric) {
			d, addresses := trial.Detail, l.Ports*max(1, l.Stations)
			if d["frames"] < 1000 || d["flooded"] != 0 || int(d["addresses"]) != addresses {
				t.Errorf("%s: %v, want %d addresses and no floods", l.name, d, addresses)
			}
			// While a worker waits for its CPU, frames of another worker queue up until they are
			// dropped.
			if !l.Crossing && d["dropped"] != 0 {
				t.Errorf("%s: %v frames dropped", l.name, d["dropped"])
			}
		}
	}
	benchtest.WantRatios(t, r, "64_ports_vs_2", "100000_addresses_vs_100", "2_workers_vs_1", "2_workers_crossing_vs_1",
		"vs_limit_64_ports_vs_2", "vs_limit_100000_addresses_vs_100", "vs_limit_2_workers_vs_1")
	if v := r.Ratios["vs_limit_2_workers_vs_1"]; !benchtest.Near(v.Median, r.Ratios["2_workers_vs_1"].Median/1.8) {
		t.Errorf("two workers against 1.8 times one: %v", v)
	}
	if len(r.Plots) != 2 || len(r.Plots[0].Series[0].Points) != 4 || len(r.Plots[1].Series[0].Points) != 4 {
		t.Errorf("plots %+v", r.Plots)
	}
}
