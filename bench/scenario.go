package bench

import (
	"context"
	"time"

	"sluice/internal/config"
)

// Scenario is one entry of `sluice-lab bench list`.
type Scenario struct {
	Name  string // as on the command line
	Shows string // one line
	Peers string // one line: what is measured beside it in the same run; "" none
	Short bool   // belongs to the short set (`make bench`)

	// OneCPU says that it can do with one CPU: what needs two it leaves out then, and says so.
	OneCPU bool

	// Run measures and adds to r. When ctx is done it returns ctx's error; r keeps what was
	// measured until then.
	Run func(ctx context.Context, o Options, r *Report) error
}

// Options say how much to measure, and where. Run puts defaults in place of zeros: a scenario meets
// no zero but Seed, and no nil.
type Options struct {
	Program  string        // path of sluice, for forwarders that are processes
	Lab      string        // path of sluice-lab, for the baseline
	Version  string        // of this project's program, for the report
	Trials   int           // rounds; every subject has one trial a round, interleaved. Default 10; Quick: 2
	Duration time.Duration // of one trial of a real-time scenario. Default 2 s; Quick: 200 ms
	Quick    bool          // the smallest run that still exercises every part: seconds in all; for tests
	Seed     uint64        // all chance follows from it
	// sluice sends by its transmitter in scenarios that do not compare it with the socket: incast,
	// hol, soak
	Transmitter bool
	// of frames, bytes with FCS, 64 to 1518, for scenarios that let them be chosen; none: the
	// scenario's own
	Sizes []int

	// CPUs are [0] the forwarder's or subject's and [1] the generator's and everything else's.
	// Equal: the first two that this process may use; they stay equal in a scenario that can do
	// with one, if there is only one.
	CPUs [2]int

	Progress func(format string, args ...any) // one line about what is going on; never nil in a scenario
}

// FirstRound returns the number of the first of the rounds: -1 is one that warms caches and clocks
// and is discarded. A quick run has none.
func (o *Options) FirstRound() int {
	if o.Quick {
		return 0
	}
	return -1
}

// Engine returns who sends in the scenarios of Transmitter.
func (o *Options) Engine() config.TXEngine {
	if o.Transmitter {
		return config.TXTransmitter
	}
	return config.TXSocket
}

// HaveTwoCPUs tells whether the subject and everybody else have a CPU each.
func (o *Options) HaveTwoCPUs() bool { return o.CPUs[0] != o.CPUs[1] }

// Subject is one of those that a scenario measures in turn.
type Subject struct {
	Name, Metric, Unit string // as in Trial
	Peer               bool   // it is not ours: where it fails, it is reported as missing, and the others are measured

	// Measure makes one trial and returns its value and whatever explains it.
	Measure func(ctx context.Context) (float64, map[string]float64, error)
}
