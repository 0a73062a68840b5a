package memory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"sluice/internal/dataplane"
	"sluice/internal/dataplane/punt"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// BenchmarkPipelineSubscribed compares BenchmarkPipeline with LLDP on and off. One operation is a
// pair of slices of about 25 ms, in random order, of one switch, which gets a new generation before
// each: with subscriptions to LLDP and an LLDPDU to send at each port, or without both. So the two
// differ in nothing else, not even in where their memory lies. The metric on/off is the median
// ratio of their times, with the spread that reportRatios describes.
func BenchmarkPipelineSubscribed(b *testing.B) {
	for _, length := range []int{60, 1514} {
		b.Run(fmt.Sprintf("%dB", length+4), func(b *testing.B) { benchmarkSubscribed(b, length) })
	}
}

func benchmarkSubscribed(b *testing.B, length int) {
	memory, err := umem.Map(loopgap.Buffers, 2048)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	x := startSwitchable(b, memory, loopgap.Load{Lengths: []int{length}})
	x.turn, x.inject = func(p *dataplane.Params) {
		for i := range p.Ports {
			p.Ports[i].Punt = []punt.Subscription{punt.SubscribeLLDP(punt.Limit{Rate: 100, Burst: 50})}
		}
	}, true
	if ratios := x.compare(); x.injected() != 2*ratios {
		b.Errorf("%d LLDPDUs sent in %d slices", x.injected(), ratios)
	}
}

// compare reports the metric on/off, and how many pairs of slices it is from.
func (x *switchable) compare() int {
	b := x.b
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // garbage is collected between slices
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ratios []float64
	before := x.count()
	for b.Loop() {
		runtime.GC()
		var took [2]float64
		first := rand.IntN(2)
		for _, on := range []int{first, 1 - first} {
			took[on] = x.slice(on == 1)
		}
		ratios = append(ratios, took[1]/took[0])
	}
	after := x.count()
	if after.dropped > before.dropped {
		b.Errorf("%d frames dropped in %d slices", after.dropped-before.dropped, len(ratios))
	}
	reportRatios(b, "on/off", ratios)
	b.ReportMetric(slices.Min(x.costs), "ns/frame")
	return len(ratios)
}

// switchable is a switch with two ports and something that can be turned on and off.
type switchable struct {
	busy
	b      *testing.B
	s      *dataplane.Switch
	params dataplane.Params
	links  []dataplane.Link
	turn   func(*dataplane.Params) // on
	inject bool                    // a frame at each port while it is on
	costs  []float64               // ns per frame, by slice
}

func startSwitchable(b *testing.B, memory *umem.Memory, l loopgap.Load) *switchable {
	x := &switchable{b: b}
	l.Ports, l.Tune = 2, func(p *dataplane.Params) { x.params = *p }
	l.Wrap = func(_ int, d *mem.Null) pmd.Port {
		x.links = append(x.links, dataplane.Link{Driver: d, Up: true, TXRing: loopgap.Ring})
		return d
	}
	var err error
	x.s, x.now, err = l.Start(memory, busyStep)
	if err != nil {
		b.Fatal(err)
	}
	x.worker = x.s.Workers[0]
	return x
}

// slice returns the time of a slice, in ns.
func (x *switchable) slice(on bool) float64 {
	const warmUp, iterations = 256, 8192
	p := x.params
	p.Ports = slices.Clone(p.Ports)
	if on {
		x.turn(&p)
	}
	g, err := x.s.Prepare(p)
	if err != nil {
		x.b.Fatal(err)
	}
	x.s.Publish(&dataplane.Plan{Generation: g, Links: slices.Clone(x.links)})
	for range warmUp {
		x.step()
	}
	before := x.count()
	for i := range p.Ports {
		if on && x.inject && !x.s.Inject(x.s.PortID(i), make([]byte, 300)) {
			x.b.Fatal("a frame was refused")
		}
	}
	start := time.Now()
	for range iterations {
		x.step()
	}
	took := float64(time.Since(start))
	after := x.count()
	if after.flooded > before.flooded {
		x.b.Errorf("%d frames flooded in a slice", after.flooded-before.flooded)
	}
	x.costs = append(x.costs, took/float64(after.sent-before.sent))
	return took
}

func (x *switchable) injected() (n int) {
	for _, p := range x.worker.Look(x.now).Ports {
		n += int(p.Injected)
	}
	return n
}

// reportRatios reports the median of ratios, the range of the middle half of them (iqr-%), and half
// the width of the median's 95 % confidence interval by ranks (±%), NaN if there are too few.
func reportRatios(b *testing.B, name string, ratios []float64) {
	slices.Sort(ratios)
	n := float64(len(ratios))
	half := math.NaN()
	if low, high := int(n/2-.98*math.Sqrt(n)), int(n/2+.98*math.Sqrt(n)); n >= 6 && high < len(ratios) {
		half = (ratios[high] - ratios[low]) / 2
	}
	b.ReportMetric(ratios[len(ratios)/2], name)
	b.ReportMetric((ratios[len(ratios)*3/4]-ratios[len(ratios)/4])*100, "iqr-%")
	b.ReportMetric(half*100, "±%")
}
