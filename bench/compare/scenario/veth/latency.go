package veth

import (
	"context"
	"fmt"
	"math"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/traffic/line"
)

// load is the load during a latency measurement.
type load struct {
	name string
	rate func(ndr float64) float64 // packets/s; nil: depends on more than the NDR
}

func shareOfNDR(percent int) load {
	return load{fmt.Sprintf("%d %% of NDR", percent), func(ndr float64) float64 { return ndr * float64(percent) / 100 }}
}

// At idleLoad a frame is sent when the forwarder has long been idle. At shares of their own NDR
// forwarders do different amounts of work, so they are also compared at commonLoad.
var (
	halfLoad   = shareOfNDR(50)
	idleLoad   = load{"100 packets/s", func(float64) float64 { return 100 }}
	commonLoad = load{name: "the common rate"} // see commonRate
)

func (v *veth) loads() []load {
	if v.Quick {
		return []load{halfLoad}
	}
	return []load{idleLoad, shareOfNDR(10), halfLoad, shareOfNDR(90)}
}

// reported are the quantiles that are metrics; the others are in the details.
var reported = map[string]bool{"p50": true, "p99": true, "p99.99": true}

func latencyMetric(l load, quantile string) string {
	return fmt.Sprintf("%s latency at %s", quantile, l.name)
}

// Latency measures the latency at a load of rate packets/s.
func (t *turn) Latency(ctx context.Context, at load, rate float64) error {
	l, err := t.bed.Latency(ctx, rate, t.Duration/4, t.attempts)
	if err != nil {
		return err
	}
	t.discarded += l.Discarded
	t.addLatency(at, l)
	if at.name == commonLoad.name {
		t.keep(latencyOf{t.forwarder.Name(), t.length}, &l.FromSchedule)
	}
	return nil
}

// addLatency adds the trials of a load.
func (t *turn) addLatency(at load, l *bed.Latency) {
	count := l.FromSchedule.Count()
	if count == 0 {
		t.note("no latency at %s: none of %d frames in %.2g s came through.", at.name, l.Sent, l.Seconds)
		return
	}
	detail := map[string]float64{
		"offered": l.Rate, "seconds": l.Seconds, "sent": float64(l.Sent), "count": float64(count), "lost": l.Lost,
		"forgone ns": float64(l.Forgone), "put off ns": float64(l.PutOff), "disturbed": l.Disturbed,
		"attempts":              float64(l.Attempts),
		compare.MetricDiscarded: l.Discarded,
	}
	var told []compare.Quantile
	for _, q := range compare.Quantiles {
		if compare.HasBeyond(float64(count), q.Share) {
			detail[q.Name] = l.FromSchedule.Quantile(q.Share)
			detail[q.Name+" from wire"] = l.FromWire.Quantile(q.Share)
			told = append(told, q)
		}
	}
	for _, q := range told {
		if reported[q.Name] {
			t.add(latencyMetric(at, q.Name), "ns", detail[q.Name], false, detail)
		}
	}
	t.report.NoteDisturbed(fmt.Sprintf("%s, latency at %s, %d B", t.forwarder.Name(), at.name, wireLength(t.length)),
		t.round, l.Disturbed)
}

// commonRate returns half the MRR of the slowest forwarder in a round. The NDR would be too small
// when a forwarder loses a frame at a low rate, for whatever reason.
func (v *veth) commonRate(r *compare.Report, length, round int) float64 {
	lowest := math.Inf(1)
	for _, t := range r.Trials {
		if t.Metric == of(metricMRR, length) && t.Round == round && t.Name != vethLossless {
			lowest = min(lowest, t.Value)
		}
	}
	return lowest / 2
}

// plot draws, for each length, the share of frames that exceed a latency at the common rate, over
// all rounds.
func (v *veth) plot(r *compare.Report) {
	for _, length := range v.lengths {
		p := compare.Plot{
			Name: fmt.Sprintf("latency-%dB", wireLength(length)), LogX: true, LogY: true,
			Title: fmt.Sprintf("Latency at %s, %d B", commonLoad.name, wireLength(length)),
			X:     "latency from schedule (µs)", Y: "share of frames that took longer",
		}
		for _, f := range v.forwarders {
			if h := v.latencies[latencyOf{f.Name(), length}]; h != nil {
				p.Series = append(p.Series, compare.Series{Name: f.Name(), Points: exceeding(h)})
			}
		}
		if len(p.Series) > 0 {
			r.Plot(p)
		}
	}
}

// latencyOf identifies a histogram for a plot.
type latencyOf struct {
	forwarder string
	length    int
}

// keep adds a histogram to those for the plots.
func (v *veth) keep(of latencyOf, h *line.Histogram) {
	if v.latencies == nil {
		v.latencies = map[latencyOf]*line.Histogram{}
	}
	if v.latencies[of] == nil {
		v.latencies[of] = new(line.Histogram)
	}
	v.latencies[of].Merge(h)
}

// exceeding returns, for each observed latency in µs, the share of frames with a longer one, as
// long as there are any.
func exceeding(h *line.Histogram) (points [][2]float64) {
	all := h.Count()
	longer := all
	for longest, n := range h.All() {
		if longer -= n; longer == 0 {
			break
		}
		points = append(points, [2]float64{float64(longest) / 1e3, float64(longer) / float64(all)})
	}
	return points
}
