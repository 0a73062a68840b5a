package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/compare/scenario"
	"sluice/internal/cli"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the switch beside its peers",
	}
	c.AddCommand(benchListCommand(), benchRunCommand(), benchBaselineCommand())
	return c
}

// scenarios returns the scenarios that can be measured; tests replace them.
var scenarios = scenario.All

func benchListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the scenarios and their peers",
		Example: `  sluice-lab bench list`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return listScenarios(c.OutOrStdout(), scenarios())
		},
	}
}

func listScenarios(w io.Writer, list []compare.Scenario) error {
	width := 0
	for _, s := range list {
		width = max(width, len(s.Name))
	}
	for _, s := range list {
		mark := " "
		if s.Short {
			mark = "*"
		}
		fmt.Fprintf(w, "%-*s %s %s\n", width, s.Name, mark, s.Shows)
		if s.Peers != "" {
			fmt.Fprintf(w, "%-*s   beside: %s\n", width, "", s.Peers)
		}
	}
	_, err := fmt.Fprintln(w, "* belongs to the short set: bench run --short, make bench")
	return err
}

// benchRun is the flags of `bench run`.
type benchRun struct {
	compare.Options
	cpus        []int
	out         string
	json, short bool
}

func benchRunCommand() *cobra.Command {
	b := benchRun{Options: compare.Options{Version: version}}
	c := &cobra.Command{
		Use:   "run NAME...",
		Short: "Run scenarios, and report medians, spread and ratios to peers",
		Long: `Runs the named scenarios one after another; bench list shows them all. Subjects are measured
alternately, trial by trial, and ratios compare trials of the same round. Peers that are not
installed are reported as absent; scripts/install-peers installs them. Scenarios on veth devices
need root.

An interrupt, or closing the terminal, ends the run; the report has the results so far, marked as
partial. A second interrupt, at least a second later, ends the run at once.`,
		Example: `  sluice-lab bench run --short
  sluice-lab bench run veth --out results   # with plots
  sluice-lab bench run ring --quick         # shows that it works, not how fast it is`,
		ValidArgsFunction: scenarioNames,
		RunE: func(c *cobra.Command, names []string) error {
			ctx, stop := untilHangup(c.Context())
			defer stop()
			return b.run(ctx, names, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().BoolVar(&b.short, "short", false, "run the short set")
	c.Flags().BoolVar(&b.json, "json", false, "print only one JSON document per scenario")
	c.Flags().StringVar(&b.out, "out", "",
		"also write NAME.json, NAME.md and plots into this `directory`; NAME.partial.md etc. if partial")
	c.Flags().IntVar(&b.Trials, "trials", 0, "rounds, with a trial of each subject (default 10, with --quick 2)")
	c.Flags().DurationVar(&b.Duration, "duration", 0, "length of a trial in real time (default 2s, with --quick 200ms)")
	c.Flags().BoolVar(&b.Quick, "quick", false,
		"exercise every part in the shortest run: shows that it works, not how fast it is")
	c.Flags().IntSliceVar(&b.Sizes, "sizes", nil,
		"frame sizes, `bytes` with FCS: from 64 up to 9518, in the scenario veth (default 64,512,1518)")
	c.Flags().BoolVar(&b.Transmitter, "resident", false,
		"send with a transmitter, on the worker's CPU, in the scenarios incast, hol and soak")
	c.Flags().Uint64Var(&b.Seed, "seed", 1, "seed of all random choices")
	c.Flags().StringVar(&b.Program, "sluice", "",
		"`program` of the switch to measure (default sluice beside this program)")
	c.Flags().IntSliceVar(&b.cpus, "cpus", nil,
		"`CPU` of the subject and CPU of everything else (default the first two)")
	if err := c.MarkFlagDirname("out"); err != nil {
		panic(err)
	}
	return c
}

// untilHangup returns a context that is also done when the terminal is closed, unless SIGHUP is
// ignored (nohup).
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(unix.SIGHUP) {
		return context.WithCancel(ctx)
	}
	ctx, stop := signal.NotifyContext(ctx, unix.SIGHUP)
	context.AfterFunc(ctx, stop) // a second SIGHUP ends the program
	return ctx, stop
}

// run measures the named scenarios. After a failure it continues with the next one; an interrupt
// ends it.
func (b *benchRun) run(ctx context.Context, names []string, stdout, stderr io.Writer) error {
	chosen, err := choose(scenarios(), names, b.short)
	if err != nil {
		return cli.Usage(err)
	}
	if b.Lab, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if b.Program == "" {
		b.Program = filepath.Join(filepath.Dir(b.Lab), "sluice")
	}
	if b.cpus != nil {
		if len(b.cpus) != 2 || b.cpus[0] == b.cpus[1] {
			return cli.Usage(fmt.Errorf("--cpus %v: give two different ones, as in --cpus 0,1", b.cpus))
		}
		b.CPUs = [2]int(b.cpus)
	}
	if b.out != "" {
		if err := makeWritable(b.out); err != nil {
			return fmt.Errorf("--out %s: %w: give a directory that this user may write to", b.out, err)
		}
	}
	var errs []error
	for _, s := range chosen {
		errs = append(errs, b.measure(ctx, s, stdout, stderr))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// measure runs a scenario and writes its report, even if the scenario fails.
func (b *benchRun) measure(ctx context.Context, s compare.Scenario, stdout, stderr io.Writer) error {
	p := cli.StartProgress(stderr, s.Name)
	o := b.Options
	o.Progress = p.Say
	r, err := compare.Run(ctx, s, o)
	p.Stop()
	if r == nil {
		return err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted, so the report is partial: %w", err)
	}
	errs := []error{err}
	if b.out != "" {
		errs = append(errs, r.Save(b.out))
	}
	if b.json {
		errs = append(errs, json.NewEncoder(stdout).Encode(r))
	} else {
		errs = append(errs, r.WriteText(stdout))
	}
	return errors.Join(errs...)
}

// choose returns the named scenarios and, if short is set, those of the short set, in the order of
// the list.
func choose(list []compare.Scenario, names []string, short bool) (chosen []compare.Scenario, err error) {
	var known []string
	for _, s := range list {
		known = append(known, s.Name)
		if short && s.Short || slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("unknown scenario %q: choose from %s", n, strings.Join(known, ", "))
		}
	}
	switch {
	case len(chosen) > 0:
		return chosen, nil
	case short:
		return nil, errors.New("no scenario belongs to the short set: name one or more of " + strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("no scenario given: name one or more of %s, or give --short", strings.Join(known, ", "))
}

// makeWritable creates a directory if necessary, and checks before the run that reports can be
// written to it.
func makeWritable(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(directory, ".writable-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// benchBaselineCommand returns the hidden command that the veth benchmark starts as a peer.
func benchBaselineCommand() *cobra.Command {
	var cpu int
	c := &cobra.Command{
		Use:    "baseline DEVICE DEVICE",
		Short:  "Forward between two devices over asavie/xdp",
		Args:   cobra.ExactArgs(2),
		Hidden: true,
		RunE: func(c *cobra.Command, devices []string) error {
			return bed.RunBaseline(c.Context(), [2]string(devices), cpu)
		},
	}
	c.Flags().IntVar(&cpu, "cpu", 0, "CPU to forward on")
	return c
}
