package compare

import (
	"maps"
	"math"

	"sluice/bench/traffic/line"
)

// AddTimes adds one trial for each quantile, p50 to p99.99 and max, that has at least one time
// beyond it. The metric "gap between two iterations" becomes "p99 gap between two iterations". Each
// trial's detail is the given one plus the number of times.
func (r *Report) AddTimes(name, metric string, round int, t *line.Histogram, detail map[string]float64) {
	r.AddQuantiles(Trial{Name: name, Metric: metric, Unit: "ns", Round: round, Detail: detail}, t)
}

// AddQuantiles is AddTimes for values of any unit.
func (r *Report) AddQuantiles(of Trial, t *line.Histogram) {
	count := float64(t.Count())
	for _, q := range Quantiles {
		if !HasBeyond(count, q.Share) {
			continue
		}
		one := of
		one.Metric, one.Value = q.Name+" "+of.Metric, t.Quantile(q.Share)
		one.Detail = map[string]float64{"count": count}
		maps.Copy(one.Detail, of.Detail)
		r.Add(one)
	}
}

// HasBeyond reports whether at least one of count values lies beyond the quantile q, or there is
// any value if q is the maximum.
func HasBeyond(count, q float64) bool {
	return count > 0 && (q >= 1 || count*(1-q) >= 1-1e-9)
}

// Points returns a distribution for a log-log plot: x is 1/(1-q), so 10 at p90 and 100 at p99, up
// to the number of times; y is the time in ns, at least 1.
func Points(t *line.Histogram) (points [][2]float64) {
	const perDecade = 8
	count := float64(t.Count())
	for i := 0; ; i++ {
		x := math.Pow(10, float64(i)/perDecade)
		if count == 0 || x > count*(1+1e-9) {
			return points
		}
		points = append(points, [2]float64{x, max(t.Quantile(1-1/x), 1)})
	}
}

// TimesPlot returns an empty plot for series from Points.
func TimesPlot(name, title string) Plot {
	return Plot{Name: name, Title: title, X: "one in this many is longer (100: p99)", Y: "time (ns)", LogX: true,
		LogY: true}
}

// Quantile is a share of all latencies and its name.
type Quantile struct {
	Name  string
	Share float64
}

// Quantiles are the quantiles in reports.
var Quantiles = []Quantile{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}}
