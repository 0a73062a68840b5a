package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"sluice/internal/dataplane"
)

// family is one metric: what is counted or measured, of everyone who has it.
type family struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string // in the order of the alphabet
}

// counter declares something that only grows, until the switch or a driver starts anew.
func counter(name, help string, labels ...string) *family {
	return &family{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, labels}
}

// gauge declares something that rises and falls.
func gauge(name, help string, labels ...string) *family {
	return &family{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, labels}
}

// sample is the value of one series. It is what prometheus.NewConstMetric makes, which takes half of the time of a scrape to
// check, copy and sort labels that are the same ones over and over.
type sample struct {
	*family
	labels []*dto.LabelPair
	value  float64
}

// Desc and Write make it a prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

func (s *sample) Write(m *dto.Metric) error {
	m.Label = s.labels
	if s.kind == prometheus.CounterValue {
		m.Counter = &dto.Counter{Value: &s.value}
	} else {
		m.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// sink takes the values of one scrape.
type sink struct {
	metrics chan<- prometheus.Metric
	pairs   map[pair]*dto.LabelPair // that have been used
}

type pair struct{ name, value string }

func newSink(metrics chan<- prometheus.Metric) sink {
	return sink{metrics, make(map[pair]*dto.LabelPair)}
}

// add adds the value of one series; labels are in the order of the family's.
func (s sink) add(f *family, value float64, labels ...string) {
	pairs := make([]*dto.LabelPair, len(f.labels))
	for i, name := range f.labels {
		pairs[i] = s.pair(pair{name, labels[i]})
	}
	s.metrics <- &sample{f, pairs, value}
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
