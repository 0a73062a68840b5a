package bench

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a histogram of times in ns. It keeps three significant digits of each (HDR histogram, G. Tene).
//
// Latency of frames counts from the time at which a frame was due, not from the time at which the generator came to send
// it: or else those that a stall held back would count as fast (coordinated omission). Where that is paused by design,
// under PFC, a second histogram from the wire says what the switch itself did.
type Latency struct {
	histogram *hdrhistogram.Histogram
}

// longest is the longest time kept; longer ones count as it.
const longest = 1e11 // ns

// NewLatency returns an empty histogram.
func NewLatency() *Latency { return &Latency{hdrhistogram.New(1, longest, 3)} }

// Record adds count times of ns each. Times below 0 count as 0.
func (l *Latency) Record(ns, count int64) {
	// The only error is that of a value out of range, and there is none.
	_ = l.histogram.RecordValues(min(max(ns, 0), longest), count)
}

// Merge adds the times of another histogram.
func (l *Latency) Merge(other *Latency) { l.histogram.Merge(other.histogram) }

// Count returns how many times were recorded.
func (l *Latency) Count() int64 { return l.histogram.TotalCount() }

// At returns the time, in ns, that the share q of all, from 0 to 1, do not exceed.
func (l *Latency) At(q float64) float64 {
	if q >= 1 {
		return float64(l.histogram.Max())
	}
	return float64(l.histogram.ValueAtQuantile(100 * q))
}

// quantiles are those of a report.
var quantiles = []struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}}

// AddLatency adds one trial for each quantile, p50 to p99.99 and max, of which there is at least one time beyond it. The
// metric "latency at 50 % of NDR, 64 B" becomes "p99 latency at 50 % of NDR, 64 B". Detail says how many times there
// were, beside what it is given.
func (r *Report) AddLatency(name, metric string, round int, l *Latency, detail map[string]float64) {
	count := float64(l.Count())
	for _, q := range quantiles {
		if !hasBeyond(count, q.q) {
			continue
		}
		of := map[string]float64{"count": count}
		for k, v := range detail {
			of[k] = v
		}
		r.Add(Trial{Name: name, Metric: q.name + " " + metric, Unit: "ns", Round: round, Value: l.At(q.q), Detail: of})
	}
}

// hasBeyond tells whether at least one of so many values lies beyond the quantile q, or is it if that is the highest.
func hasBeyond(count, q float64) bool {
	return count > 0 && (q >= 1 || count*(1-q) >= 1-1e-9)
}

// Points returns the distribution for a plot whose axes are both logarithmic: x is 1/(1-q), which is 10 at p90, 100 at
// p99, up to the number of times; y is the time in ns, at least 1.
func (l *Latency) Points() (points [][2]float64) {
	const perDecade = 8
	count := float64(l.Count())
	for i := 0; ; i++ {
		x := math.Pow(10, float64(i)/perDecade)
		if count == 0 || x > count*(1+1e-9) {
			return points
		}
		points = append(points, [2]float64{x, max(l.At(1-1/x), 1)})
	}
}

// LatencyPlot returns a plot to which series of Points belong.
func LatencyPlot(name, title string) Plot {
	return Plot{Name: name, Title: title, X: "one of so many is slower (100: p99)", Y: "latency (ns)", LogX: true, LogY: true}
}
