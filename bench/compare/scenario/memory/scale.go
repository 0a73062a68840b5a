package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/internal/dataplane"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
)

// Scale is the cost of a frame with more ports, addresses and workers.
var Scale = compare.Scenario{
	Name:   "scale",
	Shows:  "cost of a frame with 2 to 64 ports, 100 to 100,000 addresses, one worker and two",
	Peers:  "the limits: cost grows by a factor of at most 1.3, two workers are 1.8 times as fast as one",
	Page:   "scaling",
	Short:  true,
	OneCPU: true,
	Run:    runScale,
}

const (
	scaleMetric = "cost, 64 B"
	scaleGrowth = "relative cost, 64 B"
	scaleWait   = 50 * time.Microsecond // how long a worker runs before it checks whether the others are ready
)

// scaleLoads are the loads to compare, by name: ports, addresses and workers. Loads that are
// compared have memories of the same size.
var scaleLoads = []struct {
	name    string
	buffers int
	loopgap.Load
}{
	{"2 ports", 1 << 16, loopgap.Load{Ports: 2}},
	{"8 ports", 1 << 16, loopgap.Load{Ports: 8}},
	{"16 ports", 1 << 16, loopgap.Load{Ports: 16}},
	{"64 ports", 1 << 16, loopgap.Load{Ports: 64}},
	{"100 addresses", loopgap.Buffers, loopgap.Load{Ports: 2, Stations: 50}},
	{"1000 addresses", loopgap.Buffers, loopgap.Load{Ports: 2, Stations: 500}},
	{"10,000 addresses", loopgap.Buffers, loopgap.Load{Ports: 2, Stations: 5000}},
	{"100,000 addresses", loopgap.Buffers, loopgap.Load{Ports: 2, Stations: 50_000}},
	{"1 worker", 2 * loopgap.Buffers, loopgap.Load{Ports: 4, Workers: 1}},
	{"2 workers", 2 * loopgap.Buffers, loopgap.Load{Ports: 4, Workers: 2}},
	{"2 workers, every frame crosses", 2 * loopgap.Buffers, loopgap.Load{Ports: 4, Workers: 2, Crossing: true}},
}

// scaleGrowths are the comparisons, each with its limit.
var scaleGrowths = []struct {
	name, large, small string
	limit              float64 // of the cost of a frame, relative to the small load; 0: none
}{
	{"64_ports_vs_2", "64 ports", "2 ports", 1.3},
	{"16_ports_vs_2", "16 ports", "2 ports", 1.3},
	{"100000_addresses_vs_100", "100,000 addresses", "100 addresses", 1.3},
	{"10000_addresses_vs_100", "10,000 addresses", "100 addresses", 1.3},
	{"2_workers_vs_1", "2 workers", "1 worker", 1 / 1.8},
	{"2_workers_crossing_vs_1", "2 workers, every frame crosses", "1 worker", 0},
}

func runScale(ctx context.Context, o compare.Options, r *compare.Report) error {
	var subjects []compare.Subject
	for _, l := range scaleLoads {
		if l.Workers > 1 && !o.HaveTwoCPUs() {
			r.Note("%s: not measured: %v.", l.name, compare.ErrOneCPU)
			continue
		}
		memory, err := umem.Map(l.buffers, 2048)
		if err != nil {
			return err
		}
		defer memory.Close()
		c, err := newCrew(memory, l.Load)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		subjects = append(subjects, compare.Subject{
			Name: l.name, Metric: scaleMetric, Unit: "ns/frame",
			Measure: func(ctx context.Context) (float64, map[string]float64, error) {
				return c.Measure(ctx, o.CPUs, o.Duration)
			},
		})
	}
	for _, g := range scaleGrowths {
		r.Compare(g.name, scaleMetric, g.large, g.small, compare.Lower)
		if g.limit > 0 {
			r.Limit("vs_limit_"+g.name, scaleGrowth, g.large+" / "+g.small, g.limit, compare.Lower)
		}
	}
	defer func() { addGrowths(r); addScalePlots(r) }()
	return r.Interleave(ctx, o, subjects)
}

// addGrowths adds, for each round, the cost of a frame with the large load relative to the small
// one. The limits apply to these ratios.
func addGrowths(r *compare.Report) {
	for _, g := range scaleGrowths {
		pairs, _ := r.Pairs(compare.Ratio{Metric: scaleMetric, Subject: g.large, Peer: g.small})
		for round, costs := range pairs {
			r.Add(compare.Trial{Name: g.large + " / " + g.small, Metric: scaleGrowth, Round: round,
				Value: costs[0] / costs[1]})
		}
	}
}

// addScalePlots plots the medians against the number of ports and of addresses.
func addScalePlots(r *compare.Report) {
	var ports, addresses compare.Series
	for _, l := range scaleLoads {
		switch {
		case l.Stations > 0:
			r.AddMedian(&addresses, float64(l.Ports*l.Stations), l.name, scaleMetric)
		case l.Workers == 0:
			r.AddMedian(&ports, float64(l.Ports), l.name, scaleMetric)
		}
	}
	plot := func(of string, s compare.Series) {
		r.Plot(compare.Plot{Name: of, Title: "Cost of a frame of 64 B over " + of, X: of, Y: "ns per frame", LogX: true,
			Series: []compare.Series{s}})
	}
	plot("ports", ports)
	plot("addresses", addresses)
}

// crew is a switch that is never idle, whose workers each have a thread and a CPU.
type crew struct {
	workers []*dataplane.Worker
	now     []int64 // by worker: ns that it has run
}

func newCrew(memory *umem.Memory, l loopgap.Load) (*crew, error) {
	l.Lengths = []int{60}
	s, now, err := l.Start(memory, busyStep)
	if err != nil {
		return nil, err
	}
	c := &crew{workers: s.Workers}
	for range s.Workers {
		c.now = append(c.now, now)
	}
	return c, nil
}

// Measure warms up for a tenth of duration, runs the workers for duration, and returns ns per frame
// sent by all workers together. If ctx is done, it ends early with ctx's error.
func (c *crew) Measure(ctx context.Context, cpus [2]int, duration time.Duration) (float64, map[string]float64, error) {
	var (
		all     sync.WaitGroup
		ready   atomic.Int64
		errs    = make([]error, len(c.workers))
		elapsed = make([]time.Duration, len(c.workers))
		counts  = make([]busyCount, len(c.workers))
		waits   = make([]time.Duration, len(c.workers))
	)
	for i := range c.workers {
		all.Go(func() {
			errs[i] = thread.OnCPU(cpus[i], func() {
				c.run(ctx, i, duration/10)
				ready.Add(1)
				for ready.Load() < int64(len(c.workers)) { // no worker is idle while another is measured
					c.run(ctx, i, scaleWait)
				}
				before := countOf(c.workers[i].Look(c.now[i]))
				waits[i] = bed.Waited()
				elapsed[i] = c.run(ctx, i, duration)
				waits[i] = bed.Waited() - waits[i]
				after := countOf(c.workers[i].Look(c.now[i]))
				counts[i] = busyCount{
					sent: after.sent - before.sent, dropped: after.dropped - before.dropped,
					flooded:  after.flooded - before.flooded,
					stations: after.stations,
				}
				ready.Add(1)
				for ready.Load() < 2*int64(len(c.workers)) {
					c.run(ctx, i, scaleWait)
				}
			})
			if errs[i] != nil {
				ready.Add(2)
			}
		})
	}
	all.Wait()
	rate, wait, sum := 0.0, time.Duration(0), busyCount{}
	for i, n := range counts {
		rate += float64(n.sent) / float64(elapsed[i].Nanoseconds())
		sum.sent, sum.dropped, sum.flooded = sum.sent+n.sent, sum.dropped+n.dropped, sum.flooded+n.flooded
		sum.stations = max(sum.stations, n.stations)
		wait += waits[i]
	}
	return 1 / rate, map[string]float64{
		"frames": float64(sum.sent), "dropped": float64(sum.dropped), "flooded": float64(sum.flooded),
		"addresses": float64(sum.stations),
		"waited_ms": wait.Seconds() * 1e3,
	}, errors.Join(append(errs, ctx.Err())...)
}

// run steps a worker at least once, for about duration, and returns how long it ran.
func (c *crew) run(ctx context.Context, worker int, duration time.Duration) time.Duration {
	w, began := c.workers[worker], c.now[worker]
	for start := time.Now(); ; {
		elapsed := time.Since(start)
		c.now[worker] = began + int64(elapsed)
		w.Step(c.now[worker])
		if elapsed >= duration || ctx.Err() != nil {
			return elapsed
		}
	}
}
