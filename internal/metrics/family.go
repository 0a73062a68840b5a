package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"sluice/internal/dataplane"
)

// family is one metric: what is counted or measured, of everyone who has it.
type family struct {
	name, help string
	kind       dto.MetricType
	labels     []string // in the order of the alphabet, maxLabels at the most
}

const maxLabels = 3

// counter declares something that only grows, until the switch or a driver starts anew.
func counter(name, help string, labels ...string) *family {
	return &family{name, help, dto.MetricType_COUNTER, labels}
}

// gauge declares something that rises and falls.
func gauge(name, help string, labels ...string) *family {
	return &family{name, help, dto.MetricType_GAUGE, labels}
}

// sample is one series with its value, and all that a dto.Metric refers to.
type sample struct {
	dto.Metric
	counter dto.Counter
	gauge   dto.Gauge
	value   float64
	pairs   [maxLabels]*dto.LabelPair
}

// sink takes the values of one scrape. It makes what a prometheus.Registry makes of a prometheus.Collector, which takes half of
// the time of a scrape to hand over, sort and check series that are the same ones over and over. A test has them checked.
type sink struct {
	families map[*family]*dto.MetricFamily
	pairs    map[pair]*dto.LabelPair // that have been used
}

type pair struct{ name, value string }

func newSink() sink {
	return sink{make(map[*family]*dto.MetricFamily), make(map[pair]*dto.LabelPair)}
}

// all returns what was added, by name.
func (s sink) all() []*dto.MetricFamily {
	byName := func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) }
	return slices.SortedFunc(maps.Values(s.families), byName)
}

// add adds the value of one series; labels are in the order of the family's.
func (s sink) add(f *family, value float64, labels ...string) {
	m := s.series(f, labels...)
	m.value = value
	if f.kind == dto.MetricType_COUNTER {
		m.counter.Value, m.Counter = &m.value, &m.counter
	} else {
		m.gauge.Value, m.Gauge = &m.value, &m.gauge
	}
}

// series adds a series that has no value yet.
func (s sink) series(f *family, labels ...string) *sample {
	m := new(sample)
	for i, name := range f.labels {
		m.pairs[i] = s.pair(pair{name, labels[i]})
	}
	m.Label = m.pairs[:len(f.labels)]
	all := s.families[f]
	if all == nil {
		all = &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind}
		s.families[f] = all
	}
	all.Metric = append(all.Metric, &m.Metric)
	return m
}

// pair returns the pair that all series of the scrape share.
func (s sink) pair(of pair) *dto.LabelPair {
	p := s.pairs[of]
	if p == nil {
		p = &dto.LabelPair{Name: new(of.name), Value: new(of.value)}
		s.pairs[of] = p
	}
	return p
}

// rare adds a count that is 0 almost everywhere, where it is not.
func (s sink) rare(f *family, count uint64, labels ...string) {
	if count > 0 {
		s.add(f, float64(count), labels...)
	}
}

// flag adds 1 or 0.
func (s sink) flag(f *family, on bool, labels ...string) {
	value := 0.
	if on {
		value = 1
	}
	s.add(f, value, labels...)
}

// The values of direction: of frames, and of a pause, who asks for it: the peer (received) or the switch (sent).
const (
	received = "received"
	sent     = "sent"
)

// priorities are the values of that label.
var priorities = func() (names [dataplane.Priorities]string) {
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}()

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
