package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/dataplane"
)

// family is one metric: what is counted or measured, of everyone who has it.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// counter declares something that only grows, until the switch or a driver starts anew.
func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// gauge declares something that rises and falls.
func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

// sink takes the values of one scrape.
type sink chan<- prometheus.Metric

// add adds the value of one series; labels are in the order of the family's.
func (s sink) add(f family, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// flag adds 1 or 0.
func (s sink) flag(f family, on bool, labels ...string) {
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
