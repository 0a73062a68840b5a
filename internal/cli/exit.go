// Package cli is what the programs of this project have in common on the command line: how they
// begin and end, completion, manual pages, flags with units, and progress.
package cli

import (
	"errors"

	"sluice/internal/config"
	"sluice/internal/console"
)

// Exit codes beside 0. Those from 64 on are of sysexits.h (BSD): EX_USAGE and EX_NOINPUT.
const (
	ExitFailure       = 1  // may pass, or depends on the machine
	ExitConfiguration = 2  // mend the configuration file first; nothing else is wrong
	ExitLosses        = 3  // show drops --fail: lossless frames were dropped
	ExitUsage         = 64 // mend the command line first
	ExitNoInput       = 66 // the configuration file can't be read
)

// ExitCode returns the exit code for what a command returned.
func ExitCode(err error) int {
	var refusal *console.Refusal
	var wrong usageError
	switch {
	case config.AtFault(err), errors.As(err, &refusal) && refusal.Configuration:
		return ExitConfiguration
	case errors.Is(err, config.ErrUnreadable):
		return ExitNoInput
	case errors.Is(err, ErrLosses):
		return ExitLosses
	case errors.As(err, &wrong):
		return ExitUsage
	}
	return ExitFailure
}

// usageError is a command line that means nothing: an unknown command or flag, an argument too many
// or too few, or a value that no machine could make right.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ErrLosses marks the error of a command that has found losses.
var ErrLosses = errors.New("lossless frames were dropped")

// ErrVerdict makes the exit code say what the verdict, which has been printed, already said.
var ErrVerdict = errors.New("the verdict is not pass")

// Usage marks an error, if there is one, as one of the command line: nothing but another one mends
// it.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}
