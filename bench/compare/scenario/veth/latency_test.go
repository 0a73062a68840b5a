package veth

import (
	"strings"
	"testing"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/traffic/line"
)

// frames returns a histogram of n frames with 10 ns each.
func frames(n uint64) (h line.Histogram) {
	h.Record(10, n)
	return h
}

// TestLatencyTellsWhatItKnows: percentiles are reported only with enough frames; without any frame
// there is only a note.
func TestLatencyTellsWhatItKnows(t *testing.T) {
	for _, c := range []struct {
		frames uint64
		want   string
	}{
		{50, "p50"}, {99, "p50"}, {100, "p50 p99"}, {9999, "p50 p99"}, {10_000, "p50 p99 p99.99"},
	} {
		r := &compare.Report{}
		someTurn(0, r).addLatency(commonLoad, &bed.Latency{FromSchedule: frames(c.frames), FromWire: frames(c.frames),
			Sent: c.frames + 1})
		var got []string
		for _, t := range r.Trials {
			name, _, _ := strings.Cut(t.Metric, " ")
			got = append(got, name)
		}
		if strings.Join(got, " ") != c.want || r.Trials[0].Detail["count"] != float64(c.frames) ||
			r.Trials[0].Detail["sent"] != float64(c.frames+1) {
			t.Errorf("of %d frames: %+v", c.frames, r.Trials)
		}
	}
	r := &compare.Report{}
	someTurn(0, r).addLatency(commonLoad, &bed.Latency{Sent: 7})
	if len(r.Trials) != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "of 7 frames") {
		t.Errorf("of none: %+v, %q", r.Trials, r.Notes)
	}
}

// TestCommonRate checks that it is half of the lowest MRR in a round, whatever is lost at low
// rates.
func TestCommonRate(t *testing.T) {
	r := &compare.Report{}
	add := func(name, metric string, round int, value float64) {
		r.Add(compare.Trial{Name: name, Metric: of(metric, 60), Round: round, Value: value})
	}
	for round, mrr := range []float64{80, 300} { // of b
		add("a", metricMRR, round, 200)
		add("a", metricNDR, round, 100)
		add("b", metricMRR, round, mrr)
		add("b", metricNDR, round, 1)
		add(vethLossless, metricMRR, round, 10)
	}
	for round, want := range []float64{40, 100} {
		if got := (&veth{}).commonRate(r, 60, round); got != want {
			t.Errorf("round %d: %v, not %v", round, got, want)
		}
	}
}
