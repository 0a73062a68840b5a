package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/report/console"
	"sluice/internal/report/show"
)

// lossError is the error of --fail: the number of frames of lossless classes that the switch
// dropped because buffers were full.
type lossError uint64

func (n lossError) Error() string { return fmt.Sprintf("lossless drops: %d", uint64(n)) }

func (n lossError) Is(target error) bool { return target == cli.ErrLosses }

func showDropsCommand(o *showOptions) *cobra.Command {
	var fail bool
	c := &cobra.Command{
		Use:   "drops",
		Short: "Show which frames were dropped, and why",
		Long: fmt.Sprintf(`Shows the frames that the switch dropped, by port, class and reason; the
frames lost between device and switch; and alarms.

With --fail, the exit code is %d if the switch has dropped frames of a lossless class for lack of
room: the number in the first line, which counts all ports whatever the filters, is not 0. With
--watch, show ends as soon as that is so. Other failures keep their exit codes, so 0 means that the
switch has answered, and that this number is 0.`, cli.ExitLosses),
		Example: `  sluice show drops --nonzero
  sluice show drops --fail > /dev/null`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, func(ctx context.Context, o *showOptions, client *console.Client, out io.Writer) error {
				r, headline, err := o.ask(ctx, client, show.Drops.Draws)
				if err != nil {
					return err
				}
				if err := o.print(out, r, headline, show.Drops); err != nil || !fail || r.LosslessDrops == 0 {
					return err
				}
				return lossError(r.LosslessDrops)
			})
		},
	}
	c.Flags().BoolVar(&fail, "fail", false, fmt.Sprintf("exit with code %d if lossless frames were dropped",
		cli.ExitLosses))
	return c
}
