package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/console"
	"sluice/internal/control"
	"sluice/internal/dataplane"
)

// Source is the switch that is watched.
type Source interface {
	// State returns what the workers have counted, or an error if one of them does not answer.
	State() (*control.State, error)
}

// Reloads knows what came of the last attempt to change the configuration.
type Reloads interface {
	Status() console.Configuration
}

var (
	switchUp = gauge("sluice_up",
		"1 if all workers have answered this scrape; if 0, nothing is known of ports and workers, and they have no metrics.")
	buildInfo = gauge("sluice_build_info",
		"1, with the version of the program and of the Go that built it.", "goversion", "version")
	reloadSuccessful = gauge("sluice_config_last_reload_successful",
		"1 if the configuration file was last taken as it is, 0 if the switch has kept the one before.")
	reloadTime = gauge("sluice_config_last_reload_success_timestamp_seconds",
		"When the configuration was last taken from its file.")
)

const (
	// usualPatience is longer than workers have for an answer, and well below the 10 s that Prometheus waits for a scrape.
	usualPatience = 3 * time.Second
	// freshness is how long an answer is given to others who ask: however many scrape, workers are not asked more often.
	freshness = 100 * time.Millisecond
)

// Collector turns the state of a switch into metrics, whenever it is asked to.
type Collector struct {
	source  Source
	reloads Reloads
	version string
	log     *slog.Logger

	patience time.Duration // how long a scrape waits for the workers

	turn   chan struct{}  // who has put something in may ask the switch, and use the fields below
	latest *control.State // nil: none
	asked  time.Time      // when latest was
	sent   map[string]*sentCounts
}

// sentCounts are the highest counts of what a port has sent.
type sentCounts struct {
	received uint64 // frames at that time, which only grow
	frames   [dataplane.Priorities]uint64
	bytes    uint64
}

// NewCollector returns a collector of the metrics of a switch. version is that of the program. What the log gets is why a
// scrape has failed.
func NewCollector(source Source, reloads Reloads, version string, log *slog.Logger) *Collector {
	return &Collector{
		source: source, reloads: reloads, version: version, log: log, patience: usualPatience,
		turn: make(chan struct{}, 1), sent: make(map[string]*sentCounts),
	}
}

// Describe describes nothing, which leaves the collector unchecked: which series there are is up to the ports.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect asks the switch once and sends what it says.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	s := newSink(metrics)
	state, err := c.look()
	if err != nil {
		c.log.Warn("metrics are missing from a scrape", "error", err)
	}
	s.flag(switchUp, err == nil)
	s.add(buildInfo, 1, runtime.Version(), c.version)
	reload := c.reloads.Status()
	s.flag(reloadSuccessful, reload.Error == "")
	s.add(reloadTime, float64(reload.LoadedAt.UnixNano())/1e9)
	if err == nil {
		s.state(state)
	}
}

// state adds what is known of the ports and workers.
func (s sink) state(state *control.State) {
	responses := make(map[string]time.Duration)
	for i := range state.Ports {
		p := &state.Config.Ports[i]
		responses[p.Device] = p.Response
		s.port(&state.Ports[i], p, state.Config)
	}
	for i := range state.Workers {
		w := &state.Workers[i]
		shortest := time.Duration(math.MaxInt64)
		for j := range w.Ports {
			if response, there := responses[w.Ports[j].Name]; there && !w.Ports[j].Vacant {
				shortest = min(shortest, response)
			}
		}
		s.worker(w, shortest)
	}
}

var errNoAnswer = errors.New("metrics: the workers do not answer")

// look returns the state of the switch, or an error after patience: a scrape must not hang with a worker.
func (c *Collector) look() (*control.State, error) {
	over := time.After(c.patience)
	select {
	case c.turn <- struct{}{}:
	case <-over:
		return nil, fmt.Errorf("%w: they still have not to somebody else after %v", errNoAnswer, c.patience)
	}
	type answer struct {
		state *control.State
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-c.turn }()
		err := c.ask()
		answers <- answer{c.latest, err}
	}()
	select {
	case a := <-answers:
		return a.state, a.err
	case <-over:
		return nil, fmt.Errorf("%w within %v", errNoAnswer, c.patience)
	}
}

// ask renews the latest state, unless that is fresh. Only who has the turn may call it.
func (c *Collector) ask() error {
	if c.latest != nil && time.Since(c.asked) < freshness {
		return nil
	}
	state, err := c.source.State()
	c.latest, c.asked = state, time.Now()
	if err != nil {
		c.latest = nil
		return err
	}
	for i := range state.Ports {
		c.keepSent(&state.Ports[i])
	}
	return nil
}

// keepSent sees to it that what was sent never shrinks: of frames that turn out not to have left, since their device went
// away, the count is taken back, and Prometheus would take the switch for restarted. A port that was taken out and put in
// again counts from 0, also what it has received.
func (c *Collector) keepSent(p *control.PortState) {
	most := c.sent[p.PortInfo.Name]
	if most == nil || p.RXFrames < most.received {
		most = new(sentCounts)
		c.sent[p.PortInfo.Name] = most
	}
	most.received = p.RXFrames
	for i := range p.TX {
		most.frames[i] = max(most.frames[i], p.TX[i])
	}
	most.bytes = max(most.bytes, p.TXBytes)
	p.TX, p.TXBytes = most.frames, most.bytes
}
