// Package cli is the command-line code that both programs share: exit codes, completion, manual
// pages, flags with units, and progress.
package cli

import (
	"errors"

	"sluice/internal/config"
	"sluice/internal/report/console"
)

// Exit codes other than 0. Codes from 64 on are from sysexits.h (BSD): EX_USAGE and EX_NOINPUT.
const (
	ExitFailure       = 1  // temporary, or depends on the machine
	ExitConfiguration = 2  // fix the configuration file; nothing else is wrong
	ExitLosses        = 3  // show drops --fail: lossless frames were dropped
	ExitUsage         = 64 // fix the command line
	ExitNoInput       = 66 // the configuration file can't be read
)

// ExitCode returns the exit code for the error of a command.
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

// usageError is an error in the command line: an unknown command or flag, too many or too few
// arguments, or a value that is invalid on any machine.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ErrLosses is the error of a command that has found losses.
var ErrLosses = errors.New("lossless frames were dropped")

// ErrVerdict sets the exit code of a command that has already printed a verdict other than pass.
var ErrVerdict = errors.New("the verdict is not pass")

// Usage marks err, unless it is nil, as an error in the command line.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}
