package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/control/memory"
	"sluice/internal/control/params"
	"sluice/internal/report/console"
	"sluice/internal/text/prose"
)

func checkCommand() *cobra.Command {
	var file string
	var asJSON, running bool
	c := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Validate a configuration, and print what it means",
		Long: `Reads a configuration as run does, validates it without touching a device, and prints
what it means: ports, priority groups with their weights, queues, QoS domains,
classes, memory, LLDP, DCBX and FIP snooping.

If the file has errors, check prints all of them, each with its line, column and a fix, and ends
with exit code 2.

A note warns if this machine, or the control group of this process, has too little memory left: run
would refuse to start here. Another one warns if the file is in a directory that holds much else,
such as /etc: a confined switch can read all of it.

With --running, asks the switch that runs, at the control socket of the file, what a reload of this
file would change, and notes it: ports that come, leave or go down, and FCoE sessions that end. If
the switch would refuse the reload, check prints the rest, and then the errors of reload, with its
exit code. If no switch answers, it prints the rest and ends with exit code 1.`,
		Example: `  sluice check -c switch.yaml
  sluice check -c new.yaml --running            # what a reload would change
  sluice check -c examples/bridge.yaml --json   # for programs`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			configuration, err := config.Load(file)
			if err != nil {
				return err
			}
			if _, err := params.Of(configuration, nil); err != nil { // counts memory, allocates none
				return err
			}
			r := newCheckReport(configuration)
			var refused error // what the file means is printed all the same
			if running {
				refused = r.addPreview(c.Context())
			}
			r.addMemory(memory.Read)
			r.Notes = append(r.Notes, sharedNotes(configurationDirectories(configuration, file))...)
			if asJSON {
				err = writeDocument(c.OutOrStdout(), r)
			} else {
				err = r.print(c.OutOrStdout())
			}
			return errors.Join(err, refused)
		},
	}
	configurationFlag(c, &file)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&running, "running", false, "ask the running switch what a reload would change")
	return c
}

// checkReport is what a configuration means.
type checkReport struct {
	OK bool `json:"ok"`
	// the keys of the file, written as there, with their values or defaults; those without effect
	// are missing
	Configuration *config.Config   `json:"configuration"`
	Ports         []portFigures    `json:"ports"` // in the order of the configuration
	Memory        memoryFigures    `json:"memory"`
	Reload        *control.Preview `json:"reload,omitempty"` // with --running, unless it is refused
	Notes         []string         `json:"notes,omitempty"`
}

// portFigures is what follows from a configuration for a port. Sizes are in bytes.
type portFigures struct {
	Device   string        `json:"device"`
	Parts    int           `json:"parts"`           // maximum number of buffers that a frame occupies
	Headroom int           `json:"headroom"`        // of lossless classes without a headroom of their own; 0: none
	Pause    *pauseFigures `json:"pause,omitempty"` // of ports that pause their peers
}

// pauseFigures is the times that keep the lossless classes of a port lossless, in ns at the rate of
// the link.
type pauseFigures struct {
	NS          int64 `json:"ns"`            // how long a pause lasts
	RefreshNS   int64 `json:"refresh_ns"`    // how long after its start a pause is repeated
	ResponseNS  int64 `json:"response_ns"`   // how much longer than the standard allows it may take to stop the peer
	LeastNS     int64 `json:"least_ns"`      // the shortest response that the worker can keep to
	Ring        int   `json:"ring"`          // entries of the receive ring
	RingWaitsNS int64 `json:"ring_waits_ns"` // how long the shortest frames may wait in it at line rate
}

// memoryFigures is the memory that a switch needs, in bytes, and whether this machine has it now.
type memoryFigures struct {
	memory.Need
	Fits bool `json:"fits"`
}

func newCheckReport(c *config.Config) *checkReport {
	r := &checkReport{OK: true, Configuration: c}
	own := func(class config.Class) bool { return class.Lossless && class.Headroom == 0 }
	for i := range c.Ports {
		p := &c.Ports[i]
		f := portFigures{Device: p.Device, Parts: p.Parts}
		if slices.ContainsFunc(c.Classes, own) {
			f.Headroom = p.Headroom
		}
		if p.Pauses() {
			ring := params.RingSize(c)
			f.Pause = &pauseFigures{NS: int64(p.PauseTime(c.PFC.Quanta)), RefreshNS: int64(p.PauseTime(p.Refresh)),
				ResponseNS: int64(p.Response), LeastNS: int64(params.LeastResponse(c, p)), Ring: ring,
				RingWaitsNS: int64(p.RingTime(ring))}
		}
		r.Ports = append(r.Ports, f)
	}
	r.Notes = slices.Concat(unusedNotes(c), partsNotes(c), dcbxNotes(c), fcoeNotes(c))
	return r
}

// users returns the devices of the ports that use a profile or domain.
func users(c *config.Config, name string, of func(*config.Port) string) (devices []string) {
	for i := range c.Ports {
		if of(&c.Ports[i]) == name {
			devices = append(devices, c.Ports[i].Device)
		}
	}
	return devices
}

func etsOf(p *config.Port) string { return p.ETSName }
func qosOf(p *config.Port) string { return p.QoSName }

// addPreview asks the running switch what a reload of the file would change.
func (r *checkReport) addPreview(ctx context.Context) (err error) {
	c := r.Configuration
	if c.Control.Socket == "" {
		return errors.New("--running: the configuration has no control socket: set control.socket, or leave out " +
			"--running")
	}
	file, text := c.Source()
	client := console.Dial(c.Control.Socket)
	r.Reload, err = client.Preview(ctx, text)
	var refusal *console.Refusal
	switch {
	case errors.Is(err, console.ErrNoSwitch):
		return fmt.Errorf("--running: %w at %s: set control.socket to that of the switch, or leave out --running",
			console.ErrNoSwitch, c.Control.Socket)
	case errors.As(err, &refusal) && refusal.Configuration:
		if runs, err := client.Config(ctx); err == nil { // the text is in this file, not in that of the switch
			refusal.Message = strings.ReplaceAll(refusal.Message, runs.File+":", file+":")
		}
		return fmt.Errorf("the switch would refuse to reload: %w", err)
	case err != nil:
		return fmt.Errorf("--running: %w", err)
	}
	for _, change := range r.Reload.Changes {
		r.Notes = append(r.Notes, "a reload "+change)
	}
	for _, e := range r.Reload.Ending {
		r.Notes = append(r.Notes, fmt.Sprintf("a reload ends %s: %s", prose.Count(e.Sessions, "FCoE session"), e.Why))
	}
	if n := r.Reload.Sessions; n != nil && len(r.Reload.Ending) == 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("a reload ends no FCoE session; there are %d now", *n))
	}
	return nil
}

// addMemory compares the switch's memory with what is available. Too little is only a note: the
// configuration may be for another machine.
func (r *checkReport) addMemory(read memory.Reader) {
	need := memory.Of(r.Configuration)
	err := need.Fits(read)
	r.Memory = memoryFigures{need, err == nil}
	if err := memory.Hidden(read); err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("`sluice run` would not start here: %v", err))
	}
}
