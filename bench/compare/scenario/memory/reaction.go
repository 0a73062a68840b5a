package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/bench/compare"
	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
)

// Reaction is how fast a worker stops its link partners and honours their pauses.
var Reaction = compare.Scenario{
	Name: "reaction",
	Shows: "times from threshold crossed to PFC frame in the TX ring, and from PFC received to last frame of that " +
		"priority; gaps of the loop",
	Peers:  "the limit of IEEE 802.1Qbb, 60 quanta; the kernel's statistics of the thread",
	Page:   "reaction-time",
	OneCPU: true,
	Run:    runReaction,
}

const (
	reactionSluice = "sluice"
	reactionSpeed  = 10e9 // bit/s

	// responseLimit is the time in which IEEE 802.1Qbb requires a port to stop: 60 quanta, in ns at
	// reactionSpeed.
	responseLimit = 60 * pfc.QuantumBits * 1e9 / reactionSpeed

	metricSteps     = "steps from crossing to PFC frame in the TX ring"
	metricStopping  = "crossing to PFC frame in the TX ring"
	metricByPorts   = "median from crossing to PFC frame in the TX ring"
	metricLate      = "frames put in the TX ring after the PFC frame was received"
	metricObeying   = "PFC frame received to last frame put in the TX ring (0: none)"
	metricSinceThen = "PFC frame to last frame put in the TX ring, if it came just after a poll"
	metricGap       = "gap between two iterations"
	metricGapRest   = "gap between two iterations, without those caused by Go's runtime"
)

// reaction collects the results of all rounds.
type reaction struct {
	stopping, sinceThen, gaps *line.Histogram // ns
	causes                    gapCauses
}

func runReaction(ctx context.Context, o compare.Options, r *compare.Report) error {
	r.Limit("same_step", "p99.9 "+metricSteps, reactionSluice, 1, compare.Lower)
	r.Limit("60_quanta_worker", "p99 "+metricSinceThen, reactionSluice, responseLimit, compare.Lower)
	r.Limit("gap_p99.9_vs_20us", "p99.9 "+metricGap, reactionSluice, 20e3, compare.Lower)
	r.Limit("gap_p99.99_vs_100us", "p99.99 "+metricGap, reactionSluice, 100e3, compare.Lower)
	r.Compare("16_ports_vs_2", metricByPorts, subjectOfPorts(16), subjectOfPorts(2), compare.Lower)
	x := reaction{stopping: new(line.Histogram), sinceThen: new(line.Histogram), gaps: new(line.Histogram)}
	defer func() { x.show(r) }()
	for round := range o.Trials {
		if err := x.Measure(ctx, o, r, round); err != nil {
			return err
		}
	}
	return addResponses(ctx, o, r)
}

// Measure runs one round.
func (x *reaction) Measure(ctx context.Context, o compare.Options, r *compare.Report, round int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.Progress("PFC sent and received: %s", compare.OfRounds(round, o.Trials))
	c, err := runCrossings(ctx, o.CPUs[0], o.Duration, crossingPorts, tuneCrossings)
	if c != nil {
		c.add(r, round)
		x.stopping.Merge(c.stopping)
		x.sinceThen.Merge(c.sinceThen)
	}
	if err != nil {
		return err
	}
	if err := measureByPorts(ctx, o, r, round); err != nil {
		return err
	}
	o.Progress("gaps of the loop: %s", compare.OfRounds(round, o.Trials))
	g, err := measureGaps(ctx, o.CPUs[0], o.Duration)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	g.add(r, round)
	x.gaps.Merge(g.all)
	x.causes.merge(g.causes)
	return nil
}

// measureByPorts measures how the reaction time depends on the number of ports.
func measureByPorts(ctx context.Context, o compare.Options, r *compare.Report, round int) error {
	for _, ports := range []int{2, 16} {
		c, err := runCrossings(ctx, o.CPUs[0], o.Duration, ports, tuneCrossings)
		if err != nil {
			return err
		}
		r.Add(compare.Trial{Name: subjectOfPorts(ports), Metric: metricByPorts, Unit: "ns", Round: round,
			Value: c.stopping.Quantile(.5), Detail: map[string]float64{
				"crossings": float64(c.stopping.Count()), "p99": c.stopping.Quantile(.99),
				"max": c.stopping.Quantile(1),
			}})
	}
	return nil
}

func subjectOfPorts(ports int) string { return fmt.Sprintf("%d busy ports", ports) }

// show adds tables and plots for all rounds so far.
func (x *reaction) show(r *compare.Report) {
	if x.gaps.Count() > 0 {
		r.Table(x.causes.table())
	}
	plot := compare.TimesPlot("reaction", "The worker's reaction and the gaps of its loop")
	plot.Series = []compare.Series{
		{Name: metricStopping, Points: compare.Points(x.stopping)},
		{Name: metricSinceThen, Points: compare.Points(x.sinceThen)},
		{Name: metricGap, Points: compare.Points(x.gaps)},
	}
	r.Plot(plot)
}

// addResponses simulates the time from the arrival of a PFC frame until the last bit of its
// priority has left.
func addResponses(ctx context.Context, o compare.Options, r *compare.Report) error {
	pauses := 2000
	if o.Quick {
		pauses = 100
	}
	t := compare.Table{
		Title: fmt.Sprintf(
			"Time from PFC frame received to last bit of its priority sent, ns; 60 quanta at 10 Gbit/s are %.0f",
			float64(responseLimit)),
		Head: []string{"in flight", "frames", "p50", "p99", "max", "bound", "60 quanta / max"},
	}
	defer func() { r.Table(t) }()
	for _, inFlight := range []int{2 * 1514, 16 << 10, 64 << 10} {
		for _, size := range []int{60, 1514} {
			if err := ctx.Err(); err != nil {
				return err
			}
			o.Progress("time to last bit sent: %d bytes in flight, frames of %d bytes", inFlight, size+frame.FCS)
			x := pauseResponse{InFlight: inFlight, Size: size, Pauses: pauses, Seed: o.Seed}
			l, err := x.Run()
			if err != nil {
				return err
			}
			metric := fmt.Sprintf(
				"longest time from PFC frame to last bit of its priority sent, %d bytes in flight, %d B", inFlight,
				size+frame.FCS)
			r.Add(compare.Trial{Name: reactionSluice, Metric: metric, Unit: "ns", Value: l.Quantile(1),
				Detail: map[string]float64{
					"p50": l.Quantile(.5), "p99": l.Quantile(.99), "bound": float64(x.Bound()),
					"count": float64(l.Count()),
				}})
			r.Limit(fmt.Sprintf("60_quanta_%d_in_flight_%dB", inFlight, size+frame.FCS), metric, reactionSluice,
				responseLimit, compare.Lower)
			ns := func(v float64) string { return fmt.Sprintf("%.0f", v) }
			t.Rows = append(t.Rows, []string{
				fmt.Sprintf("%d B", inFlight), fmt.Sprintf("%d B", size+frame.FCS), ns(l.Quantile(.5)),
				ns(l.Quantile(.99)), ns(l.Quantile(1)), ns(float64(x.Bound())),
				fmt.Sprintf("%.2f", responseLimit/l.Quantile(1)),
			})
		}
	}
	return nil
}

// elapsedSince returns a clock in ns that starts now.
func elapsedSince() func() int64 {
	start := time.Now()
	return func() int64 { return int64(time.Since(start)) }
}
