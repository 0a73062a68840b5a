package memory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/dataplane"
	"sluice/internal/dataplane/tap"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// BenchmarkPipelineCaptured is BenchmarkPipeline with a capture, in real time, because a capture
// has a budget of real time. The metric captured is the share of the frames, counted at both ports,
// that was kept. If the capture is drained, its records are discarded.
func BenchmarkPipelineCaptured(b *testing.B) {
	both := tap.RX | tap.TX
	everything := tap.Params{Ports: []tap.Direction{both, both}, Classes: 0xff}
	drops, headers := everything, everything
	drops.DropsOnly = true
	headers.SnapLength = 64
	for _, length := range []int{60, 1514} {
		for _, c := range []struct {
			name    string
			tap     *tap.Params
			drained bool
		}{
			{"nothing", nil, false}, {"drops", &drops, true}, {"headers", &headers, true},
			{"everything", &everything, true}, {"undrained", &everything, false},
		} {
			b.Run(fmt.Sprintf("%dB/%s", length+4, c.name), func(b *testing.B) {
				benchmarkCaptured(b, length, c.tap, c.drained)
			})
		}
	}
}

func benchmarkCaptured(b *testing.B, length int, tap *tap.Params, drained bool) {
	memory, err := umem.Map(loopgap.Buffers, 2048)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	plan := dataplane.Plan{}
	l := loopgap.Load{Ports: 2, Lengths: []int{length}, Wrap: func(_ int, d *mem.Null) pmd.Port {
		plan.Links = append(plan.Links, dataplane.Link{Driver: d, Up: true, TXRing: loopgap.Ring})
		return d
	}}
	s, now, err := l.Start(memory, busyStep)
	if err != nil {
		b.Fatal(err)
	}
	if tap != nil {
		if plan.Taps, err = s.NewTaps(*tap); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = plan.Taps[0].Close() }() // the worker no longer runs
		next := plan
		next.Links = slices.Clone(plan.Links)
		s.Publish(&next)
	}
	w, kept, start := s.Workers[0], 0, time.Now()
	step := func() {
		w.Step(now + int64(time.Since(start)))
		if drained && tap != nil {
			for ; plan.Taps[0].Peek() != nil; kept++ {
				plan.Taps[0].Release()
			}
		}
	}
	for range busyWarmUp {
		step()
	}
	x := &busy{worker: w, now: now}
	before := x.count().sent
	kept = 0
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(x.count().sent-before), "ns/frame")
	b.ReportMetric(float64(kept)/float64(2*(x.count().sent-before)), "captured")
}
