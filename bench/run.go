package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Run measures one scenario. The report comes with an error, too: then it is marked as partial, and has what was
// measured before the scenario failed or ctx was done. There is none only if the options are wrong.
func Run(ctx context.Context, s Scenario, o Options) (*Report, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("bench: %s: %w", s.Name, err)
	}
	r := &Report{
		Scenario: s.Name, Shows: s.Shows, Machine: thisMachine(), Seed: o.Seed,
		Settings: Settings{Trials: o.Trials, Duration: o.Duration.Seconds(), Quick: o.Quick, CPUs: o.CPUs},
		Absent:   map[string]string{}, Trials: []Trial{}, Results: []Result{}, Ratios: map[string]Ratio{},
		Notes: []string{}, Tables: []Table{}, Plots: []Plot{},
	}
	if o.Version != "" {
		r.Machine.Versions["sluice"] = o.Version
	}
	err := s.Run(ctx, o, r)
	r.Partial = err != nil
	r.summarise()
	if err != nil {
		return r, fmt.Errorf("bench: %s: %w", s.Name, err)
	}
	return r, nil
}

// complete puts defaults in place of zeros and refuses what can't be measured.
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
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	allowed, err := allowedCPUs()
	if err != nil {
		return err
	}
	if o.CPUs[0] == o.CPUs[1] {
		o.CPUs = [2]int{allowed[0], allowed[min(1, len(allowed)-1)]}
	}
	for _, cpu := range o.CPUs {
		if !slices.Contains(allowed, cpu) {
			return fmt.Errorf("CPU %d is not among those that this process may use, %v: choose two of them", cpu, allowed)
		}
	}
	return nil
}

// Interleave measures every subject once a round, o.Trials rounds, and adds the trials: what disturbs the machine
// disturbs all subjects. Every other round goes backwards, so that nobody always follows the same one. A round before
// them warms caches and clocks and is discarded, except in a quick run.
func (r *Report) Interleave(ctx context.Context, o Options, subjects []Subject) error {
	first := -1
	if o.Quick {
		first = 0
	}
	for round := first; round < o.Trials; round++ {
		for i := range subjects {
			s := subjects[i]
			if round&1 == 1 {
				s = subjects[len(subjects)-1-i]
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			o.Progress("%s, %s: %s", s.Name, s.Metric, ofRounds(round, o.Trials))
			value, detail, err := s.Measure(ctx)
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

func ofRounds(round, rounds int) string {
	if round < 0 {
		return "warming up"
	}
	return fmt.Sprintf("round %d of %d", round+1, rounds)
}
