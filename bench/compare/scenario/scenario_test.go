package scenario

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/scenario/memory"
	"sluice/bench/compare/scenario/virtual"
)

// TestScenariosEndEarly: a scenario that is cancelled ends early and keeps what it has measured.
func TestScenariosEndEarly(t *testing.T) {
	for _, s := range []compare.Scenario{
		memory.Pipeline, memory.Ring, memory.Schedule, memory.Scale, memory.Reaction, virtual.Headroom, virtual.Buffer,
		virtual.ETS,
	} {
		t.Run(s.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			r, err := compare.Run(ctx, s, compare.Options{Duration: time.Hour, Seed: 1})
			if !errors.Is(err, context.DeadlineExceeded) || r == nil || !r.Partial || len(r.Notes) == 0 {
				t.Errorf("ended with %v", err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestPartialReportsAreWhole: tables, plots and notes contain what a scenario has measured by its
// third step.
func TestPartialReportsAreWhole(t *testing.T) {
	for _, s := range []compare.Scenario{virtual.ETS, virtual.Headroom, virtual.Buffer, memory.Reaction} {
		t.Run(s.Name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			steps := 0
			r, err := compare.Run(ctx, s, compare.Options{Quick: true, Trials: 3, Duration: 20 * time.Millisecond,
				Seed: 1, Progress: func(string, ...any) {
					if steps++; steps == 3 {
						cancel()
					}
				}})
			if !errors.Is(err, context.Canceled) || len(r.Notes) == 0 || len(r.Tables) == 0 || len(r.Plots) == 0 &&
				s.Name != "ets" {
				t.Errorf("%v: %d notes, %d tables, %d plots", err, len(r.Notes), len(r.Tables), len(r.Plots))
			}
		})
	}
}

// TestScenariosAreSaid: each scenario has a name suitable for a command line and a file, a one-line
// description, and a page.
func TestScenariosAreSaid(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(s.Name) || seen[s.Name] {
			t.Errorf("name %q", s.Name)
		}
		seen[s.Name] = true
		if s.Shows == "" || strings.ContainsAny(s.Shows+s.Peers, "\n\t") || strings.HasSuffix(s.Shows, ".") ||
			s.Run == nil {
			t.Errorf("%+v", s)
		}
		if _, err := os.Stat(filepath.Join("../../../docs/benchmarks", s.Page+".md")); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}
