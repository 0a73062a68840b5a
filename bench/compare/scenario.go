package compare

import (
	"context"
	"time"

	"sluice/internal/config"
)

// Scenario is one entry of `sluice-lab bench list`.
type Scenario struct {
	Name  string // as on the command line
	Shows string // one line
	Peers string // one line: what is measured beside it in the same run; "": nothing
	Page  string // of docs/benchmarks, without .md, that says what is measured, and how
	Short bool   // belongs to the short set (`make bench`)

	// OneCPU says that one CPU suffices: the scenario then leaves out what needs two, and says so.
	OneCPU bool

	// Run measures and adds to r. When ctx is done it returns ctx's error; r keeps the trials made
	// until then.
	Run func(ctx context.Context, o Options, r *Report) error
}

// Options say how much to measure, and where. Run replaces zeros by defaults: a scenario sees no
// zero but Seed, and no nil.
type Options struct {
	Program  string        // path of sluice, for forwarders that are processes
	Lab      string        // path of sluice-lab, for the baseline
	Version  string        // of this project's program, for the report
	Trials   int           // rounds; every subject has one trial per round, interleaved. Default 10; Quick: 2
	Duration time.Duration // of one trial of a real-time scenario. Default 2 s; Quick: 200 ms
	Quick    bool          // the smallest run that exercises every part: seconds in all; for tests
	Seed     uint64        // of all random choices
	// sluice uses the transmitter in scenarios that do not compare it with the socket: incast, hol,
	// soak
	Transmitter bool
	// frame sizes, bytes with FCS, 64 to 9518, for scenarios that allow a choice; none: the
	// scenario's own
	Sizes []int

	// CPUs are [0] the forwarder's or subject's and [1] the one for the generator and everything
	// else. Equal: the first two that this process may use. If there is only one, they stay equal,
	// in scenarios that work with one CPU.
	CPUs [2]int

	Progress func(format string, args ...any) // one line about the current step; never nil in a scenario
}

// FirstRound returns the number of the first round: -1 is a round that warms caches and clocks and
// is discarded. A quick run has none.
func (o *Options) FirstRound() int {
	if o.Quick {
		return 0
	}
	return -1
}

// Engine returns the TX engine for the scenarios that Transmitter names.
func (o *Options) Engine() config.TXEngine {
	if o.Transmitter {
		return config.TXTransmitter
	}
	return config.TXSocket
}

// HaveTwoCPUs reports whether the subject has a CPU of its own.
func (o *Options) HaveTwoCPUs() bool { return o.CPUs[0] != o.CPUs[1] }

// Subject is one of the subjects that a scenario measures alternately.
type Subject struct {
	Name, Metric, Unit string // as in Trial
	Peer               bool   // not ours: if it fails, it is reported as missing, and the others are measured

	// Measure makes one trial and returns its value and context.
	Measure func(ctx context.Context) (float64, map[string]float64, error)
}
