// Command sluice is a lossless Ethernet switch on AF_XDP, and the hosts to try it with.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/internal/microarch"
)

// version is set by the Makefile.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.Sleep(oneSignal)
		stop()
	})
	if err := execute(ctx, command()); err != nil {
		_ = patiently(func() error { complain(err); return nil })
		os.Exit(exitCode(err))
	}
}

// oneSignal is how long after SIGINT or SIGTERM another one is taken for the same: timeout(1) signals the process and its
// group. A later one ends the program at once.
const oneSignal = time.Second

// patiently returns what do returns, or errNobodyReads after outputPatience, so that a blocked output can't keep the
// program from ending.
func patiently(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(outputPatience):
		return errNobodyReads
	}
}

const outputPatience = time.Second

var errNobodyReads = errors.New("output not read in time")

// complain says what is wrong, unless the verdict already has. Lines about a configuration begin with its name, as compilers'
// do, so that editors find the place.
func complain(err error) {
	var quiet verdictError
	switch {
	case errors.As(err, &quiet):
	case exitCode(err) == exitConfiguration:
		fmt.Fprintln(os.Stderr, err)
	default:
		fmt.Fprintln(os.Stderr, "sluice:", err)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A software lossless Ethernet switch: AF_XDP, PFC, ETS",
		Long: `Sluice is a lossless Ethernet switch in software. It forwards between the network devices of this machine, and where the
frames of a lossless class pile up it stops their senders with PFC (IEEE 802.1Qbb) rather than drop one.`,
		Example: `  sluice demo                  # three hosts and a switch, on this machine alone (root)
  sluice check -c FILE         # what comes of a configuration, or what is wrong with it
  sluice run -c FILE           # until SIGINT or SIGTERM (root)
  sluice help conventions      # exit codes, signals, units`,
		SilenceErrors: true, // main prints them
		SilenceUsage:  true, // a failed run is not a wrong call
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run a switch:", []*cobra.Command{checkCommand(), doctorCommand(), runCommand(), reloadCommand(), schemaCommand()}},
		{"Look at one that runs:", []*cobra.Command{showCommand(), topCommand(), captureCommand()}},
		{"Steer one that runs:", []*cobra.Command{clearCommand(), portCommand(), stormCommand()}},
		{"Try it:", []*cobra.Command{demoCommand(), genCommand()}},
		{"Compute and measure:", []*cobra.Command{headroomCommand(), simCommand(), benchCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(versionCommand(), docsCommand(), conventionsTopic())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built for",
		Example: `  sluice version`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "sluice %s, for %s\n", version, microarch.Built())
			return err
		},
	}
}
