package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/report/console"
	"sluice/internal/report/show"
	"sluice/internal/state"
)

func showPortsCommand(o *showOptions) *cobra.Command {
	var interval time.Duration
	c := &cobra.Command{
		Use:   "ports",
		Short: "Show received, sent and dropped frames of each port, and rates",
		Long: `Shows the counters of each port since the start (or since sluice clear counters), and
its rates: bit/s on the wire (with FCS, preamble and gap), frames/s, and the share of
the port's speed.

show measures the rates over --interval, and with --watch between two refreshes. --json has no
rates: divide the differences between the counters of two documents by those of now_ns.`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval != 0 {
				if err := checkInterval("--interval", interval); err != nil {
					return err
				}
			}
			if o.watch > 0 {
				interval = min(interval, o.watch)
			}
			if interval == 0 || o.asJSON {
				return o.run(c, draw(show.Ports(nil)))
			}
			return o.run(c, ratedPorts(interval))
		},
	}
	c.Flags().DurationVar(&interval, "interval", firstInterval,
		"time over which rates are averaged; 0: no rates")
	return c
}

// ratedPorts draws ports with their rates. The first drawing takes as long as the interval.
func ratedPorts(interval time.Duration) drawing {
	var before *state.Switch
	return func(ctx context.Context, o *showOptions, c *console.Client, out io.Writer) error {
		now, headline, err := o.ask(ctx, c, show.PartPorts)
		if err == nil && before == nil {
			before = now
			if err := cli.Sleep(ctx, interval); err != nil {
				return err
			}
			now, headline, err = o.ask(ctx, c, show.PartPorts)
		}
		if err != nil {
			return err
		}
		err = o.print(out, now, headline, show.Ports(before))
		before = now
		return err
	}
}
