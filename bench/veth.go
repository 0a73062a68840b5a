package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/gen/live"
)

var vethScenario = Scenario{
	Name:  "veth",
	Shows: "packets/s, loss and latency from one veth device to another: MRR, NDR, PDR, latency under load",
	Peers: "testpmd net_af_xdp, the Linux bridge, a port over asavie/xdp",
	Run: func(ctx context.Context, o Options, r *Report) error {
		return (&veth{Options: o}).run(ctx, r)
	},
}

// veth says what runs. The zero value of all but the options is a choice that makes sense.
type veth struct {
	Options
	forwarders []Forwarder                   // the first is compared with the others; none: sluice, and all its peers that are there
	lossless   bool                          // sluice without loss is measured, too
	lengths    []int                         // of the frames, bytes without FCS
	attempts   int                           // at a trial that others disturb
	latencies  map[latencyOf]*live.Histogram // at halfLoad, of all rounds
}

const (
	vethWarmUp   = 300 * time.Millisecond // before a forwarder is measured under overload
	vethPriority = 3                      // of the frames
	vethLossless = "sluice_lossless"
)

// run has each forwarder measured once a round, in turns that go backwards every other round:
//
//	generator → h0 — s0 → forwarder → s1 — h1 → sink
//
// with s0 and s1 in a namespace of the switch, h0 and h1 in one of the hosts. Each turn has devices of its own: nothing
// that a forwarder leaves behind meets the next one.
func (v *veth) run(ctx context.Context, r *Report) error {
	v.setDefaults(r)
	v.announce(r)
	defer func() {
		v.addVersions(r)
		v.table(r)
		v.plot(r)
	}()
	for round := range v.Trials {
		for _, length := range v.lengths {
			for i := range v.forwarders {
				if round&1 == 1 {
					i = len(v.forwarders) - 1 - i
				}
				if err := v.turn(ctx, r, v.forwarders[i], length, round); err != nil {
					return fmt.Errorf("%s with frames of %d B: %w", v.forwarders[i].Name(), wireLength(length), err)
				}
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

func (v *veth) setDefaults(r *Report) {
	lengths := []int{60, 508, 1514}
	if v.Quick {
		lengths = lengths[:1]
	}
	v.attempts = cmp.Or(v.attempts, liveAttempts(v.Options))
	if len(v.lengths) == 0 {
		v.lengths = lengths
	}
	if len(v.forwarders) > 0 {
		return
	}
	v.forwarders = []Forwarder{NewSluice(v.Program)}
	if t, err := NewTestpmd(); err == nil {
		v.forwarders = append(v.forwarders, t)
	} else {
		r.Missing("testpmd", err.Error())
	}
	v.forwarders = append(v.forwarders, &LinuxBridge{}, NewBaseline(v.Program))
	v.lossless = true
}

// What is measured of a forwarder, besides its latency.
const (
	metricMRR     = "MRR"
	metricNDR     = "NDR"
	metricPDR     = "PDR"
	metricNDRMRR  = "NDR / MRR"
	metricLost    = "lost under overload"
	metricProgram = "time of its program"
	metricKernel  = "time of its thread in the kernel"
)

// of returns the name of a metric with frames of a length.
func of(metric string, length int) string { return fmt.Sprintf("%s, %d B", metric, wireLength(length)) }

// wireLength is a frame's length with its FCS, by which it is known.
func wireLength(length int) int { return length + 4 }

// announce asks for the ratios and says what they mean.
func (v *veth) announce(r *Report) {
	subject := v.forwarders[0].Name()
	for _, length := range v.lengths {
		for _, f := range v.forwarders[1:] {
			compare := func(short, metric string, b Better) {
				r.Compare(fmt.Sprintf("vs_%s_%s_%dB", f.Name(), short, wireLength(length)), of(metric, length), subject, f.Name(), b)
			}
			compare("MRR", metricMRR, Higher)
			compare("NDR", metricNDR, Higher)
			compare("PDR", metricPDR, Higher)
			compare("p50", latencyMetric(halfLoad, "p50"), Lower)
			compare("p99", latencyMetric(halfLoad, "p99"), Lower)
		}
		r.Limit(fmt.Sprintf("vs_limit_NDR/MRR_0.95_%dB", wireLength(length)), of(metricNDRMRR, length), subject, 0.95, Higher)
		r.Limit(fmt.Sprintf("vs_limit_p99.99_200us_%dB", wireLength(length)), of(latencyMetric(halfLoad, "p99.99"), length), subject, 200e3, Lower)
	}
	r.Note("MRR: packets/s received under overload. NDR and PDR: the highest rates with loss ratios of at most 0 and 0.005. " +
		"Loss is what was sent and did not come, by sequence numbers, after everything under way has come.")
	r.Note("Latency is from when a frame was due by its rate to the XDP program at the far end; in the details also from when it was made.")
	r.Note("Every forwarder has one CPU, and the generator the other. The Linux bridge has no thread: its work is done by the " +
		"kernel's threads that poll the ports (threaded NAPI), on the forwarder's CPU. For the others the first half of reception, " +
		"up to their socket, runs on the generator's CPU, as does no part of the bridge.")
	r.Note("sluice has a wire between its ports and default classes, none lossless: frames are charged, queued and scheduled. " +
		"testpmd (io) and the baseline's library know no queues; the baseline runs the switch's own worker over it.")
	if v.lossless {
		r.Note("%s is sluice with all frames in a lossless class, before a host that obeys PFC and offers a third more than sluice "+
			"has forwarded under overload just before. What is overloaded is the worker's CPU, not a port: what it loses it loses before "+
			"the worker, in the receive ring, and only what is in the worker's queues makes it stop the host.", vethLossless)
	}
	r.Note("The kernel's copy mode makes an skb of each frame sent: most of a frame's time is the kernel's, for everybody "+
		"(%s, %s). There was no adapter: nothing here says how fast anybody is on one.", metricProgram, metricKernel)
}

// addVersions reports what forwarders have said of themselves once they were started.
func (v *veth) addVersions(r *Report) {
	for _, f := range v.forwarders {
		if v, ok := f.(interface{ Version() string }); ok && v.Version() != "" {
			r.Machine.Versions[f.Name()] = v.Version()
		}
	}
}

// table puts the medians side by side.
func (v *veth) table(r *Report) {
	t := Table{
		Title: "Medians",
		Head: []string{"frame", "forwarder", "MRR kpps", "NDR kpps", "PDR kpps", "NDR/MRR", "program ns", "kernel ns",
			"p50 µs", "p99 µs", "p99.99 µs at " + halfLoad.name},
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
				{metricMRR, "%.0f", 1e3}, {metricNDR, "%.0f", 1e3}, {metricPDR, "%.0f", 1e3}, {metricNDRMRR, "%.3f", 1},
				{metricProgram, "%.0f", 1}, {metricKernel, "%.0f", 1}, {latencyMetric(halfLoad, "p50"), "%.1f", 1e3},
				{latencyMetric(halfLoad, "p99"), "%.1f", 1e3}, {latencyMetric(halfLoad, "p99.99"), "%.1f", 1e3},
			} {
				cell := ""
				if values := r.Values(name, of(column.metric, length)); len(values) > 0 {
					cell = fmt.Sprintf(column.format, Summarise(values).Median/column.unit)
				}
				row = append(row, cell)
			}
			if row[2] != "" {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	r.Table(t)
}

// turn measures one forwarder once.
func (v *veth) turn(ctx context.Context, r *Report, f Forwarder, length, round int) (err error) {
	b, err := newBed(v.bed(length))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.start(ctx, f); err != nil {
		return err
	}
	add := func(metric, unit string, value float64, detail map[string]float64) {
		r.Add(Trial{Name: f.Name(), Metric: of(metric, length), Unit: unit, Round: round, Value: value, Detail: detail})
	}
	over, err := b.overload(ctx, 0, v.Duration/2, vethWarmUp, v.attempts)
	if err != nil {
		return err
	}
	over.add(add)
	r.noteDisturbed(fmt.Sprintf("%s, %s", f.Name(), of(metricMRR, length)), round, over.disturbed)
	found, err := Search(ctx, v.search(over.rate), func(ctx context.Context, rate float64, d time.Duration) (Load, error) {
		return b.measure(ctx, rate, d, v.attempts)
	})
	if err != nil {
		return err
	}
	ndr := found[0]
	add(metricNDR, "packets/s", ndr, nil)
	add(metricPDR, "packets/s", found[1], nil)
	add(metricNDRMRR, "", ndr/over.rate, nil)
	v.Progress("%s, %d B, %s: %.3f Mpps of %.3f offered, NDR %.3f, PDR %.3f", f.Name(), wireLength(length),
		ofRounds(round, v.Trials), over.rate/1e6, over.offered/1e6, ndr/1e6, found[1]/1e6)
	if ndr == 0 {
		r.Note("%s, %d B, round %d: no latency, for there is no rate without loss.", f.Name(), wireLength(length), round+1)
		return nil
	}
	for _, l := range v.loads() {
		h, err := b.latency(ctx, l.rate(ndr), v.Duration/4)
		if err != nil {
			return err
		}
		h.add(l, add)
		if l.name == halfLoad.name {
			v.keep(latencyOf{f.Name(), length}, &h.fromSchedule)
		}
	}
	return nil
}

// turnLossless has a lossless forwarder, and a host that obeys it, sustain more than the first forwarder can take. The
// host's line carries no more than it offers.
func (v *veth) turnLossless(ctx context.Context, r *Report, length, round int) (err error) {
	mrr := r.Values(v.forwarders[0].Name(), of(metricMRR, length))
	speed := uint64(4 * mrr[len(mrr)-1] / 3 * float64(8*(length+wireOverhead)))
	p := v.bed(length)
	p.priorities, p.speed = 1<<vethPriority, speed
	b, err := newBed(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.start(ctx, newSluice(vethLossless, v.Program, losslessWireConfig(speed))); err != nil {
		return err
	}
	over, err := b.overload(ctx, lineRate(speed, length), v.Duration/2, vethWarmUp, v.attempts)
	if err != nil {
		return err
	}
	over.add(func(metric, unit string, value float64, detail map[string]float64) {
		r.Add(Trial{Name: vethLossless, Metric: of(metric, length), Unit: unit, Round: round, Value: value, Detail: detail})
	})
	v.Progress("%s, %d B, %s: %.3f Mpps, lost %.3g %%", vethLossless, wireLength(length), ofRounds(round, v.Trials), over.rate/1e6, 100*over.lost)
	return nil
}

// bed is two hosts, of which the first sends. The other one says a word, for those who learn addresses.
func (v *veth) bed(length int) bedParams {
	return bedParams{
		ports: 2, cpus: v.CPUs,
		streams: []stream{{from: 0, to: 1, priority: vethPriority, length: length}, {from: 1, to: 0, length: 60, hello: true}},
	}
}

// search looks for NDR and PDR around a rate that was received under overload, which costs some forwarders more than a
// load that they can take. A rate keeps its goal if most of three trials do. All are so short that ten rounds of four
// forwarders and three lengths take half an hour.
func (v *veth) search(mrr float64) SearchParams {
	p := SearchParams{
		Min: mrr / 100, Max: 1.5 * mrr, Width: 0.005, Goals: []float64{0, 0.005},
		Trial: v.Duration / 20, Final: v.Duration / 8, Sum: 3 * v.Duration / 8, Exceed: 0.5,
	}
	if v.Quick {
		p.Width, p.Sum = 0.1, p.Final
	}
	return p
}

// measure offers a rate for d; see Search. Like overload, it repeats what others disturb, whatever came of it.
func (b *bed) measure(ctx context.Context, rate float64, d time.Duration, attempts int) (l Load, err error) {
	least := 1.0
	for range attempts {
		again, without, err := b.measureOnce(ctx, rate, d)
		if err != nil {
			return l, err
		}
		if without < least {
			l, least = again, without
		}
		if without <= disturbed {
			break
		}
	}
	return l, nil
}

// measureOnce also tells for what share of the time the forwarder or the generator had no CPU.
func (b *bed) measureOnce(ctx context.Context, rate float64, d time.Duration) (l Load, without float64, err error) {
	before := b.begin()
	from, err := b.look()
	if err != nil {
		return l, 0, err
	}
	if err := errors.Join(b.setRate(0, rate), pause(ctx, d/2)); err != nil {
		return l, 0, err
	}
	half := b.count().since(before)
	if err := pause(ctx, d/2); err != nil {
		return l, 0, err
	}
	to, err := b.look()
	if err != nil {
		return l, 0, err
	}
	if err := b.silence(ctx); err != nil {
		return l, 0, err
	}
	all, seconds := b.count().since(before), to.at.Sub(from.at).Seconds()
	return Load{
		Offered: rate * seconds, Sent: float64(all.sent), Received: float64(all.received),
		Loss: all.loss(), Growing: growing(half, to.frames.since(before)),
	}, between(from, to).disturbed, nil
}

// growing tells whether more was under way at the end of a trial than in the middle: by more than comes and goes with
// bursts, and by more than PDR could lose.
func growing(half, end tally) bool {
	const burst, share = 256, 0.005
	behind := func(t tally) float64 { return float64(t.sent) - float64(t.received) }
	return behind(end)-behind(half) > max(burst, share*float64(end.sent-half.sent))
}

// add adds an overload's trials to a report.
func (o *overloaded) add(add func(metric, unit string, value float64, detail map[string]float64)) {
	add(metricMRR, "packets/s", o.rate, map[string]float64{
		"seconds": o.seconds, "offered": o.offered, "disturbed": o.disturbed, "attempts": float64(o.attempts),
	})
	add(metricLost, "", o.lost, nil)
	if o.program+o.kernel > 0 {
		frames := o.rate * o.seconds
		add(metricProgram, "ns/frame", float64(o.program)/frames, nil)
		add(metricKernel, "ns/frame", float64(o.kernel)/frames, nil)
	}
}
