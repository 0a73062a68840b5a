package veth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/traffic/live"
)

// Handover is the loss and delay when the transmitter leaves a port to its socket and takes it
// again.
var Handover = compare.Scenario{
	Name: "handover",
	Shows: "loss, order, latency and silence while the transmitter's program ends and starts " +
		"again",
	Peers: "the same switch left alone",
	Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		return (&handover{Options: o, report: r}).run(ctx)
	},
}

// handover is one run of the scenario.
type handover struct {
	compare.Options
	report    *compare.Report
	forwarder *bed.InsideSwitch
	bed       *bed.Bed
}

// Subjects.
const (
	handoverOften = "handed over"
	handoverNever = "left alone"
)

const (
	handoverLength = 60 // of frames, bytes without FCS
	handoverShare  = 3  // a trial lasts this many times the duration, for enough hand-overs
)

// Metrics, each at a load.
const (
	handoverLost       = "lost"
	handoverDisordered = "out of order or twice"
	handoverSilence    = "longest silence at the receiver"
	handoverCount      = "hand-overs"
)

// handoverConfig has long receive rings. Otherwise loss because other processes take the CPU for
// milliseconds would look like a hand-over's loss.
func handoverConfig(s bed.Site) string {
	return strings.Replace(bed.TransmitterConfig(s), "buffers: 8192", "buffers: 131072", 1)
}

var handoverLoads = []load{shareOfMRR(25), shareOfMRR(50)}

// atLoad returns the name of a metric at a load.
func atLoad(metric string, l load) string { return metric + " at " + l.name }

// period returns the time between two hand-overs.
func (h *handover) period() time.Duration { return min(time.Second, h.Duration/2) }

// run starts a new switch in each round and measures the two subjects at each load, one after the
// other.
func (h *handover) run(ctx context.Context) error {
	h.announce()
	h.forwarder = &bed.InsideSwitch{Configuration: handoverConfig}
	defer func() { bed.NoteSetup(h.report, "The switch", h.forwarder) }()
	for round := range h.Trials {
		if err := h.round(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

func (h *handover) announce() {
	r := h.report
	for _, l := range handoverLoads {
		for _, m := range []struct{ short, metric string }{
			{"p50", latencyMetric(l, "p50")}, {"p99.9", latencyMetric(l, "p99.9")},
			{"silence", atLoad(handoverSilence, l)},
		} {
			r.Compare(fmt.Sprintf("vs_left_alone_%s_at_%s", m.short, strings.ReplaceAll(l.name, " ", "_")), m.metric,
				handoverOften, handoverNever, compare.Lower)
		}
	}
	r.Note("A run of the transmitter's program ends, and the next one begins, every %v instead "+
		"of every few minutes, for %v per trial. It is compared with the same switch at the same "+
		"rate, left alone.", h.period(), handoverShare*h.Duration)
	r.Note("Loss is the number of frames sent and not received, and order follows from sequence " +
		"numbers; an XDP program at the receiver counts both. Latency is the time from making a " +
		"frame to its arrival there. A silence is the time between two frames there, so it " +
		"includes the generator's own silence. The transmitter shares the worker's CPU.")
	r.Note("The rates are shares of the MRR, which is measured again in each round. The " +
		"machine's own threads may hold up frames for longer than rings last, with or without " +
		"hand-overs, so receive rings are as long as possible.")
}

// round measures both subjects at each load.
func (h *handover) round(ctx context.Context, round int) (err error) {
	v := veth{Options: h.Options}
	if h.bed, err = bed.New(v.bed(handoverLength)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.bed.Close()) }()
	if err := h.bed.Start(ctx, h.forwarder); err != nil {
		return err
	}
	over, err := h.bed.Overload(ctx, 0, h.Duration/2, bed.WarmUpTime, compare.LiveAttempts(h.Options))
	if err != nil {
		return err
	}
	h.Progress("%s: MRR %.3f Mpps", compare.OfRounds(round, h.Trials), over.Rate/1e6)
	h.report.Add(compare.Trial{Name: "both", Metric: metricMRR, Unit: "packets/s", Round: round, Value: over.Rate})
	for _, l := range handoverLoads {
		for i := range compare.Turns(round, 2) {
			if err := h.trial(ctx, round, l, l.rate(over.Rate), i == 0); err != nil {
				return err
			}
		}
	}
	if err := h.forwarder.Fallback(); err != nil {
		return fmt.Errorf("round %d: the transmitter was not measured: %w", round+1, err)
	}
	return nil
}

// trial offers a rate for one trial.
func (h *handover) trial(ctx context.Context, round int, at load, rate float64, often bool) error {
	name := handoverNever
	if often {
		name = handoverOften
	}
	before := h.bed.Begin()
	from, err := h.bed.FirstLook()
	if err != nil {
		return err
	}
	if err := h.bed.SetRate(0, rate); err != nil {
		return err
	}
	count := 0
	for began := time.Now(); time.Since(began) < handoverShare*h.Duration; {
		if err := bed.Pause(ctx, h.period()); err != nil {
			return err
		}
		if !often {
			continue
		}
		h.forwarder.Running.Transmitter().HandOver()
		count++
	}
	to, err := h.bed.LastLook()
	if err != nil {
		return err
	}
	if err := h.bed.Silence(ctx); err != nil {
		return err
	}
	sent := h.bed.Count().Since(before)
	got := h.bed.Sinks[h.bed.Streams[0].To].Read().Flows[0]
	h.add(compare.Trial{Name: name, Round: round, Detail: map[string]float64{
		"offered": rate, "sent": float64(sent.Sent), "count": float64(sent.Received),
		"seconds":   to.At.Sub(from.At).Seconds(),
		"disturbed": bed.Between(from, to).Disturbed, handoverCount: float64(count),
	}}, at, sent, &got)
	return nil
}

// add adds a trial's figures.
func (h *handover) add(t compare.Trial, at load, frames bed.Tally, got *live.Received) {
	add := func(metric, unit string, value float64) {
		t.Metric, t.Unit, t.Value = metric, unit, value
		h.report.Add(t)
	}
	add(atLoad(handoverLost, at), "frames", float64(frames.Sent-min(frames.Sent, frames.Received)))
	add(atLoad(handoverDisordered, at), "frames", float64(got.Reordered+got.Duplicates+got.Stale))
	add(atLoad(handoverSilence, at), "ns", float64(got.Silence))
	for _, q := range compare.Quantiles {
		if compare.HasBeyond(float64(got.FromWire.Count()), q.Share) {
			add(latencyMetric(at, q.Name), "ns", float64(got.FromWire.Quantile(q.Share)))
		}
	}
	add(atLoad(handoverCount, at), "", t.Detail[handoverCount])
}
