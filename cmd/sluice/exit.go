package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/console"
)

// Exit codes beside 0. Those from 64 on are of sysexits.h (BSD): EX_USAGE and EX_NOINPUT.
const (
	exitFailure       = 1  // may pass, or depends on the machine
	exitConfiguration = 2  // mend the configuration first
	exitLosses        = 3  // show drops --fail: lossless frames were dropped
	exitUsage         = 64 // mend the command line first
	exitNoInput       = 66 // the configuration file can't be read
)

// exitCode returns the exit code for what a command returned.
func exitCode(err error) int {
	var one *config.Error
	var refusal *console.Refusal
	var wrong usageError
	var losses lossError
	switch {
	case errors.As(err, &one), errors.As(err, &refusal) && refusal.Configuration:
		return exitConfiguration
	case errors.Is(err, config.ErrUnreadable):
		return exitNoInput
	case errors.As(err, &losses):
		return exitLosses
	case errors.As(err, &wrong):
		return exitUsage
	}
	return exitFailure
}

// usageError is a command line that means nothing: an unknown command or flag, an argument too many or too few, or a value
// that no machine could make right.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage marks an error, if there is one, as a usageError.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// execute runs the command that the command line names. What fails before it has begun is a usageError.
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
		return usage(err)
	}
	err := root.ExecuteContext(ctx)
	if !begun {
		return usage(err)
	}
	return err
}

// unknownCommand refuses a word behind a command that only has sub-commands: cobra shows its help and calls that success.
func unknownCommand(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || c.Runnable() || !c.HasParent() { // cobra says what is wrong, if anything is
		return nil
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil || c.Flags().NArg() == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q: %s --help lists those that there are", c.Flags().Arg(0), c.CommandPath(), c.CommandPath())
}
