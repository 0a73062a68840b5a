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

// Run runs the command that the command line names, and ends the program with its exit code.
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

// oneSignal is how long after SIGINT or SIGTERM another one is taken for the same: timeout(1)
// signals the process and its group. A later one ends the program at once.
const oneSignal = time.Second

// Patiently returns what do returns, or ErrNobodyReads after OutputPatience, so that a blocked
// output can't keep the program from ending.
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

// OutputPatience is how long a program that ends waits for somebody to read its output.
const OutputPatience = time.Second

// ErrNobodyReads says that output was not read in time.
var ErrNobodyReads = errors.New("output not read in time")

// complain says what is wrong, unless the verdict already has. Lines about a configuration begin
// with its name, as compilers' do, so that editors find the place.
func complain(program string, err error) {
	switch {
	case errors.Is(err, ErrVerdict):
	case ExitCode(err) == ExitConfiguration:
		fmt.Fprintln(os.Stderr, err)
	default:
		fmt.Fprintln(os.Stderr, program+":", err)
	}
}

// execute runs the command that the command line names. What fails before it has begun is a
// usageError.
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

// unknownCommand refuses a word behind a command that only has sub-commands: cobra shows its help
// and calls that success.
func unknownCommand(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || c.Runnable() || !c.HasParent() { // cobra says what is wrong, if anything is
		return nil
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil || c.Flags().NArg() == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q: %s --help lists those that there are", c.Flags().Arg(0),
		c.CommandPath(), c.CommandPath())
}
