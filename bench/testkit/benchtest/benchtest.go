// Package benchtest holds helpers for tests of scenarios and of the test bed.
package benchtest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"testing"
	"time"

	"sluice/bench/compare"
	"sluice/bench/netns"
	"sluice/internal/config"
	"sluice/internal/control"
)

// Quick runs the shortest measurement that exercises every part of a scenario in memory.
func Quick(t *testing.T, s compare.Scenario) *compare.Report {
	t.Helper()
	return Measure(t, s, compare.Options{Quick: true, Trials: 1, Duration: 50 * time.Millisecond, Seed: 1})
}

// QuickOnDevices is Quick for a scenario on real devices. The test binary serves as the program.
func QuickOnDevices(t *testing.T, s compare.Scenario) *compare.Report {
	t.Helper()
	NeedRoot(t)
	return Measure(t, s, compare.Options{Program: os.Args[0], Lab: os.Args[0], Quick: true})
}

// Measure runs a scenario and checks its report: it must be complete, have figures, and survive a
// round trip through JSON.
func Measure(t *testing.T, s compare.Scenario, o compare.Options) *compare.Report {
	t.Helper()
	o.Progress = t.Logf
	r, err := compare.Run(t.Context(), s, o)
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
	var again compare.Report
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if second, err := json.Marshal(&again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("the report changes when it is written and read (%v)", err)
	}
	return r
}

// SkipWithout skips the rest of a test if a peer is not installed. Call it after all other checks.
func SkipWithout(t *testing.T, r *compare.Report, peer string) {
	t.Helper()
	if why, absent := r.Absent[peer]; absent {
		t.Skip(why)
	}
}

// TrialsOf returns the trials of one name and metric and fails if there are none.
func TrialsOf(t *testing.T, r *compare.Report, name, metric string) (trials []compare.Trial) {
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

// WantRatios tests that a report has the named ratios.
func WantRatios(t *testing.T, r *compare.Report, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, found := r.Ratios[name]; !found {
			t.Errorf("no ratio %s", name)
		}
	}
}

// NewLab returns a lab that is closed with the test.
func NewLab(t *testing.T) *netns.Lab {
	t.Helper()
	NeedRoot(t)
	l, err := netns.New("bench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// NeedRoot skips a test that needs root if it does not run as root.
func NeedRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and XDP")
	}
}

// NewNamespace adds a namespace to a lab.
func NewNamespace(t *testing.T, l *netns.Lab, name string) *netns.Namespace {
	t.Helper()
	n, err := l.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Near reports whether two figures are equal up to rounding.
func Near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Main is the TestMain of packages whose forwarders are processes. It makes the test binary act as
// `sluice run -c FILE` and as `bench baseline --cpu 0 s0 s1`, which calls baseline.
func Main(m *testing.M, baseline func(ctx context.Context, devices [2]string, cpu int) error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	var err error
	switch {
	case len(os.Args) == 7 && os.Args[1] == "bench" && os.Args[2] == "baseline":
		err = baseline(ctx, [2]string{os.Args[5], os.Args[6]}, 0)
	case len(os.Args) == 4 && os.Args[1] == "run":
		err = runSwitch(ctx, os.Args[3])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		panic(err)
	}
}

func runSwitch(ctx context.Context, file string) error {
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	s, err := control.New(c, "lab", slog.Default())
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
