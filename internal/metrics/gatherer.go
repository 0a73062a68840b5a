package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	dto "github.com/prometheus/client_model/go"

	"sluice/internal/control"
	"sluice/internal/dataplane"
	"sluice/internal/state"
)

// Source is the switch that is watched.
type Source interface {
	// State returns what the workers have counted, or an error if one of them does not answer.
	State() (*control.State, error)
}

// Reloads knows what came of the last attempt to change the configuration.
type Reloads interface {
	Status() state.Configuration
}

var (
	switchUp = gauge("sluice_up",
		"1 if all workers have answered this scrape and the control loop runs. If a worker has not, ports and workers have no metrics.")
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

// Gatherer turns the state of a switch into metrics, whenever it is asked to.
type Gatherer struct {
	source  Source
	reloads Reloads
	version string
	log     *slog.Logger

	patience time.Duration // how long a scrape waits for the workers

	turn   chan struct{}       // who has put something in may ask the switch, and use the fields below
	latest *observation        // nil: none
	asked  time.Time           // when latest was
	late   map[int]*lateCounts // by worker
}

// observation is what is known of a switch at one time.
type observation struct {
	*control.State
	late map[int]uint64 // late iterations by worker
}

// lateCounts are the late iterations of a worker: those that it was late for by the configuration of their time.
type lateCounts struct {
	seen  dataplane.GapHistogram // when they were counted
	total uint64
}

// NewGatherer returns a gatherer of the metrics of a switch. version is that of the program. What the log gets is why a
// scrape has failed.
func NewGatherer(source Source, reloads Reloads, version string, log *slog.Logger) *Gatherer {
	return &Gatherer{
		source: source, reloads: reloads, version: version, log: log, patience: usualPatience,
		turn: make(chan struct{}, 1), late: make(map[int]*lateCounts),
	}
}

// Gather asks the switch once and returns what it says. It implements prometheus.Gatherer, and never fails.
func (g *Gatherer) Gather() ([]*dto.MetricFamily, error) {
	s := newSink()
	seen, err := g.look()
	if err != nil {
		g.log.Warn("metrics are missing from a scrape", "error", err)
	}
	s.flag(switchUp, err == nil && seen.Stalled == 0)
	s.add(buildInfo, 1, runtime.Version(), g.version)
	reload := g.reloads.Status()
	s.flag(reloadSuccessful, reload.Error == "")
	s.add(reloadTime, float64(reload.LoadedAt.UnixNano())/1e9)
	if err == nil {
		s.state(seen)
	}
	return s.all(), nil
}

// state adds what is known of the ports and workers.
func (s sink) state(seen *observation) {
	for i := range seen.Ports {
		s.port(&seen.Ports[i], &seen.Config.Ports[i], seen.Config)
	}
	for i := range seen.Workers {
		w := &seen.Workers[i]
		s.worker(w, seen.late[w.Worker])
	}
}

var errNoAnswer = errors.New("metrics: the workers do not answer")

// look returns what is known of the switch, or an error after patience: a scrape must not hang with a worker.
func (g *Gatherer) look() (*observation, error) {
	over := time.After(g.patience)
	select {
	case g.turn <- struct{}{}:
	case <-over:
		return nil, fmt.Errorf("%w: they still have not to somebody else after %v", errNoAnswer, g.patience)
	}
	type answer struct {
		seen *observation
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-g.turn }()
		err := g.ask()
		answers <- answer{g.latest, err}
	}()
	select {
	case a := <-answers:
		return a.seen, a.err
	case <-over:
		return nil, fmt.Errorf("%w within %v", errNoAnswer, g.patience)
	}
}

// ask renews what is known, unless that is fresh. Only who has the turn may call it.
func (g *Gatherer) ask() error {
	if g.latest != nil && time.Since(g.asked) < freshness {
		return nil
	}
	state, err := g.source.State()
	g.latest, g.asked = nil, time.Now()
	if err != nil {
		return err
	}
	g.latest = &observation{state, make(map[int]uint64)}
	g.countLate(g.latest)
	return nil
}

// countLate counts the iterations that came late since it last did, by the configuration of now. All of them by that of now
// would be fewer after a reload with a longer response, which Prometheus would take for a worker that is late as often anew.
func (g *Gatherer) countLate(seen *observation) {
	responses := make(map[string]time.Duration)
	for i := range seen.Config.Ports {
		responses[seen.Config.Ports[i].Device] = seen.Config.Ports[i].Response
	}
	for i := range seen.Workers {
		w := &seen.Workers[i]
		shortest := time.Duration(math.MaxInt64)
		for j := range w.Ports {
			if response, there := responses[w.Ports[j].Name]; there && !w.Ports[j].Vacant {
				shortest = min(shortest, response)
			}
		}
		late := g.late[w.Worker]
		if late == nil {
			late = new(lateCounts)
			g.late[w.Worker] = late
		}
		late.total += longer(&w.Gap, shortest) - longer(&late.seen, shortest)
		late.seen = w.Gap
		seen.late[w.Worker] = late.total
	}
}

// longer returns how many gaps were longer than a time.
func longer(gaps *dataplane.GapHistogram, limit time.Duration) uint64 {
	return gaps.Iterations() - gaps.AtMost(int64(limit))
}
