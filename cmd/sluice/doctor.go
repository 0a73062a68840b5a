package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/doctor"
)

func doctorCommand() *cobra.Command {
	var file, socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [-c FILE]",
		Short: "Look at the machine as a switch would, and say what is wrong and what mends it",
		Long: `Looks at the machine, and with a configuration at its devices, before a switch is started or while it runs: kernel,
memory, hugepages, limits, capabilities, CPUs, clock; of each device link, driver, zero-copy, MTU, queues, rings, offloads, XDP
programs, PAUSE and PFC in hardware; how long the loop of a worker pauses, and whether headroom covers that.

Each line is ok, a warning (it works, but slower or less surely) or an error (the switch would not start, or would lose
lossless frames), and what can be mended has the command for it, or the line of the configuration, on the next. Nothing is
changed. Without a switch that answers, a worker's loop is run on its CPU for half a second; beside one that does, nothing
is measured and its own counters are read. Exit code 1 if there is an error.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := patient(c.Context(), file, socket)
			if err != nil {
				return err
			}
			r := doctor.Examine(doctor.This(worstGap), p)
			if err := printFindings(c.OutOrStdout(), r, asJSON); err != nil {
				return err
			}
			if r.Errors > 0 {
				return verdictError{}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "the configuration, YAML; without it that of the running switch, if one answers")
	c.Flags().StringVar(&socket, "socket", "/run/sluice/sluice.sock", "where the running switch listens")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// patient finds the running switch, if there is one, and the configuration.
func patient(ctx context.Context, file, socket string) (p doctor.Patient, err error) {
	if running, err := doctor.Ask(ctx, socket); err == nil {
		p.Running = running
	}
	if file == "" && p.Running != nil {
		file = p.Running.Configuration.File
	}
	if file == "" {
		return p, nil
	}
	p.Config, err = loadConfiguration(file)
	if err == nil {
		_, err = control.Params(p.Config, nil)
	}
	var one *config.Error
	if errors.As(err, &one) { // the file can be read, and what is wrong with it is what a doctor is asked for
		return doctor.Patient{Problem: err, Running: p.Running}, nil
	}
	return p, err
}

// worstGap runs a worker's loop on a CPU.
func worstGap(ctx context.Context, cpu int, length time.Duration) (time.Duration, error) {
	gap, err := bench.MeasureGap(ctx, cpu, length)
	return time.Duration(gap.Max), err
}

// printFindings prints a line for each finding, and what mends it below.
func printFindings(w io.Writer, r *doctor.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	widest := 0
	for _, f := range r.Findings {
		widest = max(widest, len(f.Subject))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%-7s  %-*s  %s\n", f.Status, widest, f.Subject, f.Text)
		switch {
		case f.At != "" && f.Mend != "":
			fmt.Fprintf(w, "%-7s  %-*s  mend, at %s: %s\n", "", widest, "", f.At, f.Mend)
		case f.At != "":
			fmt.Fprintf(w, "%-7s  %-*s  at %s\n", "", widest, "", f.At)
		case f.Mend != "":
			fmt.Fprintf(w, "%-7s  %-*s  mend: %s\n", "", widest, "", f.Mend)
		}
	}
	_, err := fmt.Fprintf(w, "%d errors, %d warnings\n", r.Errors, r.Warnings)
	return err
}
