package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"
	"time"
)

// quick runs the smallest measurement that still exercises every part of a scenario in memory.
func quick(t *testing.T, s Scenario) *Report {
	t.Helper()
	return measure(t, s, Options{Quick: true, Trials: 1, Duration: 50 * time.Millisecond, Seed: 1})
}

// quickOnDevices does so with a scenario on real devices. The test's binary is its program.
func quickOnDevices(t *testing.T, s Scenario) *Report {
	t.Helper()
	needRoot(t)
	return measure(t, s, Options{Program: os.Args[0], Quick: true})
}

// measure runs a scenario and checks what holds of any report: it is complete, has figures, and stays what it is when
// written down.
func measure(t *testing.T, s Scenario, o Options) *Report {
	t.Helper()
	o.Progress = t.Logf
	r, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Scenario != s.Name || r.Partial || len(r.Results) == 0 {
		t.Errorf("report of %q: partial %t, %d results", r.Scenario, r.Partial, len(r.Results))
	}
	for _, v := range r.Results {
		t.Logf("%-24s %-52s %12.3f %s", v.Name, v.Metric, v.Median, v.Unit)
	}
	for name, v := range r.Ratios {
		t.Logf("%s %.3f", name, v.Median)
		if !(v.Median > 0) || math.IsInf(v.Median, 0) {
			t.Errorf("%s is %v", name, v.Median)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if second, err := json.Marshal(&again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("the report changes when it is written and read (%v)", err)
	}
	return r
}

// skipWithout ends a test whose peer is not installed, when all else has been checked.
func skipWithout(t *testing.T, r *Report, peer string) {
	t.Helper()
	if why, absent := r.Absent[peer]; absent {
		t.Skip(why)
	}
}

// trialsOf returns the trials of one name and metric; there must be some.
func trialsOf(t *testing.T, r *Report, name, metric string) (trials []Trial) {
	t.Helper()
	for _, trial := range r.Trials {
		if trial.Name == name && trial.Metric == metric {
			trials = append(trials, trial)
		}
	}
	if len(trials) == 0 {
		t.Errorf("no trials of %s, %s", name, metric)
	}
	return trials
}

func wantRatios(t *testing.T, r *Report, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, found := r.Ratios[name]; !found {
			t.Errorf("no ratio %s", name)
		}
	}
}

// TestScenariosEndEarly: when they are told to, with what they have, whatever they are doing.
func TestScenariosEndEarly(t *testing.T) {
	for _, s := range []Scenario{
		pipelineScenario, ringScenario, schedScenario, scaleScenario, reactionScenario, headroomScenario, bufferScenario, etsScenario,
	} {
		t.Run(s.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			r, err := Run(ctx, s, Options{Duration: time.Hour, Seed: 1})
			if !errors.Is(err, context.DeadlineExceeded) || r == nil || !r.Partial || len(r.Notes) == 0 {
				t.Errorf("ended with %v", err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestPartialReportsAreWhole: what a scenario has measured by its third step is in tables and plots, with the notes.
func TestPartialReportsAreWhole(t *testing.T) {
	for _, s := range []Scenario{etsScenario, headroomScenario, bufferScenario, reactionScenario} {
		t.Run(s.Name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			steps := 0
			r, err := Run(ctx, s, Options{Quick: true, Trials: 3, Duration: 20 * time.Millisecond, Seed: 1, Progress: func(string, ...any) {
				if steps++; steps == 3 {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) || len(r.Notes) < 2 || len(r.Tables) == 0 || len(r.Plots) == 0 && s.Name != "ets" {
				t.Errorf("%v: %d notes, %d tables, %d plots", err, len(r.Notes), len(r.Tables), len(r.Plots))
			}
		})
	}
}
