package bench

import (
	"fmt"
	"slices"
	"testing"

	"sluice/cells"
	"sluice/internal/dataplane"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// BenchmarkPipelineCaptured is BenchmarkPipeline with a capture: what it adds to an iteration, an operation here, is bounded by the
// bytes that an iteration may copy. Nobody reads what is captured but to make room for more.
func BenchmarkPipelineCaptured(b *testing.B) {
	both := dataplane.RX | dataplane.TX
	everything := dataplane.TapParams{Ports: []dataplane.Direction{both, both}, Classes: 0xff}
	drops, headers := everything, everything
	drops.DropsOnly = true
	headers.SnapLength = 64
	for _, length := range []int{60, 1514} {
		for _, c := range []struct {
			name    string
			tap     *dataplane.TapParams
			drained bool
		}{
			{"nothing", nil, false}, {"drops", &drops, true}, {"headers", &headers, true}, {"everything", &everything, true}, {"undrained", &everything, false},
		} {
			b.Run(fmt.Sprintf("%dB/%s", length+4, c.name), func(b *testing.B) {
				benchmarkCaptured(b, length, c.tap, c.drained)
			})
		}
	}
}

func benchmarkCaptured(b *testing.B, length int, tap *dataplane.TapParams, drained bool) {
	memory, err := cells.Map(busyBuffers, 2048)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	plan := dataplane.Plan{}
	l := busyLoad{ports: 2, lengths: []int{length}, wrap: func(_ int, d *mem.Null) pmd.Port {
		plan.Links = append(plan.Links, dataplane.Link{Driver: d, Up: true, TXRing: busyRing})
		return d
	}}
	s, now, err := l.start(memory, busyStep)
	if err != nil {
		b.Fatal(err)
	}
	if tap != nil {
		if plan.Taps, err = s.NewTaps(*tap); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = plan.Taps[0].Close() }() // the worker is not stepped any more
		next := plan
		next.Links = slices.Clone(plan.Links)
		s.Publish(&next)
	}
	x := &busy{worker: s.Workers[0], now: now}
	for range busyWarmUp {
		x.step()
	}
	before := x.count().sent
	for b.Loop() {
		x.step()
		if drained && tap != nil {
			for plan.Taps[0].Peek() != nil {
				plan.Taps[0].Release()
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(x.count().sent-before), "ns/frame")
}
