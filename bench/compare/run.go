package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"sluice/internal/linux/thread"
)

// ErrOneCPU is why a process that may use only one CPU leaves something out.
var ErrOneCPU = errors.New("it needs two CPUs, and this process may use only one")

// Run measures one scenario. If the scenario fails or ctx is done, Run returns the error together
// with a partial report of what was measured until then. It returns no report only if the options
// are invalid.
func Run(ctx context.Context, s Scenario, o Options) (*Report, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("bench: %s: %w", s.Name, err)
	}
	if !s.OneCPU && !o.HaveTwoCPUs() {
		return nil, fmt.Errorf("bench: %s: %w, CPU %d: allow it another one (taskset)", s.Name, ErrOneCPU, o.CPUs[0])
	}
	r := &Report{
		Scenario: s.Name, Shows: s.Shows, Machine: thisMachine(), Seed: o.Seed,
		Settings: Settings{Trials: o.Trials, Duration: o.Duration.Seconds(), Quick: o.Quick, CPUs: o.CPUs,
			Sizes: o.Sizes},
		Absent: map[string]string{}, Trials: []Trial{}, Results: []Result{}, Ratios: map[string]Ratio{},
		Notes: []string{}, Tables: []Table{}, Plots: []Plot{},
	}
	r.Machine.AddVersion("sluice", o.Version)
	if s.Page != "" {
		r.Note("docs/benchmarks/%s.md says what is measured, and how.", s.Page)
	}
	err := s.Run(ctx, o, r)
	r.Partial = err != nil
	r.summarise()
	if err != nil {
		return r, fmt.Errorf("bench: %s: %w", s.Name, err)
	}
	return r, nil
}

// Frame sizes, bytes with FCS: the shortest of RFC 2544, 9.1, and the longest of a port with the
// largest MTU.
const (
	shortestSize = 64
	longestSize  = 9500 + 18
)

// complete sets defaults and rejects invalid options.
func (o *Options) complete() error {
	trials, duration := 10, 2*time.Second
	if o.Quick {
		trials, duration = 2, 200*time.Millisecond
	}
	o.Trials = cmp.Or(o.Trials, trials)
	o.Duration = cmp.Or(o.Duration, duration)
	if o.Trials < 0 || o.Duration < 0 {
		return fmt.Errorf("%d trials of %v: give at least one, and a duration above 0", o.Trials, o.Duration)
	}
	for _, size := range o.Sizes {
		if size < shortestSize || size > longestSize {
			return fmt.Errorf("frames of %d B: give sizes with FCS from %d to %d", size, shortestSize, longestSize)
		}
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	allowed, err := thread.AllowedCPUs()
	if err != nil {
		return err
	}
	if o.CPUs[0] == o.CPUs[1] {
		o.CPUs = [2]int{allowed[0], allowed[min(1, len(allowed)-1)]}
	}
	for _, cpu := range o.CPUs {
		if !slices.Contains(allowed, cpu) {
			return fmt.Errorf("CPU %d is not among those of this process, %v: choose two of them", cpu, allowed)
		}
	}
	return nil
}

// Interleave measures every subject once per round, for o.Trials rounds, and adds the trials, so
// that disturbances of the machine affect all subjects alike. Every other round runs backwards, so
// that no subject always follows the same one. Unless the run is quick, it begins with a warm-up
// round that is discarded. A peer that fails is reported as missing and no longer measured; any
// other failure ends the scenario.
func (r *Report) Interleave(ctx context.Context, o Options, subjects []Subject) error {
	for round := o.FirstRound(); round < o.Trials; round++ {
		for i := range Turns(round, len(subjects)) {
			s := subjects[i]
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.IsAbsent(s.Name) {
				continue
			}
			o.Progress("%s, %s: %s", s.Name, s.Metric, OfRounds(round, o.Trials))
			value, detail, err := s.Measure(ctx)
			if err != nil && s.Peer && r.GoesOnWithout(ctx, s.Name, round, err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.Name, s.Metric, err)
			}
			if round >= 0 {
				r.Add(Trial{Name: s.Name, Metric: s.Metric, Unit: s.Unit, Round: round, Value: value, Detail: detail})
			}
		}
	}
	return nil
}

// Turns yields the numbers below n in the order of a round: backwards in every other one.
func Turns(round, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if round&1 == 1 {
				i = n - 1 - i
			}
			if !yield(i) {
				return
			}
		}
	}
}

// GoesOnWithout reports a peer as absent because of err and returns whether the others may be
// measured without it. It returns false if ctx has ended or the bed has failed.
func (r *Report) GoesOnWithout(ctx context.Context, peer string, round int, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrBed) {
		return false
	}
	since := ""
	if round > 0 {
		since = fmt.Sprintf("from round %d on: ", round+1)
	}
	r.Missing(peer, since+err.Error())
	return true
}

// IsAbsent reports whether a peer was reported as absent.
func (r *Report) IsAbsent(peer string) bool {
	_, absent := r.Absent[peer]
	return absent
}

// OfRounds names a round for display. Rounds below 0 warm up.
func OfRounds(round, rounds int) string {
	if round < 0 {
		return "warming up"
	}
	return fmt.Sprintf("round %d of %d", round+1, rounds)
}

// ErrBed marks failures of the test bed, which affect every forwarder.
var ErrBed = errors.New("bench: set up namespaces, devices, sinks and generator")
