package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/compare"
	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// withScenarios is an environment variable, used beside program.AsProgram, that replaces the
// scenarios of the program with those of these tests.
const withScenarios = "SLUICE_TEST_WITH_SCENARIOS"

func init() {
	if os.Getenv(withScenarios) != "" {
		scenarios = testScenarios
	}
}

// testScenarios need no devices and little time; "endless" waits for an interrupt in its third
// trial, and "deaf" ignores interrupts.
func testScenarios() []compare.Scenario {
	run := func(measure func(ctx context.Context, trial int) error) func(context.Context, compare.Options,
		*compare.Report) error {
		return func(ctx context.Context, o compare.Options, r *compare.Report) error {
			trial := 0
			one := func(name string, value float64) compare.Subject {
				return compare.Subject{Name: name, Metric: "rate", Unit: "packets/s",
					Measure: func(ctx context.Context) (float64, map[string]float64, error) {
						trial++
						return value, nil, measure(ctx, trial)
					}}
			}
			r.Compare("vs_slow", "rate", "fast", "slow", compare.Higher)
			r.Plot(compare.Plot{Name: "line", Series: []compare.Series{{Points: [][2]float64{{0, 0}, {1, 1}}}}})
			return r.Interleave(ctx, o, []compare.Subject{one("fast", 2e6), one("slow", 1e6)})
		}
	}
	return []compare.Scenario{
		{Name: "trivial", Shows: "that it runs", Peers: "itself", Short: true,
			Run: run(func(context.Context, int) error { return nil })},
		{Name: "endless", Shows: "that it ends", Run: run(func(ctx context.Context, trial int) error {
			if trial > 2 {
				<-ctx.Done()
			}
			return ctx.Err()
		})},
		{Name: "deaf", Shows: "that it is ended", Run: func(_ context.Context, o compare.Options,
			_ *compare.Report) error {
			o.Progress("can't hear")
			time.Sleep(2 * program.Patience)
			return nil
		}},
		{Name: "broken", Shows: "what is told", Run: run(func(_ context.Context, trial int) error {
			if trial > 2 {
				return errors.New("a device caught fire")
			}
			return nil
		})},
	}
}

// benchAsTold starts `sluice-lab bench` with the scenarios of these tests.
func benchAsTold(t *testing.T, args ...string) *program.Running {
	t.Helper()
	c := exec.Command(os.Args[0], append([]string{"bench"}, args...)...)
	c.Env = append(os.Environ(), program.AsProgram+"=1", withScenarios+"=1")
	return program.LaunchCommand(t, nil, c)
}

func TestBenchList(t *testing.T) {
	p := benchAsTold(t, "list")
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	want := "trivial * that it runs\n          beside: itself\nendless   that it ends\ndeaf      that it is " +
		"ended\nbroken    what is told\n* belongs to"
	if got := p.Output.String(); !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
	p = program.Launch(t, nil, "bench", "list")
	if code := p.ExitCode(); code != 0 || !strings.Contains(p.Output.String(), "veth") {
		t.Errorf("exit code %d:\n%s", code, p.Output.String())
	}
}

func TestBenchRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "reports")
	p := benchAsTold(t, "run", "trivial", "--json", "--out", out, "--quick", "--seed", "5", "--trials", "3")
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var r, saved compare.Report
	p.Document(&r)
	if r.Scenario != "trivial" || r.Partial || r.Seed != 5 || len(r.Trials) != 6 || r.Ratios["vs_slow"].Median != 2 ||
		r.Machine.Versions["sluice"] != version {
		t.Errorf("%+v", r)
	}
	content, err := os.ReadFile(filepath.Join(out, "trivial.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &saved); err != nil || len(saved.Trials) != 6 {
		t.Errorf("%v in\n%s", err, content)
	}
	for name, want := range map[string]string{"trivial.md": "vs_slow", "trivial-line.svg": "<svg"} {
		if content, err := os.ReadFile(filepath.Join(out, name)); err != nil || !bytes.Contains(content, []byte(want)) {
			t.Errorf("no %q in %s: %v", want, name, err)
		}
	}
	if files, err := os.ReadDir(out); err != nil || len(files) != 3 {
		t.Errorf("%v %v", files, err)
	}
	if said := p.Log.All(); len(said) != 7 || said[0] != "trivial: fast, rate: round 1 of 3" {
		t.Errorf("%q", said) // the last line is empty
	}
	p = benchAsTold(t, "run", "--short")
	if code := p.ExitCode(); code != 0 || !strings.Contains(p.Output.String(), "vs_slow") {
		t.Errorf("exit code %d:\n%s", code, p.Output.String())
	}
}

// interrupts are the signals that end a run. SIGHUP is one unless the tests run with it ignored
// (nohup).
func interrupts() []unix.Signal {
	all := []unix.Signal{unix.SIGINT, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) {
		all = append(all, unix.SIGHUP)
	}
	return all
}

// TestBenchInterrupted checks that an interrupted run reports what it has measured and starts no
// further scenario.
func TestBenchInterrupted(t *testing.T) {
	for _, s := range interrupts() {
		out := t.TempDir()
		p := benchAsTold(t, "run", "endless", "broken", "--json", "--out", out, "--quick")
		p.Await(1, "slow, rate: round 2 of 2")
		p.Signal(s)
		if code := p.ExitCode(); code != cli.ExitFailure {
			t.Errorf("exit code %d", code)
		}
		var r compare.Report
		p.Document(&r)
		if !r.Partial || len(r.Trials) != 2 || r.Ratios["vs_slow"].Median != 2 {
			t.Errorf("%+v", r)
		}
		if content, err := os.ReadFile(filepath.Join(out, "endless.partial.md")); err != nil ||
			!bytes.Contains(content, []byte("**Partial: ")) {
			t.Errorf("%s (%v)", content, err)
		}
		p.Await(1, "interrupted, so the report is partial")
	}
}

// TestPartialReportBesideAWholeOne checks that a partial report does not overwrite an earlier
// complete one.
func TestPartialReportBesideAWholeOne(t *testing.T) {
	out := t.TempDir()
	whole := filepath.Join(out, "broken.json")
	if err := os.WriteFile(whole, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := benchAsTold(t, "run", "broken", "--json", "--out", out, "--quick")
	if code := p.ExitCode(); code != cli.ExitFailure {
		t.Errorf("exit code %d", code)
	}
	if content, err := os.ReadFile(whole); err != nil || string(content) != "whole" {
		t.Errorf("%s (%v)", content, err)
	}
	for _, name := range []string{"broken.partial.json", "broken.partial.md", "broken.partial-line.svg"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	if content, err := os.ReadFile(filepath.Join(out, "broken.partial.md")); err != nil ||
		!bytes.Contains(content, []byte("(broken.partial-line.svg)")) {
		t.Errorf("%s (%v)", content, err)
	}
}

// TestBenchInterruptedTwice checks that a second signal ends the program at once.
func TestBenchInterruptedTwice(t *testing.T) {
	for _, s := range interrupts() {
		p := benchAsTold(t, "run", "deaf")
		p.Await(1, "can't hear")
		p.Signal(s)
		for !p.HasEnded() { // signals soon after the first may not count
			time.Sleep(10 * time.Millisecond)
			_ = p.Process.Signal(s) // it may have ended
			if time.Since(p.Began) > program.Patience {
				t.Fatalf("%v does not end it", s)
			}
		}
		if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != s {
			t.Errorf("%v: ended with %v", s, p.ProcessState)
		}
	}
}

// TestBenchInterruptedCleansUp interrupts a scenario that has created namespaces, devices and
// processes.
func TestBenchInterruptedCleansUp(t *testing.T) {
	program.NeedRoot(t)
	p := program.Launch(t, nil, "bench", "run", "veth", "--json")
	var made []string
	for deadline := time.Now().Add(program.Patience); len(made) < 2; time.Sleep(5 * time.Millisecond) {
		if made = madeBy(t, p.Process.Pid); p.HasEnded() || time.Now().After(deadline) {
			t.Fatalf("it made only %q (ended: %v)", made, p.HasEnded())
		}
	}
	p.Signal(unix.SIGINT)
	if code := p.ExitCode(); code != cli.ExitFailure {
		t.Errorf("exit code %d", code)
	}
	var r compare.Report
	if p.Document(&r); !r.Partial || r.Scenario != "veth" {
		t.Errorf("%+v", r)
	}
	expectGone(t, made)
}

// TestBenchRefuses covers invalid flags, and a scenario that fails: the others must be measured
// nevertheless.
func TestBenchRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"trivial", "nothing"}, cli.ExitUsage,
			`unknown scenario "nothing": choose from trivial, endless, deaf, broken`},
		{nil, cli.ExitUsage, "no scenario given: name one or more of trivial, endless, deaf, broken, or give --short"},
		{[]string{"trivial", "--out", file}, cli.ExitFailure,
			"file: not a directory: give a directory that this user may write to"},
		{[]string{"trivial", "--out", "/proc/nowhere"}, cli.ExitFailure, "--out /proc/nowhere: "},
		{[]string{"trivial", "--cpus", "1"}, cli.ExitUsage, "--cpus [1]: give two different ones, as in --cpus 0,1"},
		{[]string{"trivial", "--cpus", "0,9999"}, cli.ExitFailure,
			"CPU 9999 is not among those of this process"},
		{[]string{"trivial", "--trials", "-1"}, cli.ExitFailure, "give at least one"},
	} {
		p := benchAsTold(t, append([]string{"run"}, c.args...)...)
		if code, said := p.ExitCode(), strings.Join(p.Log.All(), "\n"); code != c.code ||
			!strings.Contains(said, c.say) || p.Output.Len() > 0 {
			t.Errorf("%v: exit code %d, %s\n%s", c.args, code, said, p.Output.String())
		}
	}
	p := benchAsTold(t, "run", "broken", "trivial", "--quick")
	if code, out := p.ExitCode(), p.Output.String(); code != cli.ExitFailure || !strings.Contains(out, "trivial on ") ||
		!strings.Contains(out, "broken on ") || strings.Count(out, "partial: ") != 1 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	p.Await(1, "sluice-lab: bench: broken: slow, rate: a device caught fire")
}
