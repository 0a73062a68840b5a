package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Run runs the command on the command line and exits with its exit code.
func Run(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.Sleep(oneSignal)
		stop()
	})
	if err := execute(ctx, root); err != nil {
		_ = Patiently(func() error { complain(root.Name(), err); return nil })
		os.Exit(ExitCode(err))
	}
}

// oneSignal is how long after SIGINT or SIGTERM a second signal counts as the same one: timeout(1)
// signals the process and then its group. A later signal ends the program at once.
const oneSignal = time.Second

// Patiently returns the result of do, or ErrNobodyReads after OutputPatience, so a blocked output
// can't keep the program from exiting.
func Patiently(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(OutputPatience):
		return ErrNobodyReads
	}
}

// OutputPatience is how long an exiting program waits for its output to be read.
const OutputPatience = time.Second

// ErrNobodyReads reports that output was not read in time.
var ErrNobodyReads = errors.New("output not read in time")

// complain prints an error, unless the verdict already covers it. Errors in a configuration file
// start with the file name, as a compiler's do, so that editors can jump to the line.
func complain(program string, err error) {
	switch {
	case errors.Is(err, ErrVerdict):
	case ExitCode(err) == ExitConfiguration:
		fmt.Fprintln(os.Stderr, err)
	default:
		fmt.Fprintln(os.Stderr, program+":", err)
	}
}

// execute runs the command on the command line. Errors before its RunE starts are usage errors.
func execute(ctx context.Context, root *cobra.Command) error {
	begun := false
	var mark func(c *cobra.Command)
	mark = func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				begun = true
				return run(c, args)
			}
		}
		for _, sub := range c.Commands() {
			mark(sub)
		}
	}
	mark(root)
	if err := unknownCommand(root, os.Args[1:]); err != nil {
		return Usage(err)
	}
	err := root.ExecuteContext(ctx)
	if !begun {
		return Usage(err)
	}
	return err
}

// unknownCommand rejects an unknown word after a command that only groups sub-commands. Cobra would
// print its help and exit with 0.
func unknownCommand(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || c.Runnable() || !c.HasParent() { // cobra reports the error, if there is one
		return nil
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil || c.Flags().NArg() == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q: `%s --help` lists the commands", c.Flags().Arg(0),
		c.CommandPath(), c.CommandPath())
}
