package compare

import (
	"fmt"
	"math"
	"slices"
)

// Report is the result of a scenario: every trial and the figures computed from them. A scenario
// calls its methods from one goroutine.
type Report struct {
	Scenario string            `json:"scenario"`
	Shows    string            `json:"shows"`
	Machine  Machine           `json:"machine"`
	Seed     uint64            `json:"seed"`
	Settings Settings          `json:"settings"`
	Partial  bool              `json:"partial"` // it ended before everything was measured
	Absent   map[string]string `json:"absent"`  // peers that were not measured, or not in every round, and why
	Trials   []Trial           `json:"trials"`  // in the order of measurement
	Results  []Result          `json:"results"`
	Ratios   map[string]Ratio  `json:"ratios"` // by name: "vs_testpmd_io_64B"
	Notes    []string          `json:"notes"`
	Tables   []Table           `json:"tables"`
	Plots    []Plot            `json:"plots"`

	Comparisons []comparison `json:"-"` // requested ratios
}

// Settings are the options that influence figures.
type Settings struct {
	Trials   int     `json:"trials"`
	Duration float64 `json:"duration"` // seconds
	Quick    bool    `json:"quick"`
	CPUs     [2]int  `json:"cpus"`
	Sizes    []int   `json:"sizes,omitempty"` // chosen, bytes with FCS
}

// Trial is one measurement.
type Trial struct {
	Name   string  `json:"name"`   // the subject: "sluice", "testpmd_io", "sluice, no PFC"
	Metric string  `json:"metric"` // its quantity: "rate 64 B", "p99 latency at 50 % of NDR, 64 B"
	Unit   string  `json:"unit"`   // "packets/s", "ns", "ns/frame", "frames", ""
	Round  int     `json:"round"`  // from 0; trials of the same round make a pair
	Value  float64 `json:"value"`  // finite
	// a lower bound, because the generator offers no more; bounds enter no ratio
	Bound  bool               `json:"bound,omitempty"`
	Detail map[string]float64 `json:"detail,omitempty"` // context: offered, disturbed, attempts, seconds
}

// Summary describes a set of values.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	CV     float64 `json:"cv"` // standard deviation / mean
}

// Result summarises the trials of one name and metric.
type Result struct {
	Name   string `json:"name"`
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	Summary
	// trials that are lower bounds: the true values, and the median, may be higher
	Bounds int `json:"bounds,omitempty"`
}

// Better is the direction in which a metric improves.
type Better string

// Rates are better higher, times lower; shares should equal their target.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
	Equal  Better = "equal"
)

// Ratio says how many times as good as a peer or a limit a subject is. A ratio above 1 means that
// the subject is better or within the limit, for either direction. For Equal the ratio is at most
// 1, and falls with a deviation to either side.
type Ratio struct {
	Metric  string  `json:"metric"`
	Subject string  `json:"subject"`
	Peer    string  `json:"peer,omitempty"`  // "": a limit
	Limit   float64 `json:"limit,omitempty"` // in the metric's unit
	Better  Better  `json:"better"`
	Summary
	Pairs   []float64 `json:"pairs"`              // one a round
	LeftOut int       `json:"left_out,omitempty"` // rounds without a pair, since a value was a bound
}

// Table is a table for the report that the results alone cannot provide.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"` // each as long as Head
}

// Plot is a figure of the report.
type Plot struct {
	Name   string   `json:"name"` // of the file: "latency" of the scenario veth is veth-latency.svg
	Title  string   `json:"title"`
	X      string   `json:"x"` // label of the axis, with its unit
	Y      string   `json:"y"`
	LogX   bool     `json:"log_x"`
	LogY   bool     `json:"log_y"`
	Series []Series `json:"series"`
}

// Series is one line of a plot.
type Series struct {
	Name   string       `json:"name"` // in the legend; "" for none
	Points [][2]float64 `json:"points"`
}

// Add records a trial. A value that is not finite becomes a note instead.
func (r *Report) Add(t Trial) {
	if !finite(t.Value) {
		r.Note("%s, %s, round %d: no value (%v).", t.Name, t.Metric, t.Round+1, t.Value)
		return
	}
	for name, v := range t.Detail {
		if !finite(v) {
			delete(t.Detail, name)
		}
	}
	r.Trials = append(r.Trials, t)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Compare requests the ratio `name`, for instance "vs_testpmd_io_64B", of a subject to a peer over
// the trials of the same round. It may be called before there are trials, so a partial report has
// the ratio too. Without trials of both there is no ratio.
func (r *Report) Compare(name, metric, subject, peer string, b Better) {
	r.Comparisons = append(r.Comparisons,
		comparison{name, Ratio{Metric: metric, Subject: subject, Peer: peer, Better: b}})
}

// Limit requests the ratio `name`, for instance "vs_limit_33.6ns", of a subject to a limit in the
// metric's unit.
func (r *Report) Limit(name, metric, subject string, limit float64, b Better) {
	r.Comparisons = append(r.Comparisons,
		comparison{name, Ratio{Metric: metric, Subject: subject, Limit: limit, Better: b}})
}

// Missing records that a peer is absent or fails, and why.
func (r *Report) Missing(peer, why string) { r.Absent[peer] = why }

// Note adds a sentence on what the report shows, or does not show.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Plot adds a figure. It leaves out points that are not finite, and figures without points: nothing
// was measured yet.
func (r *Report) Plot(p Plot) {
	points := 0
	for i, s := range p.Series {
		p.Series[i].Points = slices.DeleteFunc(s.Points, func(at [2]float64) bool {
			return !finite(at[0]) ||
				!finite(at[1])
		})
		points += len(p.Series[i].Points)
	}
	if points > 0 {
		r.Plots = append(r.Plots, p)
	}
}

// Table adds a table, if it has rows.
func (r *Report) Table(t Table) {
	if len(t.Rows) > 0 {
		r.Tables = append(r.Tables, t)
	}
}

// Values returns the values of one name and metric, in the order of measurement.
func (r *Report) Values(name, metric string) (values []float64) {
	for _, t := range r.Trials {
		if t.Name == name && t.Metric == metric {
			values = append(values, t.Value)
		}
	}
	return values
}

// bounds returns how many of the values are lower bounds.
func (r *Report) bounds(name, metric string) (n int) {
	for _, t := range r.Trials {
		if t.Name == name && t.Metric == metric && t.Bound {
			n++
		}
	}
	return n
}

// ByRound returns a series with one value per round.
func (r *Report) ByRound(name, metric string) Series {
	s := Series{Name: name + ", " + metric}
	for _, t := range r.Trials {
		if t.Name == name && t.Metric == metric {
			s.Points = append(s.Points, [2]float64{float64(t.Round + 1), t.Value})
		}
	}
	return s
}

// AddMedian adds the median of a name and metric to a series, if there are values.
func (r *Report) AddMedian(s *Series, x float64, name, metric string) {
	if values := r.Values(name, metric); len(values) > 0 {
		s.Points = append(s.Points, [2]float64{x, Summarise(values).Median})
	}
}

// Cell formats the median of one name and metric, divided by unit, for a table; "" without values.
func (r *Report) Cell(name, metric, format string, unit float64) string {
	values := r.Values(name, metric)
	if len(values) == 0 {
		return ""
	}
	return atLeast(r.bounds(name, metric)) + fmt.Sprintf(format, Summarise(values).Median/unit)
}

// atLeast returns the mark for a median with bounds among its values.
func atLeast(bounds int) string {
	if bounds > 0 {
		return "≥ "
	}
	return ""
}

// Most formats the greatest value of one name and metric for a table; "" without values.
func (r *Report) Most(name, metric string) string {
	values := r.Values(name, metric)
	if len(values) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", Summarise(values).Max)
}

// noisy is the CV above which a result is marked.
const noisy = 0.05

// Summarise returns the summary of values, all zeros if there are none. CV uses the sample standard
// deviation (n-1).
func Summarise(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	s := Summary{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
	mean, squares := 0.0, 0.0
	for _, v := range sorted {
		mean += v / float64(n)
	}
	for _, v := range sorted {
		squares += (v - mean) * (v - mean)
	}
	if n > 1 && mean != 0 {
		s.CV = math.Sqrt(squares/float64(n-1)) / math.Abs(mean)
	}
	return s
}

// comparison is a requested ratio.
type comparison struct {
	Name  string
	ratio Ratio
}

// summarise computes results and ratios from the trials.
func (r *Report) summarise() {
	type key struct{ name, metric string }
	seen := map[key]bool{}
	for _, t := range r.Trials {
		if k := (key{t.Name, t.Metric}); !seen[k] {
			seen[k] = true
			r.Results = append(r.Results, Result{t.Name, t.Metric, t.Unit, Summarise(r.Values(t.Name, t.Metric)),
				r.bounds(t.Name, t.Metric)})
		}
	}
	for _, c := range r.Comparisons {
		ratio, undefined := c.ratio, 0
		pairs, leftOut := r.Pairs(ratio)
		ratio.LeftOut = leftOut
		for _, pair := range pairs {
			if good := ratio.Better.times(pair[0], pair[1]); finite(good) {
				ratio.Pairs = append(ratio.Pairs, good)
			} else {
				undefined++
			}
		}
		if undefined > 0 {
			r.Note("%s: %d rounds have no ratio, because it would be a division by 0.", c.Name, undefined)
		}
		if len(ratio.Pairs) > 0 {
			ratio.Summary = Summarise(ratio.Pairs)
			r.Ratios[c.Name] = ratio
		}
	}
}

// Pairs returns a ratio's subject values, each with its peer's value of the same round or with the
// limit, and how many pairs it left out because a value is a bound.
func (r *Report) Pairs(ratio Ratio) (pairs [][2]float64, leftOut int) {
	peers := map[int][]Trial{} // by round
	for _, t := range r.Trials {
		if t.Name == ratio.Peer && t.Metric == ratio.Metric {
			peers[t.Round] = append(peers[t.Round], t)
		}
	}
	for _, t := range r.Trials {
		if t.Name != ratio.Subject || t.Metric != ratio.Metric {
			continue
		}
		peer := Trial{Value: ratio.Limit}
		if ratio.Peer != "" {
			of := peers[t.Round]
			if len(of) == 0 {
				continue
			}
			peer, peers[t.Round] = of[0], of[1:]
		}
		if t.Bound || peer.Bound {
			leftOut++
			continue
		}
		pairs = append(pairs, [2]float64{t.Value, peer.Value})
	}
	return pairs, leftOut
}

// times returns how many times as good as other a value is.
func (b Better) times(value, other float64) float64 {
	switch b {
	case Lower:
		return other / value
	case Equal:
		return min(value/other, other/value)
	}
	return value / other
}
