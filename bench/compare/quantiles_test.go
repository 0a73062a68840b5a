package compare

import (
	"math"
	"strings"
	"testing"

	"sluice/bench/traffic/line"
)

// TestTimes records known times: 1 to 100,000 ns, each once.
func TestTimes(t *testing.T) {
	var all, half line.Histogram
	for ns := int64(1); ns <= 100_000; ns++ {
		[]*line.Histogram{&all, &half}[ns%2].Record(ns, 1)
	}
	all.Merge(&half)
	r := &Report{}
	r.AddTimes("some", "latency", 3, &all, map[string]float64{"offered": 5})
	want := map[string]float64{"p50": 50_000, "p90": 90_000, "p99": 99_000, "p99.9": 99_900, "p99.99": 99_990,
		"max": 100_000}
	for _, trial := range r.Trials {
		name, rest, _ := strings.Cut(trial.Metric, " ")
		if trial.Value < want[name] || trial.Value > want[name]*33/32 || rest != "latency" ||
			trial.Unit != "ns" || trial.Round != 3 ||
			trial.Detail["count"] != 100_000 || trial.Detail["offered"] != 5 {
			t.Errorf("%+v, not %v", trial, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	points := Points(&all)
	if last := points[len(points)-1]; len(points) != 5*8+1 || math.Abs(last[0]-1e5) > 1 || last[1] != 1e5 {
		t.Errorf("%v", points)
	}
}

// TestTimesOfFew reports no quantile without a time beyond it, and takes times of any length.
func TestTimesOfFew(t *testing.T) {
	l, r := &line.Histogram{}, &Report{}
	r.AddTimes("some", "latency", 0, l, nil)
	if len(r.Trials) != 0 || len(Points(l)) != 0 {
		t.Errorf("of nothing: %+v %v", r.Trials, Points(l))
	}
	l.Record(-5, 9)
	l.Record(math.MaxInt64, 1)
	r.AddTimes("some", "latency", 0, l, nil)
	if len(r.Trials) != 3 || r.Trials[1].Metric != "p90 latency" || r.Trials[2].Metric != "max latency" ||
		r.Trials[0].Value != 0 ||
		r.Trials[2].Value != math.MaxInt64 {
		t.Errorf("%+v", r.Trials)
	}
}
