package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/console"
	"sluice/internal/state"
)

// lossError is that a switch has dropped so many frames of lossless classes for want of room,
// which --fail makes a failure.
type lossError uint64

func (n lossError) Error() string { return fmt.Sprintf("lossless drops: %d", uint64(n)) }

func (n lossError) Is(target error) bool { return target == cli.ErrLosses }

func showDropsCommand(o *showOptions) *cobra.Command {
	var fail bool
	c := &cobra.Command{
		Use:   "drops",
		Short: "What was dropped, and why",
		Long: fmt.Sprintf(`Frames that the switch dropped, by port, class and reason; frames lost between device and switch;
and alarms.

With --fail, the exit code is %d if the switch has dropped frames of a lossless class for want of
room: the number in the first line, which counts all ports whatever the filters, is not 0. With
--watch, show ends as soon as that is so. Other failures keep their exit codes, so 0 means that the
switch has answered and has lost nothing.`, cli.ExitLosses),
		Example: `  sluice show drops --nonzero
  sluice show drops --fail > /dev/null`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			draw := tablesOf(only(dropTables))
			if fail {
				draw = failing
			}
			return o.run(c, draw)
		},
	}
	c.Flags().BoolVar(&fail, "fail", false, fmt.Sprintf("exit with code %d if lossless frames were dropped", cli.ExitLosses))
	return c
}

// failing draws the drops, and returns a lossError if there are any that must not be.
func failing(ctx context.Context, o *showOptions, c *console.Client, out io.Writer) error {
	var losses lossError
	err := tablesOf(func(_ context.Context, _ *console.Client, r *state.Switch) ([]table, error) {
		losses = lossError(r.LosslessDrops)
		return dropTables(r), nil
	})(ctx, o, c, out)
	if err == nil && losses > 0 {
		return losses
	}
	return err
}
