package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/bench/compare"
	"sluice/internal/frame"
	"sluice/internal/linux/thread"
	"sluice/internal/text/prose"
	"sluice/sched"
)

// Schedule is the cost of the ETS scheduler.
var Schedule = compare.Scenario{
	Name: "sched",
	Shows: "ns per frame into and out of the scheduler, by queues, groups and ports: should be " +
		"flat",
	Page:   "scheduling-and-buffers",
	Short:  true,
	OneCPU: true,
	Run:    runSched,
}

// schedSize is the size of a scheduler load: queues with frames and their priority groups on each
// port, and ports that take turns.
type schedSize struct{ queues, groups, ports int }

func (s schedSize) String() string {
	return fmt.Sprintf("%s in %s, %s", prose.Count(s.queues, "queue"), prose.Count(s.groups, "group"),
		prose.Count(s.ports, "port"))
}

var schedSizes = []schedSize{
	{1, 1, 1}, {2, 1, 1}, {8, 1, 1}, {8, 2, 1}, {8, 8, 1}, {8, 2, 8}, {1, 1, 64}, {8, 2, 64}, {8, 8, 64},
}

const schedMetric = "cost per frame, in and out"

func runSched(ctx context.Context, o compare.Options, r *compare.Report) error {
	var subjects []compare.Subject
	for _, size := range schedSizes {
		b, err := newSchedLoad(size, o.Seed)
		if err != nil {
			return err
		}
		measure := func(ctx context.Context) (ns float64, detail map[string]float64, err error) {
			err = thread.OnCPU(o.CPUs[0], func() { ns, detail = b.Measure(ctx, o.Duration/4) })
			return ns, detail, errors.Join(err, ctx.Err())
		}
		subjects = append(subjects, compare.Subject{Name: size.String(), Metric: schedMetric, Unit: "ns/frame",
			Measure: measure})
	}
	smallest := schedSizes[0].String()
	for _, against := range []struct {
		name string
		schedSize
	}{
		{"8_queues_vs_1", schedSize{8, 1, 1}}, {"8_groups_vs_1", schedSize{8, 8, 1}},
		{"64_ports_vs_1", schedSize{1, 1, 64}},
		{"all_vs_1", schedSize{8, 8, 64}},
	} {
		r.Compare(against.name, schedMetric, against.schedSize.String(), smallest, compare.Lower)
	}
	defer func() { r.Plot(schedPlot(r)) }()
	return r.Interleave(ctx, o, subjects)
}

// schedPlot plots the medians against the number of queues of all ports.
func schedPlot(r *compare.Report) compare.Plot {
	p := compare.Plot{Name: "queues", Title: "Cost of a frame, in and out of the scheduler", X: "queues of all ports",
		Y: "ns per frame", LogX: true}
	for _, groups := range []int{1, 2, 8} {
		s := compare.Series{Name: fmt.Sprintf("groups per port: %d", groups)}
		for _, size := range schedSizes {
			if size.groups == groups {
				r.AddMedian(&s, float64(size.queues*size.ports), size.String(), schedMetric)
			}
		}
		p.Series = append(p.Series, s)
	}
	return p
}

const (
	schedFrames = 4096
	schedBurst  = 32
)

// schedLoad is a set of schedulers that share an arena and are never empty.
type schedLoad struct {
	ports []*sched.Scheduler
	arena *sched.Arena
	home  []uint8 // by buffer: the queue to which it always returns
	now   int64
	turn  int
}

func newSchedLoad(size schedSize, seed uint64) (*schedLoad, error) {
	b := &schedLoad{arena: sched.NewArena(schedFrames), home: make([]uint8, schedFrames)}
	p := sched.Params{Rate: 400e9, Burst: 1 << 20, Overhead: frame.WireOverhead, MaxFrame: 1514}
	for i := range size.groups {
		p.Groups = append(p.Groups, sched.GroupParams{TSA: sched.ETS, Weight: 1 + i})
	}
	for i := range p.Queues {
		p.Queues[i] = sched.QueueParams{Group: i % size.groups, TSA: sched.ETS, Weight: 1 + i}
	}
	ids := rand.New(rand.NewPCG(seed, 0)).Perm(schedFrames)
	each := schedFrames / size.ports / size.queues * size.queues
	for n := range size.ports {
		s, err := sched.New(p, b.arena)
		if err != nil {
			return nil, err
		}
		b.ports = append(b.ports, s)
		for i, id := range ids[n*each : (n+1)*each] {
			b.home[id] = uint8(i % size.queues)
			s.Enqueue(int(b.home[id]), uint32(id), 60+id%1455)
		}
	}
	return b, nil
}

// Measure dequeues frames and enqueues them again for duration, or until ctx is done, and returns
// ns per frame.
func (b *schedLoad) Measure(ctx context.Context, duration time.Duration) (ns float64, detail map[string]float64) {
	out := make([]uint32, schedBurst)
	frames, elapsed := 0, time.Duration(0)
	for start := time.Now(); elapsed < duration && ctx.Err() == nil; elapsed = time.Since(start) {
		for range 256 {
			b.now += 1e6 // long enough that no shaper limits
			if b.turn++; b.turn == len(b.ports) {
				b.turn = 0
			}
			s := b.ports[b.turn]
			n := s.Dequeue(b.now, 0, 1<<30, out)
			for _, id := range out[:n] {
				s.Enqueue(int(b.home[id]), id, b.arena.Length(id))
			}
			frames += n
		}
	}
	return float64(elapsed.Nanoseconds()) / float64(frames), map[string]float64{
		"frames": float64(frames), "seconds": elapsed.Seconds(),
	}
}
