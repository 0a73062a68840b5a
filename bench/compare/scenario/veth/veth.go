// Package veth has scenarios on real devices: veth pairs between namespaces, on the test bed of
// bench/compare/bed.
package veth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/traffic/line"
	"sluice/internal/frame"
)

// Veth compares this switch with its peers: rates, loss and latency.
var Veth = compare.Scenario{
	Name:  "veth",
	Shows: "packets/s, loss and latency from one veth device to another: MRR, NDR, PDR, latency under load",
	Peers: "testpmd (net_af_xdp; net_af_packet with jumbo frames), Open vSwitch (DPDK, AF_XDP), the Linux " +
		"bridge, an XDP redirect, a port over asavie/xdp",
	Page: "veth-forwarding",
	Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		return (&veth{Options: o}).run(ctx, r)
	},
}

// veth is one run of the scenario. Zero values, except in Options, have useful defaults.
type veth struct {
	compare.Options
	// the first is compared with the others; none: sluice and all peers that are installed
	forwarders []bed.Forwarder
	lossless   bool                          // also measure lossless sluice
	lengths    []int                         // of frames, bytes without FCS
	attempts   int                           // at a trial that other processes disturb
	latencies  map[latencyOf]*line.Histogram // at commonLoad, of all rounds
}

const vethLossless = "sluice_lossless"

// run measures each forwarder once per round, in turns whose order is reversed every other round:
//
//	generator → h0 — s0 → forwarder → s1 — h1 → sink
//
// s0 and s1 are in a namespace of the switch, h0 and h1 in one of the hosts. Each turn has new
// devices, so a forwarder can't affect the next one. After all turns, when the rate that all can
// forward is known, each has another turn to measure its latency at that rate.
func (v *veth) run(ctx context.Context, r *compare.Report) error {
	v.setDefaults(r)
	v.announce(r)
	defer func() {
		for _, f := range v.forwarders {
			bed.NoteSetup(r, f.Name(), f)
		}
		v.table(r)
		v.plot(r)
	}()
	for round := range v.Trials {
		for _, length := range v.lengths {
			if err := v.takeTurns(ctx, r, length, round,
				func(ctx context.Context, t *turn) error { return t.Measure(ctx) }); err != nil {
				return err
			}
			common := v.commonRate(r, length, round)
			if err := v.takeTurns(ctx, r, length, round, func(ctx context.Context, t *turn) error {
				if err := t.bed.WarmUp(ctx, common); err != nil {
					return err
				}
				return t.Latency(ctx, commonLoad, common)
			}); err != nil {
				return err
			}
			if !v.lossless {
				continue
			}
			if err := v.turnLossless(ctx, r, length, round); err != nil {
				return fmt.Errorf("%s with frames of %d B: %w", vethLossless, wireLength(length), err)
			}
		}
	}
	return nil
}

func (v *veth) setDefaults(r *compare.Report) {
	v.attempts = cmp.Or(v.attempts, compare.LiveAttempts(v.Options))
	if len(v.lengths) == 0 {
		v.lengths = lengths(&v.Options)
	}
	if len(v.forwarders) == 0 {
		v.addForwarders(r)
	}
	for _, f := range v.forwarders {
		if most, why := longest(f); most < slices.Max(v.lengths) {
			r.Missing(fmt.Sprintf("%s, frames above %d B", f.Name(), wireLength(most)), why)
		}
	}
}

// addForwarders adds sluice and all peers that are installed.
func (v *veth) addForwarders(r *compare.Report) {
	v.forwarders = []bed.Forwarder{bed.NewSluice(v.Program)}
	addIfPresent(v, r, "testpmd", bed.NewTestpmd)
	if slices.Max(v.lengths) > ordinary {
		addIfPresent(v, r, bed.TestpmdPacketsName, bed.NewTestpmdPackets)
	}
	addIfPresent(v, r, bed.OpenVSwitchDPDKName, bed.NewOpenVSwitchDPDK)
	addIfPresent(v, r, bed.OpenVSwitchAFXDPName, bed.NewOpenVSwitchAFXDP)
	v.forwarders = append(v.forwarders, &bed.XDPRedirect{}, &bed.LinuxBridge{}, bed.NewBaseline(v.Lab),
		bed.NewTransmitterSluice(bed.VethTransmitter, v.Program, bed.TransmitterConfig))
	v.lossless = true
}

// longest returns the longest frame that a forwarder takes, in bytes without FCS, and why.
func longest(f bed.Forwarder) (bytes int, why string) {
	if l, ok := f.(bed.Limited); ok {
		return l.Longest()
	}
	return math.MaxInt, ""
}

// addIfPresent adds a peer, or reports it as missing.
func addIfPresent[F bed.Forwarder](v *veth, r *compare.Report, name string, peer func() (F, error)) {
	if f, err := peer(); err == nil {
		v.forwarders = append(v.forwarders, f)
	} else {
		r.Missing(name, err.Error())
	}
}

// ordinary is the longest frame of ordinary Ethernet, in bytes without FCS.
const ordinary = 1514

// lengths returns the frame lengths to measure, in bytes without FCS.
func lengths(o *compare.Options) (all []int) {
	for _, size := range o.Sizes {
		all = append(all, size-wireLength(0))
	}
	switch {
	case len(all) > 0:
		return all
	case o.Quick:
		return []int{60}
	}
	return []int{60, 508, ordinary}
}

// Metrics of a forwarder, besides latency.
const (
	metricMRR     = "MRR"
	metricNDR     = "NDR"
	metricPDR     = "PDR"
	metricNDRMRR  = "NDR / MRR"
	metricLost    = "lost under overload"
	metricProgram = "program time"
	metricKernel  = "kernel time"
)

// of returns the name of a metric with frames of a length.
func of(metric string, length int) string { return fmt.Sprintf("%s, %d B", metric, wireLength(length)) }

// wireLength returns a frame's length with its FCS, as shown in reports.
func wireLength(length int) int { return length + 4 }

// vethRatios are the ratios of two forwarders.
var vethRatios = []struct {
	short, metric string
	better        compare.Better
	socket        bool // not of the transmitter
}{
	{"MRR", metricMRR, compare.Higher, false}, {"NDR", metricNDR, compare.Higher, false},
	{"PDR", metricPDR, compare.Higher, false},
	{"p50", latencyMetric(commonLoad, "p50"), compare.Lower, true},
	{"p99", latencyMetric(commonLoad, "p99"), compare.Lower, true},
	{"p50_half_NDR", latencyMetric(halfLoad, "p50"), compare.Lower, false},
	{"p99_half_NDR", latencyMetric(halfLoad, "p99"), compare.Lower, false},
}

// announce requests the ratios: of the first forwarder and of the transmitter to all others.
func (v *veth) announce(r *compare.Report) {
	subject := v.forwarders[0].Name()
	transmits := slices.ContainsFunc(v.forwarders,
		func(f bed.Forwarder) bool { return f.Name() == bed.VethTransmitter })
	for _, length := range v.lengths {
		size := wireLength(length)
		for _, f := range v.forwarders {
			for _, c := range vethRatios {
				if f.Name() != subject {
					r.Compare(fmt.Sprintf("vs_%s_%s_%dB", f.Name(), c.short, size), of(c.metric, length), subject,
						f.Name(), c.better)
				}
				if transmits && f.Name() != bed.VethTransmitter && !c.socket {
					r.Compare(fmt.Sprintf("resident_vs_%s_%s_%dB", f.Name(), c.short, size), of(c.metric, length),
						bed.VethTransmitter, f.Name(), c.better)
				}
			}
		}
		r.Limit(fmt.Sprintf("vs_limit_NDR/MRR_0.95_%dB", size), of(metricNDRMRR, length), subject, 0.95, compare.Higher)
		r.Limit(fmt.Sprintf("vs_limit_p99.99_200us_%dB", size), of(latencyMetric(halfLoad, "p99.99"), length), subject,
			200e3, compare.Lower)
	}
}

// table shows the medians side by side.
func (v *veth) table(r *compare.Report) {
	t := compare.Table{
		Title: "Medians",
		Head: []string{"frame", "forwarder", "MRR kpps", "MRR Gbit/s", "NDR kpps", "PDR kpps", "NDR/MRR", "program ns",
			"kernel ns", "p50 µs", "p99 µs", "p99.99 µs at " + commonLoad.name},
	}
	names := []string{vethLossless}
	for i := range v.forwarders {
		names = slices.Insert(names, i, v.forwarders[i].Name())
	}
	for _, length := range v.lengths {
		for _, name := range names {
			row := []string{fmt.Sprintf("%d B", wireLength(length)), name}
			for _, column := range []struct {
				metric, format string
				unit           float64
			}{
				{metricMRR, "%.0f", 1e3}, {metricMRR, "%.2f", 1e9 / float64(8*length)}, {metricNDR, "%.0f", 1e3},
				{metricPDR, "%.0f", 1e3}, {metricNDRMRR, "%.3f", 1},
				{metricProgram, "%.0f", 1}, {metricKernel, "%.0f", 1}, {latencyMetric(commonLoad, "p50"), "%.1f", 1e3},
				{latencyMetric(commonLoad, "p99"), "%.1f", 1e3}, {latencyMetric(commonLoad, "p99.99"), "%.1f", 1e3},
			} {
				row = append(row, r.Cell(name, of(column.metric, length), column.format, column.unit))
			}
			if row[2] != "" {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	r.Table(t)
}

// turn is the turn of one forwarder, with frames of a length.
type turn struct {
	*veth
	report    *compare.Report
	forwarder bed.Forwarder
	length    int
	round     int
	bed       *bed.Bed
	discarded float64 // frames lost in trials that other processes disturbed and that were repeated
}

// takeTurns measures every forwarder in turn, on new devices. A peer that can't be measured is
// reported as absent from then on.
func (v *veth) takeTurns(ctx context.Context, r *compare.Report, length, round int,
	measure func(ctx context.Context, t *turn) error) error {
	for i := range compare.Turns(round, len(v.forwarders)) {
		t := &turn{veth: v, report: r, forwarder: v.forwarders[i], length: length, round: round}
		if most, _ := longest(t.forwarder); length > most || r.IsAbsent(t.forwarder.Name()) {
			continue
		}
		err := t.take(ctx, measure)
		if err == nil || i > 0 && r.GoesOnWithout(ctx, t.forwarder.Name(), round, err) {
			continue
		}
		return fmt.Errorf("%s with frames of %d B: %w", t.forwarder.Name(), wireLength(length), err)
	}
	return nil
}

func (t *turn) take(ctx context.Context, measure func(ctx context.Context, t *turn) error) (err error) {
	if t.bed, err = bed.New(t.veth.bed(t.length)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.bed.Close()) }()
	if err := t.bed.Start(ctx, t.forwarder); err != nil {
		return err
	}
	err = measure(ctx, t)
	bed.NoteFallback(t.report, fmt.Sprintf("%s, %d B", t.forwarder.Name(), wireLength(t.length)), t.round, t.forwarder)
	return err
}

// add adds a trial.
func (t *turn) add(metric, unit string, value float64, bound bool, detail map[string]float64) {
	t.report.Add(compare.Trial{
		Name: t.forwarder.Name(), Metric: of(metric, t.length), Unit: unit, Round: t.round, Value: value, Bound: bound,
		Detail: detail,
	})
}

// note adds a sentence about the turn.
func (t *turn) note(format string, args ...any) {
	t.report.Note("%s, %d B, round %d: %s", t.forwarder.Name(), wireLength(t.length), t.round+1,
		fmt.Sprintf(format, args...))
}

// Measure measures everything but the latency at the common rate.
func (t *turn) Measure(ctx context.Context) error {
	over, err := t.bed.Overload(ctx, 0, t.Duration/2, t.attempts)
	if err != nil {
		return err
	}
	t.addOverload(&over, over.GeneratorBound())
	found, err := compare.Search(ctx, t.search(&over), t.bed.Measure)
	if err != nil {
		return err
	}
	t.discarded += found.Lost
	t.addSearched(&over, found)
	ndr := found.Goals[0].Rate
	t.Progress("%s, %d B, %s: %.3f Mpps of %.3f offered, NDR %.3f, PDR %.3f", t.forwarder.Name(), wireLength(t.length),
		compare.OfRounds(t.round, t.Trials), over.Rate/1e6, over.Offered/1e6, ndr/1e6, found.Goals[1].Rate/1e6)
	if ndr == 0 {
		t.note("no latency at shares of the NDR, because no rate without loss was found.")
	}
	for _, l := range t.loads() {
		rate := l.rate(ndr)
		if rate == 0 {
			continue
		}
		if err := t.Latency(ctx, l, rate); err != nil {
			return err
		}
	}
	t.add(compare.MetricDiscarded, "frames", t.discarded, false, nil)
	return nil
}

// addOverload adds an overload's trials. If the generator was the bottleneck, the MRR is a lower
// bound.
func (t *turn) addOverload(o *bed.Overloaded, bound bool) {
	t.add(metricMRR, "packets/s", o.Rate, bound, map[string]float64{
		"seconds": o.Seconds, "offered": o.Offered, "sent": float64(o.Frames.Sent), "count": float64(o.Frames.Received),
		"disturbed": o.Disturbed, "attempts": float64(o.Attempts),
	})
	t.add(metricLost, "", o.Lost, false, nil)
	if o.Program+o.Kernel > 0 {
		frames := o.Rate * o.Seconds
		t.add(metricProgram, "ns/frame", float64(o.Program)/frames, false, nil)
		t.add(metricKernel, "ns/frame", float64(o.Kernel)/frames, false, nil)
	}
	if bound {
		t.note("the generator offered %.0f packets/s, and %.0f came through: the MRR may be "+
			"higher, and enters no ratio.", o.Offered, o.Rate)
	}
	t.report.NoteDisturbed(fmt.Sprintf("%s, %s", t.forwarder.Name(), of(metricMRR, t.length)), t.round, o.Disturbed)
}

// addSearched adds the results of a search.
func (t *turn) addSearched(o *bed.Overloaded, found *compare.Searched) {
	for i, metric := range []string{metricNDR, metricPDR} {
		f := found.Goals[i]
		t.add(metric, "packets/s", f.Rate, f.Bound, map[string]float64{
			"trials": float64(f.Trials), "seconds": f.Seconds, "offered": f.Offered, "sent": f.Sent,
			"count": f.Received,
			"lost":  f.Loss, "disturbed": f.Disturbed, "trials of the search": float64(found.Trials),
			"discarded": float64(found.Discarded),
		})
		if f.Bound {
			t.note("%s is at least %.0f packets/s: no higher rate failed that the generator kept "+
				"up with and others did not disturb. It enters no ratio.", metric, f.Rate)
		}
	}
	if ndr := found.Goals[0]; !ndr.Bound && !o.GeneratorBound() {
		t.add(metricNDRMRR, "", ndr.Rate/o.Rate, false, nil)
	}
	if found.Doubtful > 0 {
		t.note("%d trials of the search were disturbed, or fell short of their rate, in each of %d attempts.",
			found.Doubtful, t.attempts)
	}
}

// turnLossless measures a lossless forwarder with a host that honours its PFC. The host offers its
// line rate, a third more than the first forwarder's MRR.
func (v *veth) turnLossless(ctx context.Context, r *compare.Report, length, round int) (err error) {
	mrr := r.Values(v.forwarders[0].Name(), of(metricMRR, length))
	speed := uint64(4 * mrr[len(mrr)-1] / 3 * float64(8*(length+frame.WireOverhead)))
	p := v.bed(length)
	p.Priorities, p.Speed = 1<<bed.LosslessPriority, speed
	b, err := bed.New(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	f := bed.NewSluiceWith(vethLossless, v.Program, bed.LosslessWireConfig(speed))
	if err := b.Start(ctx, f); err != nil {
		return err
	}
	over, err := b.Overload(ctx, bed.LineRate(speed, length), v.Duration/2, v.attempts)
	if err != nil {
		return err
	}
	t := &turn{veth: v, report: r, forwarder: f, length: length, round: round}
	t.addOverload(&over, false) // PFC determines the offered rate
	if round == 0 {
		bed.NoteSetup(r, fmt.Sprintf("%s with %d B", vethLossless, wireLength(length)), f)
	}
	v.Progress("%s, %d B, %s: %.3f Mpps, lost %.3g %%", vethLossless, wireLength(length),
		compare.OfRounds(round, v.Trials), over.Rate/1e6, 100*over.Lost)
	return nil
}

// bed returns the parameters of a bed with two hosts. The first one sends; the other one only
// announces its address.
func (v *veth) bed(length int) bed.Params {
	return bed.Params{
		Ports: 2, CPUs: v.CPUs,
		Streams: []bed.Stream{{From: 0, To: 1, Priority: bed.LosslessPriority, Length: length},
			{From: 1, To: 0, Length: 60, Hello: true}},
	}
}

// search returns the parameters of the search for NDR and PDR. Its range begins far below the rate
// received under overload, since overload costs some forwarders more than a load that they can
// forward, and ends at what the generator can offer. A rate keeps its goal if most of three trials
// do. All trials are short, because there are ten rounds of four forwarders and three lengths.
func (v *veth) search(o *bed.Overloaded) compare.SearchParams {
	p := compare.SearchParams{
		Min: o.Rate / 100, Max: max(o.Rate, o.Offered), Width: 0.005, Goals: []float64{0, 0.005},
		Trial: v.Duration / 20, Final: v.Duration / 8, Sum: 3 * v.Duration / 8, Exceed: 0.5, Attempts: v.attempts,
	}
	if v.Quick {
		p.Width, p.Sum = 0.1, p.Final
	}
	return p
}
