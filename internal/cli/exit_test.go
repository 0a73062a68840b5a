package cli

import (
	"errors"
	"fmt"
	"testing"

	"sluice/internal/config"
	"sluice/internal/report/console"
)

// TestExitCode reserves code 2 for errors in the configuration file: systemd does not retry after
// it.
func TestExitCode(t *testing.T) {
	mistake := &config.Error{File: "sluice.yaml", Line: 1, Column: 1, Problem: "p", Remedy: "r"}
	stuck := errors.New("a worker does not run")
	for _, c := range []struct {
		err  error
		want int
	}{
		{mistake, ExitConfiguration},
		{config.Errors{mistake, mistake}, ExitConfiguration},
		{fmt.Errorf("port1: %w", mistake), ExitConfiguration},
		{&console.Refusal{Configuration: true}, ExitConfiguration},
		{errors.Join(mistake, stuck), ExitFailure},
		{errors.Join(stuck, fmt.Errorf("port1: %w", mistake)), ExitFailure},
		{&console.Refusal{}, ExitFailure},
		{fmt.Errorf("%w: no such file", config.ErrUnreadable), ExitNoInput},
		{Usage(stuck), ExitUsage},
		{ErrLosses, ExitLosses},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}
