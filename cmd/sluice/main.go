// Command sluice is a lossless Ethernet switch on AF_XDP, and the hosts to try it with.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// version is set by the Makefile.
var version = "unknown"

// Exit codes beside 0: 1 is any failure, 2 a configuration that has to be mended first.
const (
	exitFailure       = 1
	exitConfiguration = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, stop) // the second one ends the program at once
	if err := command().ExecuteContext(ctx); err != nil {
		var quiet verdictError
		if !errors.As(err, &quiet) {
			fmt.Fprintln(os.Stderr, "sluice:", err)
		}
		os.Exit(exitCode(err))
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "A software lossless Ethernet switch: AF_XDP, PFC, ETS",
		SilenceErrors: true, // main prints them
		SilenceUsage:  true, // a failed run is not a wrong call
	}
	root.AddCommand(runCommand(), checkCommand(), showCommand(), topCommand(), reloadCommand(), stormCommand(), captureCommand(),
		demoCommand(), genCommand(), benchCommand(), simCommand(), headroomCommand(),
		versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "sluice", version)
			return err
		},
	}
}
