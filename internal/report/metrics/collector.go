package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/state"
)

// Source is the monitored switch.
type Source interface {
	// Total returns its state, with counters from the start, or an error if a worker does not
	// answer.
	Total() (*state.Switch, error)
}

// Reloads returns the result of the last attempt to change the configuration.
type Reloads interface {
	Status() state.Configuration
}

var up = prometheus.NewDesc("sluice_up",
	"1 if all workers have answered this scrape and the control loop runs. If a worker has not answered, ports "+
		"and workers have no metrics.", nil, nil)

const (
	// usualPatience is longer than the time that workers have for an answer, and well below the 10
	// s limit of a Prometheus scrape.
	usualPatience = 3 * time.Second
	// freshness is how long a state is shared by scrapes: however many there are, workers are not
	// asked more often.
	freshness = 100 * time.Millisecond
)

// Collector turns the state of a switch into metrics at each scrape. It is a prometheus.Collector.
type Collector struct {
	source  Source
	reloads Reloads
	log     *slog.Logger

	patience time.Duration // how long a scrape waits for the workers

	turn   chan struct{} // a lock of one element, for asking the switch and for the fields below
	latest *state.Switch // nil: none
	asked  time.Time     // time of latest
}

// NewCollector returns a collector for a switch. log gets the reasons of failed scrapes.
func NewCollector(source Source, reloads Reloads, log *slog.Logger) *Collector {
	return &Collector{source: source, reloads: reloads, log: log, patience: usualPatience, turn: make(chan struct{}, 1)}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	to <- up
	for _, f := range families {
		to <- f.desc
	}
}

// Collect asks the switch once and sends its metrics. It implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	seen, err := c.look()
	if err != nil {
		c.log.Warn("scrape without metrics of ports and workers", "error", err)
		seen = &state.Switch{}
	}
	now := *seen // a copy, since other scrapes may be reading it
	now.Configuration = c.reloads.Status()
	to <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, oneIf(err == nil && now.StalledNS == 0))
	collect(&now, to)
}

var errNoAnswer = errors.New("metrics: the workers do not answer")

// look returns the state of the switch, or an error after patience: a scrape must not hang with a
// worker.
func (c *Collector) look() (*state.Switch, error) {
	over := time.After(c.patience)
	select {
	case c.turn <- struct{}{}:
	case <-over:
		return nil, fmt.Errorf("%w: an earlier scrape is still waiting for them after %v", errNoAnswer, c.patience)
	}
	type answer struct {
		seen *state.Switch
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-c.turn }()
		err := c.ask()
		answers <- answer{c.latest, err}
	}()
	select {
	case a := <-answers:
		return a.seen, a.err
	case <-over:
		return nil, fmt.Errorf("%w within %v", errNoAnswer, c.patience)
	}
}

// ask renews the latest state unless it is fresh. Only the holder of turn may call it.
func (c *Collector) ask() (err error) {
	if c.latest != nil && time.Since(c.asked) < freshness {
		return nil
	}
	c.latest, err = c.source.Total()
	c.asked = time.Now()
	return err
}
