package memory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/dataplane"
	"sluice/internal/loopgap"
	"sluice/internal/punt"
	"sluice/internal/umem"
)

// BenchmarkPipelineSubscribed is BenchmarkPipeline for two switches: the control plane of one
// subscribes to LLDP at each port, that of the other does not. They take turns of 200 iterations.
// The metric subscribed/none is the median ratio of their times.
func BenchmarkPipelineSubscribed(b *testing.B) {
	for _, length := range []int{60, 1514} {
		b.Run(fmt.Sprintf("%dB", length+4), func(b *testing.B) { benchmarkSubscribed(b, length) })
	}
}

func benchmarkSubscribed(b *testing.B, length int) {
	const turn = 200 // iterations
	subscribe := func(p *dataplane.Params) {
		for i := range p.Ports {
			p.Ports[i].Punt = []punt.Subscription{punt.SubscribeLLDP(punt.Limit{Rate: 100, Burst: 20})}
		}
	}
	var subjects [2]*busy
	for i, tune := range []func(*dataplane.Params){nil, subscribe} {
		memory, err := umem.Map(loopgap.Buffers, 2048)
		if err != nil {
			b.Fatal(err)
		}
		defer memory.Close()
		s, now, err := loopgap.Load{Ports: 2, Lengths: []int{length}, Tune: tune}.Start(memory, busyStep)
		if err != nil {
			b.Fatal(err)
		}
		subjects[i] = &busy{worker: s.Workers[0], now: now}
		for range busyWarmUp {
			subjects[i].step()
		}
	}
	before := subjects[0].count().sent + subjects[1].count().sent
	var ratios []float64
	for n := 0; b.Loop(); n++ {
		var ns [2]int64
		for i := range subjects {
			at := (i + n) % 2 // each is the first one half of the time
			start := time.Now()
			for range turn {
				subjects[at].step()
			}
			ns[at] = int64(time.Since(start))
		}
		ratios = append(ratios, float64(ns[1])/float64(ns[0]))
	}
	slices.Sort(ratios)
	sent := subjects[0].count().sent + subjects[1].count().sent - before
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sent), "ns/frame")
	b.ReportMetric(ratios[len(ratios)/2], "subscribed/none")
}
