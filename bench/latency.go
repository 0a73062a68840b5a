package bench

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/gen/live"
)

// load is what is offered while latency is measured.
type load struct {
	name string
	rate func(ndr float64) float64 // packets/s
}

func shareOfNDR(percent int) load {
	return load{fmt.Sprintf("%d %% of NDR", percent), func(ndr float64) float64 { return ndr * float64(percent) / 100 }}
}

// halfLoad is the load that forwarders are compared at. A host at idleLoad sends a frame when everything has long been
// silent.
var (
	halfLoad = shareOfNDR(50)
	idleLoad = load{"100 packets/s", func(float64) float64 { return 100 }}
)

func (v *veth) loads() []load {
	if v.Quick {
		return []load{halfLoad}
	}
	return []load{idleLoad, shareOfNDR(10), halfLoad, shareOfNDR(90)}
}

// quantile is a share of all latencies and what it is called.
type quantile struct {
	name  string
	share float64
}

var latencyQuantiles = []quantile{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}}

// reported are the quantiles that are metrics; the others stand in the details.
var reported = map[string]bool{"p50": true, "p99": true, "p99.99": true}

func latencyMetric(l load, quantile string) string {
	return fmt.Sprintf("%s latency at %s", quantile, l.name)
}

// latency is how long frames took.
type latency struct {
	rate         float64 // packets/s
	lost         float64 // share
	fromSchedule live.Histogram
	fromWire     live.Histogram
}

// latency offers the first stream at a rate for d, or for as much longer as it takes until a frame is sent.
func (b *bed) latency(ctx context.Context, rate float64, d time.Duration) (*latency, error) {
	const most = 20 // times as long, for a generator that gets no CPU at all
	before := b.begin()
	if err := b.setRate(0, rate); err != nil {
		return nil, err
	}
	for range most {
		if err := pause(ctx, d); err != nil {
			return nil, err
		}
		if b.count().sent > before.sent {
			break
		}
	}
	if err := b.silence(ctx); err != nil {
		return nil, err
	}
	got := b.received()[0]
	if got.Frames == 0 {
		return nil, fmt.Errorf("not a frame of %g packets/s came through in %v", rate, d)
	}
	return &latency{rate, b.count().since(before).loss(), got.FromSchedule, got.FromWire}, nil
}

// add adds trials to a report.
func (l *latency) add(at load, add func(metric, unit string, value float64, detail map[string]float64)) {
	detail := map[string]float64{"offered": l.rate, "lost": l.lost}
	for _, q := range latencyQuantiles {
		detail[q.name] = float64(l.fromSchedule.Quantile(q.share))
		detail[q.name+" from wire"] = float64(l.fromWire.Quantile(q.share))
	}
	for _, q := range latencyQuantiles {
		if reported[q.name] {
			add(latencyMetric(at, q.name), "ns", detail[q.name], detail)
		}
	}
}

// plot draws, for each length, what share of frames took longer than what at half of the NDR, all rounds together.
func (v *veth) plot(r *Report) {
	for _, length := range v.lengths {
		p := Plot{
			Name: fmt.Sprintf("latency-%dB", wireLength(length)), LogX: true, LogY: true,
			Title: fmt.Sprintf("Latency at %s, %d B", halfLoad.name, wireLength(length)),
			X:     "latency from schedule (µs)", Y: "share of frames that took longer",
		}
		for _, f := range v.forwarders {
			if h := v.latencies[latencyOf{f.Name(), length}]; h != nil {
				p.Series = append(p.Series, Series{Name: f.Name(), Points: exceeding(h)})
			}
		}
		if len(p.Series) > 0 {
			r.Plot(p)
		}
	}
}

// latencyOf is what a plot's histogram is of.
type latencyOf struct {
	forwarder string
	length    int
}

// keep adds a histogram to what will be plotted.
func (v *veth) keep(of latencyOf, h *live.Histogram) {
	if v.latencies == nil {
		v.latencies = map[latencyOf]*live.Histogram{}
	}
	if v.latencies[of] == nil {
		v.latencies[of] = new(live.Histogram)
	}
	v.latencies[of].Add(h)
}

// exceeding returns, for each latency that was seen, in µs, the share of frames that took longer, as long as there are
// any.
func exceeding(h *live.Histogram) (points [][2]float64) {
	all := h.Count()
	longer := all
	for b := range h.Buckets() {
		if longer -= b.Count; longer == 0 {
			break
		}
		points = append(points, [2]float64{float64(b.To) / 1e3, float64(longer) / float64(all)})
	}
	return points
}
