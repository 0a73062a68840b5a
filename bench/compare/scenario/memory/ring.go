package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/internal/linux/thread"
	"sluice/pmd"
	"sluice/ring"
)

// Ring compares the rings between threads with DPDK's.
var Ring = compare.Scenario{
	Name:   "ring",
	Shows:  "ns and cycles per burst through the ring, on one core and across two",
	Peers:  "DPDK's rte_ring (dpdk-test ring_perf_autotest), a Go channel",
	Page:   "worker-rings",
	Short:  true,
	OneCPU: true,
	Run:    runRing,
}

const (
	ringCapacity = 4096    // as in ring_perf_autotest
	ringBlock    = 1 << 15 // bursts that ring_perf_autotest passes between two cores
	ringLargest  = 256
	ringMost     = time.Second // per figure: there are many
)

var ringBursts = []int{1, 8, 32, 64, ringLargest}

// ringTrial is one figure of this project's ring: the time of a burst.
type ringTrial struct {
	cores, burst, bytes int
	name                string
	measure             func(cpus [2]int, burst int, duration time.Duration) (float64, error) // ns
}

func (t ringTrial) metric() string { return ringMetric(t.cores, t.burst, t.bytes) }

func ringMetric(cores, burst, bytes int) string {
	return fmt.Sprintf("burst of %d, %d B, %s", burst, bytes, []string{1: "one core", 2: "two cores"}[cores])
}

// ringTrials returns all trials of this project's ring: with values of a descriptor's size and of a
// pointer's size.
func ringTrials() (all []ringTrial) {
	for _, burst := range ringBursts {
		all = append(all,
			ringTrial{1, burst, 16, "sluice", ringOneCore[pmd.Desc]},
			ringTrial{1, burst, 8, "sluice", ringOneCore[uint64]},
			ringTrial{2, burst, 16, "sluice", ringTwoCores[pmd.Desc]},
			ringTrial{2, burst, 8, "sluice", ringTwoCores[uint64]})
	}
	return append(all, ringTrial{1, 32, 16, "channel", channelOneCore},
		ringTrial{2, 32, 16, "channel", channelTwoCores})
}

func runRing(ctx context.Context, o compare.Options, r *compare.Report) error {
	if thread.TSCFrequency() == 0 {
		r.Note("There are no cycles, because /proc/cpuinfo shows no constant TSC frequency.")
	}
	ringComparisons(r)
	if !o.HaveTwoCPUs() {
		r.Note("Nothing is measured across two cores: %v.", compare.ErrOneCPU)
	}
	defer addRingPlots(r)
	subjects := []struct {
		name string
		peer bool
		add  func(ctx context.Context, o compare.Options, r *compare.Report, round int) error
	}{{"sluice", false, addRings}, {"rte_ring", true, addRTERing}}
	for round := o.FirstRound(); round < o.Trials; round++ {
		for i := range compare.Turns(round, len(subjects)) {
			s := subjects[i]
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.IsAbsent(s.name) {
				continue
			}
			o.Progress("%s: %s", s.name, compare.OfRounds(round, o.Trials))
			err := s.add(ctx, o, r, round)
			if err != nil && s.peer && r.GoesOnWithout(ctx, s.name, round, err) {
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func ringComparisons(r *compare.Report) {
	for _, cores := range []int{1, 2} { // DPDK measures no single values across two cores
		place := []string{1: "one_core", 2: "two_cores"}[cores]
		for _, bytes := range []int{16, 8} {
			for _, burst := range []int{1, 8, 32} {
				metric := ringMetric(cores, burst, bytes)
				if cores == 1 || burst > 1 {
					r.Compare(fmt.Sprintf("vs_rte_ring_%s_%d_%dB", place, burst, bytes), metric, "sluice", "rte_ring",
						compare.Lower)
				}
				if cores == 1 && burst > 1 {
					r.Compare(fmt.Sprintf("vs_rte_ring_bulk_%s_%d_%dB", place, burst, bytes), metric, "sluice",
						"rte_ring_bulk", compare.Lower)
				}
			}
		}
		r.Compare("vs_channel_"+place, ringMetric(cores, 32, 16), "sluice", "channel", compare.Lower)
	}
}

// addRings measures this project's ring and a channel for one round.
func addRings(ctx context.Context, o compare.Options, r *compare.Report, round int) error {
	frequency := thread.TSCFrequency() // 0: unknown
	for _, t := range ringTrials() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.cores > 1 && !o.HaveTwoCPUs() {
			continue
		}
		began := time.Now()
		ns, err := t.measure(o.CPUs, t.burst, min(o.Duration/20, ringMost))
		if err != nil {
			return err
		}
		if round < 0 {
			continue
		}
		detail := map[string]float64{"ns/value": ns / float64(t.burst), "seconds": time.Since(began).Seconds()}
		if frequency > 0 {
			detail["cycles"] = ns * frequency / 1e9
		}
		r.Add(compare.Trial{Name: t.name, Metric: t.metric(), Unit: "ns", Round: round, Value: ns, Detail: detail})
	}
	return nil
}

// addRTERing runs DPDK's test for one round.
func addRTERing(ctx context.Context, o compare.Options, r *compare.Report, round int) error {
	figures, version, err := bed.MeasureRTERing(ctx, o.CPUs)
	if err != nil || round < 0 {
		return err
	}
	r.Machine.AddVersion(bed.DPDKTestProgram, version)
	frequency := thread.TSCFrequency()
	for of, ns := range figures {
		name := "rte_ring"
		if of.Kind == "bulk" && of.Cores == 1 {
			name = "rte_ring_bulk"
		}
		r.Add(compare.Trial{
			Name: name, Metric: ringMetric(of.Cores, of.Burst, of.Bytes), Unit: "ns", Round: round, Value: ns,
			Detail: map[string]float64{"ns/value": ns / float64(of.Burst), "cycles": ns * frequency / 1e9},
		})
	}
	return nil
}

// addRingPlots plots the medians against the length of a burst.
func addRingPlots(r *compare.Report) {
	for i, place := range []string{"one core", "two cores"} {
		p := compare.Plot{
			Name: strings.ReplaceAll(place, " ", "-"), Title: "Time of a burst, " + place, X: "values in a burst",
			Y: "ns per burst", LogX: true, LogY: true,
		}
		for _, name := range []string{"sluice", "rte_ring", "rte_ring_bulk", "channel"} {
			for _, bytes := range []int{16, 8} {
				s := compare.Series{Name: fmt.Sprintf("%s, %d B", name, bytes)}
				for _, burst := range ringBursts {
					r.AddMedian(&s, float64(burst), name, ringMetric(1+i, burst, bytes))
				}
				p.Series = append(p.Series, s)
			}
		}
		r.Plot(p)
	}
}

// ringOneCore enqueues and dequeues bursts on one core.
func ringOneCore[T any](cpus [2]int, burst int, duration time.Duration) (ns float64, err error) {
	r, err := ring.New[T](ringCapacity)
	if err != nil {
		return 0, err
	}
	values := make([]T, burst)
	err = thread.OnCPU(cpus[0], func() {
		ns = repeat(duration, func() {
			for range 1024 {
				r.Push(values)
				r.Pop(values)
			}
		}) / 1024
	})
	return ns, err
}

// repeat calls f repeatedly and returns the mean time per call, ns.
func repeat(duration time.Duration, f func()) float64 {
	f() // warms up
	calls, elapsed := 0, time.Duration(0)
	for start := time.Now(); elapsed < duration; elapsed = time.Since(start) {
		f()
		calls++
	}
	return float64(elapsed.Nanoseconds()) / float64(calls)
}

// ringTwoCores passes bursts from a thread on one CPU to a thread on another, block by block.
func ringTwoCores[T any](cpus [2]int, burst int, duration time.Duration) (float64, error) {
	r, err := ring.New[T](ringCapacity)
	if err != nil {
		return 0, err
	}
	var (
		times   [2][]time.Duration // by side and block
		errs    [2]error
		arrived atomic.Int64 // at the start of a block, by both sides
		over    atomic.Bool
		sides   = [2]func([]T){func(b []T) { pushAll(r, b) }, func(b []T) { popAll(r, b) }}
		both    sync.WaitGroup
	)
	end := time.Now().Add(duration)
	for side := range sides {
		both.Go(func() {
			values := make([]T, burst)
			errs[side] = thread.OnCPU(cpus[side], func() {
				for block := int64(1); ; block++ {
					arrived.Add(1)
					for arrived.Load() < 2*block && !over.Load() {
					}
					if over.Load() {
						return
					}
					start := time.Now()
					sides[side](values)
					times[side] = append(times[side], time.Since(start))
					if side == 0 && time.Now().After(end) {
						over.Store(true) // before this side arrives, so before the other continues
					}
				}
			})
			if errs[side] != nil {
				over.Store(true)
			}
		})
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return 0, err
	}
	blocks := make([]float64, min(len(times[0]), len(times[1])))
	for i := range blocks {
		blocks[i] = float64((times[0][i] + times[1][i]).Nanoseconds()) / 2 / ringBlock
	}
	return compare.Summarise(blocks).Median, nil
}

// pushAll enqueues a block of bursts, each when the ring has room for all of it.
func pushAll[T any](r *ring.Ring[T], burst []T) {
	for range ringBlock {
		for {
			a, b := r.Reserve(len(burst))
			if len(a)+len(b) == len(burst) {
				copy(b, burst[copy(a, burst):])
				break
			}
			rest()
		}
		r.Submit(len(burst))
	}
}

// popAll dequeues a block of bursts, each when all of it is in the ring.
func popAll[T any](r *ring.Ring[T], burst []T) {
	for range ringBlock {
		for {
			a, b := r.Peek(len(burst))
			if len(a)+len(b) == len(burst) {
				copy(burst[copy(burst, a):], b)
				break
			}
			rest()
		}
		r.Release(len(burst))
	}
}

func channelOneCore(cpus [2]int, burst int, duration time.Duration) (ns float64, err error) {
	c := make(chan pmd.Desc, ringCapacity)
	err = thread.OnCPU(cpus[0], func() {
		ns = repeat(duration, func() {
			for range burst {
				c <- pmd.Desc{}
			}
			for range burst {
				<-c
			}
		})
	})
	return ns, err
}

func channelTwoCores(_ [2]int, burst int, duration time.Duration) (float64, error) {
	c := make(chan pmd.Desc, ringCapacity)
	defer close(c)
	go func() {
		for range c {
		}
	}()
	return repeat(duration, func() {
		for range burst {
			c <- pmd.Desc{}
		}
	}), nil
}

// rest waits for about as long as the processor's pause instruction, which DPDK's test uses while a
// burst has to wait. Without a rest, polling keeps taking the index's cache line from the other
// side.
func rest() {
	for range 32 {
	}
}
