// Package memory has scenarios that run within this process, in real time: engines, and whole
// workers between ports in memory.
package memory

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/budget"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
)

// Pipeline is the whole path of a frame through a worker, between ports in memory.
var Pipeline = compare.Scenario{
	Name:   "pipeline",
	Shows:  "ns per frame on the whole lossless path between ports in memory, on one core",
	Peers:  "testpmd io and macswap on net_null; 33.6 ns: both directions of 10GbE at line rate",
	Page:   "forwarding-path",
	Short:  true,
	OneCPU: true,
	Run:    runPipeline,
}

const (
	pipelineSluice = "sluice"
	queuedFrames   = 32 << 10

	// lineRate64 is the time of a frame of 64 bytes at 10 Gbit/s, ns: 84 bytes with preamble,
	// delimiter and gap.
	lineRate64 = 67.2
)

// imix is IMIX_v4_1 of FD.io CSIT, without FCS and interleaved: seven frames of 64 bytes, four of
// 570, one of 1518.
var imix = []int{60, 566, 60, 60, 566, 60, 1514, 60, 566, 60, 60, 566}

// pipelineLoad is a worker's load.
type pipelineLoad struct {
	name     string
	ratio    string // suffix of the names of its ratios to the line rate; "-": none
	lengths  []int
	stations int  // addresses behind each port, used by frames in turn; 0: 1
	wire     bool // the two ports are the ends of a wire, without address lookup
	queued   int  // frames that wait in queues at all times
}

// pipelineLoads use the terms of FD.io CSIT's layer 2 tests: cross-connect, bridge base, bridge
// with so many addresses.
var pipelineLoads = []pipelineLoad{
	{name: "64 B", lengths: []int{60}},
	{name: "1518 B", ratio: "-", lengths: []int{1514}},
	{name: "IMIX", ratio: "-", lengths: imix},
	{name: "64 B, 1000 addresses", ratio: "_stations", lengths: []int{60}, stations: 500},
	{name: fmt.Sprintf("64 B, %d frames queued", queuedFrames), ratio: "_queued", lengths: []int{60},
		queued: queuedFrames},
	{name: "64 B, cross-connect", ratio: "-", lengths: []int{60}, wire: true},
	{name: "64 B, 10k addresses", ratio: "-", lengths: []int{60}, stations: 5_000},
	{name: "64 B, 100k addresses", ratio: "-", lengths: []int{60}, stations: 50_000},
	{name: "64 B, 1M addresses", ratio: "-", lengths: []int{60}, stations: 500_000},
}

func (l *pipelineLoad) metric() string { return "cost, " + l.name }

// start returns a switch under the load, and its memory, which the caller must close.
func (l *pipelineLoad) start() (*busy, *umem.Memory, error) {
	memory, err := umem.Map(max(loopgap.Buffers, 3*l.queued), 2048)
	if err != nil {
		return nil, nil, err
	}
	load := loopgap.Load{Ports: 2, Lengths: l.lengths, Stations: l.stations, Wire: l.wire}
	if l.queued > 0 {
		load.Tune = burstInFlight(l.lengths[0])
	}
	b, err := newBusy(memory, load)
	if err == nil {
		err = b.queue(l.queued)
	}
	if err != nil {
		return nil, nil, errors.Join(err, memory.Close())
	}
	return b, memory, nil
}

func runPipeline(ctx context.Context, o compare.Options, r *compare.Report) error {
	var subjects []compare.Subject
	var pages []string // kinds of pages that the memories have
	for _, l := range pipelineLoads {
		b, memory, err := l.start()
		if err != nil {
			return err
		}
		defer memory.Close()
		subjects = append(subjects, compare.Subject{
			Name: pipelineSluice, Metric: l.metric(), Unit: "ns/frame",
			Measure: func(ctx context.Context) (float64, map[string]float64, error) {
				return b.Measure(ctx, o.CPUs[0], o.Duration)
			},
		})
		if !slices.Contains(pages, memory.Pages()) {
			pages = append(pages, memory.Pages())
		}
	}
	for _, l := range pipelineLoads {
		if l.ratio != "-" {
			r.Limit("vs_limit_33.6ns"+l.ratio, l.metric(), pipelineSluice, lineRate64/2, compare.Lower)
			r.Limit("vs_limit_67.2ns"+l.ratio, l.metric(), pipelineSluice, lineRate64, compare.Lower)
		}
	}
	r.Note("Sluice's memory is mapped before the first trial, in %s.", strings.Join(pages, ", and in "))
	subjects = append(subjects, pipelinePeers(o, r)...)
	defer func() { r.Plot(pipelinePlot(r, subjects)) }()
	return r.Interleave(ctx, o, subjects)
}

// pipelinePeers returns testpmd's modes as subjects and requests their ratios. testpmd needs one
// CPU to forward and one for everything else.
func pipelinePeers(o compare.Options, r *compare.Report) (peers []compare.Subject) {
	t, err := bed.NewTestpmd()
	if err == nil && !o.HaveTwoCPUs() {
		err = compare.ErrOneCPU
	}
	if err != nil {
		r.Missing("testpmd", err.Error())
		return nil
	}
	pages := "ordinary pages (--no-huge), because too few hugepages are free"
	if _, _, huge := bed.TestpmdMemory(len(bed.NullDevices)); huge {
		pages = "hugepages"
	}
	r.Note("testpmd's memory is in %s.", pages)
	first := pipelineLoads[0].metric()
	for _, mode := range []string{"io", "macswap"} {
		name := "testpmd_" + mode
		peers = append(peers, compare.Subject{Name: name, Metric: first, Unit: "ns/frame", Peer: true,
			Measure: func(ctx context.Context) (float64, map[string]float64, error) {
				defer func() { r.Machine.AddVersion(t.Name(), t.Version()) }()
				return measureTestpmdNull(ctx, t, mode, o)
			}})
		r.Compare("vs_"+name, first, pipelineSluice, name, compare.Lower)
	}
	return peers
}

// pipelinePlot shows the result of each round, so that disturbances and their victims are visible.
func pipelinePlot(r *compare.Report, subjects []compare.Subject) compare.Plot {
	p := compare.Plot{Name: "rounds", Title: "Cost of a frame, round by round", X: "round", Y: "ns per frame"}
	for _, s := range subjects {
		p.Series = append(p.Series, r.ByRound(s.Name, s.Metric))
	}
	return p
}

// measureTestpmdNull returns testpmd's ns per frame between two net_null ports.
func measureTestpmdNull(ctx context.Context, t *bed.Testpmd, mode string, o compare.Options) (float64,
	map[string]float64, error) {
	const most = 10 // samples
	samples := int(min(o.Duration, most*time.Second).Round(time.Second) / time.Second)
	rates, err := t.MeasureNull(ctx, mode, o.CPUs[0], o.CPUs[1], max(1, samples))
	if err != nil {
		return 0, nil, err
	}
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	mean := sum / float64(len(rates))
	return 1e9 / mean, map[string]float64{"seconds": float64(len(rates)), "packets/s": mean}, nil
}

// busy is a switch with one worker that is never idle, in its own virtual time.
type busy struct {
	worker *dataplane.Worker
	now    int64 // ns
}

const (
	busyStep   = 20_000 // ns of virtual time per iteration: slow enough that shapers have no effect
	busyWarmUp = 1000   // iterations
)

func newBusy(memory *umem.Memory, l loopgap.Load) (*busy, error) {
	s, now, err := l.Start(memory, busyStep)
	if err != nil {
		return nil, err
	}
	return &busy{worker: s.Workers[0], now: now}, nil
}

func (b *busy) step() {
	b.now += busyStep
	b.worker.Step(b.now)
}

// burstInFlight limits each port to a burst of frames in flight, so that no more frames leave in a
// pass than arrive, however many wait.
func burstInFlight(length int) func(*dataplane.Params) {
	return func(p *dataplane.Params) {
		for i := range p.Ports {
			p.Ports[i].InFlight = budget.Burst * length
		}
	}
}

// queue queues frames until the given number waits. The shapers have no credit because virtual time
// stands still. When it continues, as many frames leave in an iteration as arrive, so the number
// stays constant.
func (b *busy) queue(frames int) error {
	for range busyWarmUp {
		b.step()
	}
	for last := -1; b.count().queued < frames; {
		b.worker.Step(b.now)
		if n := b.count().queued; n > last || n == 0 {
			last = n
		} else {
			return fmt.Errorf("bench: only %d frames can be queued, not %d", n, frames)
		}
	}
	for range busyWarmUp {
		b.step()
	}
	return nil
}

// Measure steps the worker for duration and returns ns per frame sent. If ctx is done, it ends
// early with ctx's error.
func (b *busy) Measure(ctx context.Context, cpu int, duration time.Duration) (cost float64, detail map[string]float64,
	err error) {
	var elapsed, wait time.Duration
	var allocations uint64
	before := b.count()
	err = thread.OnCPU(cpu, func() {
		for range busyWarmUp {
			b.step()
		}
		before = b.count()
		wait, allocations = bed.Waited(), allocated()
		for start := time.Now(); elapsed < duration && ctx.Err() == nil; elapsed = time.Since(start) {
			for range 64 {
				b.step()
			}
		}
		allocations, wait = allocated()-allocations, bed.Waited()-wait
	})
	after := b.count()
	sent := float64(after.sent - before.sent)
	return float64(elapsed.Nanoseconds()) / sent, map[string]float64{
		"frames": sent, "dropped": float64(after.dropped - before.dropped), "queued": float64(after.queued),
		"flooded": float64(after.flooded - before.flooded), "allocations": float64(allocations),
		"waited_ms": wait.Seconds() * 1e3,
	}, errors.Join(err, ctx.Err())
}

// allocated returns the number of objects that the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// busyCount sums up the counters of a worker's ports, in frames.
type busyCount struct {
	sent, dropped, flooded uint64
	queued                 int
	stations               int // addresses in the FDB
}

func (b *busy) count() busyCount { return countOf(b.worker.Look(b.now)) }

func countOf(s dataplane.Snapshot) (c busyCount) {
	c.stations, c.flooded = s.Stations, s.Bridge.Unknown
	for i := range s.Ports {
		p := &s.Ports[i]
		c.sent += p.TXFrames
		c.dropped += p.Dropped()
		c.queued += p.Buffers.Queued
	}
	return c
}
