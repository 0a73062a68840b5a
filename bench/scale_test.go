package bench

import "testing"

func TestScenarioScale(t *testing.T) {
	r := quick(t, scaleScenario)
	for _, l := range scaleLoads {
		for _, trial := range trialsOf(t, r, l.name, scaleMetric) {
			d, addresses := trial.Detail, l.ports*max(1, l.stations)
			if d["frames"] < 1000 || d["flooded"] != 0 || int(d["addresses"]) != addresses {
				t.Errorf("%s: %v, want %d addresses and no floods", l.name, d, addresses)
			}
			// A worker that waits for its CPU lets the frames of another pile up until they are dropped.
			if !l.crossing && d["dropped"] != 0 {
				t.Errorf("%s: %v frames dropped", l.name, d["dropped"])
			}
		}
	}
	wantRatios(t, r, "64_ports_vs_2", "100000_addresses_vs_100", "2_workers_vs_1", "2_workers_crossing_vs_1",
		"vs_limit_64_ports_vs_2", "vs_limit_100000_addresses_vs_100", "vs_limit_2_workers_vs_1")
	if v := r.Ratios["vs_limit_2_workers_vs_1"]; !near(v.Median, r.Ratios["2_workers_vs_1"].Median/1.8) {
		t.Errorf("two workers against 1.8 times one: %v", v)
	}
	if len(r.Plots) != 2 || len(r.Plots[0].Series[0].Points) != 4 || len(r.Plots[1].Series[0].Points) != 4 {
		t.Errorf("plots %+v", r.Plots)
	}
}
