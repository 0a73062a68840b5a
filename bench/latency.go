package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"sluice/bench/host/live"
)

// load is what is offered while latency is measured.
type load struct {
	name string
	rate func(ndr float64) float64 // packets/s; nil: it does not depend on the NDR alone
}

func shareOfNDR(percent int) load {
	return load{fmt.Sprintf("%d %% of NDR", percent), func(ndr float64) float64 { return ndr * float64(percent) / 100 }}
}

func shareOfMRR(percent int) load {
	return load{fmt.Sprintf("%d %% of MRR", percent), func(mrr float64) float64 { return mrr * float64(percent) / 100 }}
}

// A host at idleLoad sends a frame when everything has long been silent. At shares of their own NDR forwarders do
// different work, so they are compared at commonLoad, too.
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
	rate      float64 // packets/s
	seconds   float64
	sent      uint64
	lost      float64       // share
	forgone   time.Duration // by which the schedule was put off, when the trial ended…
	putOff    time.Duration // … and before: none, or it would hide latency
	disturbed float64       // share of the time in which the forwarder or the generator had no CPU
	attempts  int           // of which this was the one disturbed least
	discarded float64       // frames lost in the others

	fromSchedule, fromWire live.Histogram
}

// latency offers the first stream at a rate for d, or for as much longer as it takes until a frame is sent. Frames that
// the generator is late with count from when they were due, so it makes up for all of them until the trial ends. Like
// overload, it repeats what others disturb.
func (b *bed) latency(ctx context.Context, rate float64, d time.Duration, attempts int) (best *latency, err error) {
	lost := 0.0
	for attempt := 1; attempt <= attempts; attempt++ {
		l, err := b.latencyOnce(ctx, rate, d)
		if err != nil {
			return nil, err
		}
		lost += l.lost * float64(l.sent)
		if attempt == 1 || l.disturbed < best.disturbed {
			best = l
		}
		if best.attempts = attempt; best.disturbed <= disturbed {
			break
		}
	}
	best.discarded = lost - best.lost*float64(best.sent)
	return best, nil
}

func (b *bed) latencyOnce(ctx context.Context, rate float64, d time.Duration) (*latency, error) {
	const (
		most       = 20 // times as long, for a generator that gets no CPU at all
		everything = time.Hour
	)
	b.generator.SetCatchUp(everything)
	defer b.generator.SetCatchUp(b.catchUp())
	before, forgone := b.begin(), b.forgone()
	from, err := b.firstLook()
	if err != nil {
		return nil, err
	}
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
	putOff := b.forgone() - forgone
	b.generator.SetCatchUp(live.DefaultCatchUp) // what is further behind when the streams stop is given up, and counted
	to, err := b.lastLook()
	if err != nil {
		return nil, err
	}
	if err := b.silence(ctx); err != nil {
		return nil, err
	}
	all, got := b.count().since(before), b.sinks[b.streams[0].to].Read().Flows[0]
	return &latency{
		rate: rate, seconds: to.at.Sub(from.at).Seconds(), sent: all.sent, lost: all.loss(), forgone: b.forgone() - forgone, putOff: putOff,
		disturbed: between(from, to).disturbed, fromSchedule: got.FromSchedule, fromWire: got.FromWire,
	}, nil
}

// forgone returns by how much the first stream's schedule was put off so far.
func (b *bed) forgone() time.Duration {
	for _, s := range b.generator.Sent() {
		if s.ID == 0 {
			return s.Forgone
		}
	}
	return 0
}

// latency measures the latency at a load, which is a rate of packets/s.
func (t *turn) latency(ctx context.Context, at load, rate float64) error {
	l, err := t.bed.latency(ctx, rate, t.Duration/4, t.attempts)
	if err != nil {
		return err
	}
	t.discarded += l.discarded
	t.addLatency(at, l)
	if at.name == commonLoad.name {
		t.keep(latencyOf{t.forwarder.Name(), t.length}, &l.fromSchedule)
	}
	return nil
}

// addLatency adds the trials of a load.
func (t *turn) addLatency(at load, l *latency) {
	count := l.fromSchedule.Count()
	if count == 0 {
		t.note("no latency at %s: of %d frames in %.2g s not one came through.", at.name, l.sent, l.seconds)
		return
	}
	detail := map[string]float64{
		"offered": l.rate, "seconds": l.seconds, "sent": float64(l.sent), "count": float64(count), "lost": l.lost,
		"forgone ns": float64(l.forgone), "put off ns": float64(l.putOff), "disturbed": l.disturbed, "attempts": float64(l.attempts),
		metricDiscarded: l.discarded,
	}
	var told []quantile
	for _, q := range latencyQuantiles {
		if hasBeyond(float64(count), q.share) {
			detail[q.name] = float64(l.fromSchedule.Quantile(q.share))
			detail[q.name+" from wire"] = float64(l.fromWire.Quantile(q.share))
			told = append(told, q)
		}
	}
	for _, q := range told {
		if reported[q.name] {
			t.add(latencyMetric(at, q.name), "ns", detail[q.name], false, detail)
		}
	}
	t.report.noteDisturbed(fmt.Sprintf("%s, latency at %s, %d B", t.forwarder.Name(), at.name, wireLength(t.length)), t.round, l.disturbed)
}

// commonRate is half of what came through of the forwarder that forwards least under overload, in a round. An NDR would
// make it small whenever somebody loses a frame at a low rate, for whatever reason.
func (v *veth) commonRate(r *Report, length, round int) float64 {
	lowest := math.Inf(1)
	for _, t := range r.Trials {
		if t.Metric == of(metricMRR, length) && t.Round == round && t.Name != vethLossless {
			lowest = min(lowest, t.Value)
		}
	}
	return lowest / 2
}

// plot draws, for each length, what share of frames took longer than what at the common rate, all rounds together.
func (v *veth) plot(r *Report) {
	for _, length := range v.lengths {
		p := Plot{
			Name: fmt.Sprintf("latency-%dB", wireLength(length)), LogX: true, LogY: true,
			Title: fmt.Sprintf("Latency at %s, %d B", commonLoad.name, wireLength(length)),
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
