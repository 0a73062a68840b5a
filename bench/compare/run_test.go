package compare

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/linux/thread"
)

// counting returns subjects that record their turn and measure how many turns there were.
func counting(turns *[]string, names ...string) (subjects []Subject) {
	for _, name := range names {
		subjects = append(subjects,
			Subject{Name: name, Metric: "m", Measure: func(context.Context) (float64, map[string]float64, error) {
				*turns = append(*turns, name)
				return float64(len(*turns)), nil, nil
			}})
	}
	return subjects
}

func TestInterleave(t *testing.T) {
	var turns, said []string
	s := Scenario{Name: "some", OneCPU: true, Run: func(ctx context.Context, o Options, r *Report) error {
		return r.Interleave(ctx, o, counting(&turns, "a", "b", "c"))
	}}
	o := Options{Trials: 3,
		Progress: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	r, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(turns, ""); got != "cbaabccbaabc" {
		t.Errorf("turns %s", got)
	}
	var kept []string
	for _, t := range r.Trials {
		kept = append(kept, fmt.Sprintf("%s%d:%v", t.Name, t.Round, t.Value))
	}
	if want := strings.Fields("a0:4 b0:5 c0:6 c1:7 b1:8 a1:9 a2:10 b2:11 c2:12"); !slices.Equal(kept, want) {
		t.Errorf("trials %v, not %v", kept, want)
	}
	if len(said) != 12 || said[0] != "c, m: warming up" || said[11] != "c, m: round 3 of 3" {
		t.Errorf("said %q", said)
	}
	turns = nil
	if _, err := Run(t.Context(), s, Options{Quick: true}); err != nil || strings.Join(turns, "") != "abccba" {
		t.Errorf("quick: turns %v (%v)", turns, err)
	}
}

// TestPeerThatFails: the others are still measured, the peer is no longer measured, and its earlier
// trials remain. A failure of our own subject ends the scenario.
func TestPeerThatFails(t *testing.T) {
	for _, peer := range []bool{true, false} {
		var turns []string
		r, err := Run(t.Context(),
			Scenario{Name: "some", OneCPU: true, Run: func(ctx context.Context, o Options, r *Report) error {
				subjects := counting(&turns, "a", "b")
				measure := subjects[1].Measure
				subjects[1].Peer = peer
				subjects[1].Measure = func(ctx context.Context) (float64, map[string]float64, error) {
					value, _, _ := measure(ctx)
					if len(turns) > 2 {
						return 0, nil, errors.New("it has crashed")
					}
					return value, nil, nil
				}
				return r.Interleave(ctx, o, subjects)
			}}, Options{Quick: true, Trials: 3})
		if got := strings.Join(turns, ""); peer &&
			(err != nil || got != "abbaa" || r.Absent["b"] != "from round 2 on: it has crashed" || len(r.Trials) != 4) {
			t.Errorf("turns %s, %v, %+v", got, err, r)
		}
		if !peer && (err == nil || len(r.Absent) > 0 || !r.Partial) {
			t.Errorf("%v, %+v", err, r)
		}
	}
}

// TestOneCPU: a scenario that needs two CPUs says so; one that does not runs, and its report gives
// the command that repeats it.
func TestOneCPU(t *testing.T) {
	allowed, err := thread.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	err = thread.OnCPU(allowed[0], func() { checkOneCPU(t, allowed[0]) })
	if err != nil {
		t.Fatal(err)
	}
}

func checkOneCPU(t *testing.T, cpu int) {
	s := Scenario{Name: "some", Run: func(context.Context, Options, *Report) error { return nil }}
	if r, err := Run(t.Context(), s, Options{}); r != nil || err == nil ||
		!strings.Contains(err.Error(), "it needs two CPUs") {
		t.Errorf("%v, %+v", err, r)
	}
	s.OneCPU = true
	r, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("taskset -c %d sluice-lab bench run some --trials 10 --duration 2s --seed 0\n", cpu)
	if !strings.Contains(string(r.Markdown()), want) {
		t.Errorf("no %q in\n%s", want, r.Markdown())
	}
}

// TestGoesOnWithout drops only a peer whose failure is its own.
func TestGoesOnWithout(t *testing.T) {
	r := &Report{Absent: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	if !r.GoesOnWithout(ctx, "some", 2, errors.New("broken")) || !r.IsAbsent("some") ||
		r.Absent["some"] != "from round 3 on: broken" {
		t.Errorf("%v", r.Absent)
	}
	if r.GoesOnWithout(ctx, "other", 0, fmt.Errorf("%w: no memory", ErrBed)) || r.IsAbsent("other") {
		t.Errorf("the bed failed: %v", r.Absent)
	}
	cancel()
	if r.GoesOnWithout(ctx, "other", 0, ctx.Err()) || r.IsAbsent("other") {
		t.Errorf("interrupted: %v", r.Absent)
	}
}

// TestInterruptLeavesAPartialReport cancels in the fifth of twenty trials.
func TestInterruptLeavesAPartialReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var turns []string
	s := Scenario{Name: "some", OneCPU: true, Run: func(ctx context.Context, o Options, r *Report) error {
		r.Compare("vs_b", "m", "a", "b", Higher)
		subjects := counting(&turns, "a", "b")
		subjects[1].Measure = func(ctx context.Context) (float64, map[string]float64, error) {
			if len(turns) == 4 {
				cancel()
			}
			return 1, nil, ctx.Err()
		}
		return r.Interleave(ctx, o, subjects)
	}}
	r, err := Run(ctx, s, Options{})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "some: b, m: ") {
		t.Fatalf("%v", err)
	}
	if !r.Partial || len(r.Trials) != 5 || len(r.Results) != 2 || len(r.Ratios["vs_b"].Pairs) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRunFailsAndKeepsWhatItHas(t *testing.T) {
	broken := errors.New("broken")
	r, err := Run(t.Context(),
		Scenario{Name: "some", OneCPU: true, Run: func(_ context.Context, _ Options, r *Report) error {
			r.Add(Trial{Name: "a", Metric: "m", Value: 1})
			return broken
		}}, Options{})
	if !errors.Is(err, broken) || !r.Partial || len(r.Results) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestOptions(t *testing.T) {
	given := func(o Options) (got Options, err error) {
		_, err = Run(t.Context(), Scenario{OneCPU: true, Run: func(_ context.Context, o Options, _ *Report) error {
			o.Progress("%d", 1)
			o.Progress = nil
			got = o
			return nil
		}}, o)
		return got, err
	}
	allowed, err := thread.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	cpus := [2]int{allowed[0], allowed[min(1, len(allowed)-1)]}
	for _, c := range []struct{ given, want Options }{
		{Options{}, Options{Trials: 10, Duration: 2 * time.Second, CPUs: cpus}},
		{Options{Quick: true, Seed: 3}, Options{Quick: true, Trials: 2, Duration: 200 * time.Millisecond, CPUs: cpus,
			Seed: 3}},
		{Options{Quick: true, Trials: 5, Duration: 1}, Options{Quick: true, Trials: 5, Duration: 1, CPUs: cpus}},
	} {
		if got, err := given(c.given); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v, not %+v (%v)", got, c.want, err)
		}
	}
	for want, o := range map[string]Options{
		"give at least one":     {Trials: -1},
		"a duration above 0":    {Duration: -1},
		"from 64 to 9518":       {Sizes: []int{64, 9519}},
		"CPU 5000 is not among": {CPUs: [2]int{allowed[0], 5000}},
		"choose two of them":    {CPUs: [2]int{-3, allowed[0]}},
	} {
		if _, err := given(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
