package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/doctor"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/report/console"
)

func doctorCommand() *cobra.Command {
	var file, socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [-c FILE]",
		Short: "Check the machine, and suggest a fix for each problem",
		Long: `Checks the machine and, with a configuration, its devices, before a switch starts or
while it runs:

  machine   kernel, memory, hugepages, limits, capabilities, CPUs, clock
  devices   link, driver, zero-copy, MTU, queues, rings, offloads, XDP programs, PAUSE and PFC in
            hardware
  workers   the longest wait (two consecutive gaps of a worker's loop), and whether the headroom
            covers it
  sending   whether the sockets or the transmitter send, and whether the transmitter has its CPU to
            itself

Each line is ok, a warning (it works, but slower or less reliably) or an error (the switch would not
start, or would lose lossless frames). The next line has the fix, if there is one: a command, or a
line of the configuration. doctor itself changes nothing.

To measure the gap, doctor runs a worker's loop on its CPU for half a second, unless that would
disturb a program of Sluice. If a switch answers, doctor measures nothing and reads the counters of
that switch. Exit code 1 if there is an error.`,
		Example: `  sluice doctor                  # the machine, and the switch if one runs
  sluice doctor -c switch.yaml   # and the devices of this file`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("socket") {
				socket = "" // use that of the configuration
			}
			p, err := findTarget(c.Context(), file, socket)
			if err != nil {
				return err
			}
			p.Check = func(c *config.Config) error {
				_, err := params.Of(c, nil)
				return err
			}
			if p.Config != nil {
				p.Ring = params.RingSize(p.Config)
			}
			r := doctor.Examine(doctor.This(worstGap), p)
			if err := printFindings(c.OutOrStdout(), r, asJSON); err != nil {
				return err
			}
			if r.Errors > 0 {
				return cli.ErrVerdict
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "",
		"the configuration, a YAML `file` (default that of the running switch, if one answers)")
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// findTarget finds the configuration and the running switch, as far as they exist. Without a file
// it examines the configuration of the running switch. Without a socket it uses that of the
// configuration, or else the default.
func findTarget(ctx context.Context, file, socket string) (p doctor.Target, err error) {
	if file != "" {
		if p.Config, p.Problem, err = examined(config.Load(file)); err != nil {
			return p, err
		}
	}
	if socket == "" {
		socket = console.DefaultSocket
		if p.Config != nil {
			socket = p.Config.Control.Socket
		}
	}
	if socket == "" { // control.socket: none
		return p, nil
	}
	client := console.Dial(socket)
	now, err := client.State(ctx)
	switch {
	case errors.Is(err, context.Canceled):
		return p, err
	case errors.Is(err, console.ErrNoSwitch):
		return p, nil
	case err != nil:
		p.Silent = err
		return p, nil
	}
	p.Running = &doctor.Running{Switch: now, Socket: socket}
	// Parse the text that the switch has loaded: the file may have changed since, and the switch
	// may have resolved its name in another directory.
	if file == "" {
		its, err := client.Config(ctx)
		if err != nil {
			return p, err
		}
		p.Config, p.Problem, err = examined(config.Parse(its.File, []byte(its.Text)))
		return p, err
	}
	return p, nil
}

// examined checks a configuration. An error in the configuration is a problem for the doctor to
// report; failure to read it is an error of the command.
func examined(c *config.Config, err error) (_ *config.Config, problem, other error) {
	if err == nil {
		_, err = params.Of(c, nil)
	}
	var one *config.Error
	if errors.As(err, &one) {
		return nil, err, nil
	}
	return c, nil, err
}

// worstGap measures the longest two gaps in a row of a worker's loop on a CPU.
func worstGap(ctx context.Context, cpu int, length time.Duration) (time.Duration, error) {
	gap, err := loopgap.Measure(ctx, cpu, length)
	return time.Duration(gap.Wait), err
}

// printFindings prints one line per finding, followed by its fix.
func printFindings(w io.Writer, r *doctor.Report, asJSON bool) error {
	if asJSON {
		return writeDocument(w, r)
	}
	widest := 0
	for _, f := range r.Findings {
		widest = max(widest, len(f.Subject))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%-7s  %-*s  %s\n", f.Status, widest, f.Subject, f.Text)
		switch {
		case f.At != "" && f.Fix != "":
			fmt.Fprintf(w, "%-7s  %-*s  fix, at %s: %s\n", "", widest, "", f.At, f.Fix)
		case f.At != "":
			fmt.Fprintf(w, "%-7s  %-*s  at %s\n", "", widest, "", f.At)
		case f.Fix != "":
			fmt.Fprintf(w, "%-7s  %-*s  fix: %s\n", "", widest, "", f.Fix)
		}
	}
	_, err := fmt.Fprintf(w, "errors: %d, warnings: %d\n", r.Errors, r.Warnings)
	return err
}
