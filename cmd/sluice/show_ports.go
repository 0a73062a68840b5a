package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/console"
	"sluice/internal/screen"
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
			v := view{draws: partPorts, tables: portTables}
			if interval == 0 || o.asJSON {
				return o.run(c, v.draw)
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
		now, headline, err := o.ask(ctx, c, partPorts)
		if err == nil && before == nil {
			before = now
			if err := cli.Sleep(ctx, interval); err != nil {
				return err
			}
			now, headline, err = o.ask(ctx, c, partPorts)
		}
		if err != nil {
			return err
		}
		err = o.print(out, now, headline,
			func(*state.Switch) []table { return append(portTables(now), rateTable(now, before)) })
		before = now
		return err
	}
}

// rateTable shows the rates of ports between two reports.
func rateTable(now, before *state.Switch) table {
	title := fmt.Sprintf("Rates over the last %v:", span(now.Time.Sub(before.Time)))
	t := table{title: title, apart: byPort, columns: []column{
		text("PORT"), count("RX bit/s"), count("RX frame/s"), number("RX %"), count("TX bit/s"), count("TX frame/s"),
		number("TX %"), count("DROP/s"),
	}}
	for i, r := range screen.Rates(now, before) {
		t.rows = append(t.rows, []any{
			now.Ports[i].Name, perSecond(r.Received.Bits), perSecond(r.Received.Frames),
			fixedRate(100 * r.Received.Share),
			perSecond(r.Sent.Bits), perSecond(r.Sent.Frames), fixedRate(100 * r.Sent.Share), perSecond(r.Dropped),
		})
	}
	return t
}

// perSecond is a rate per second, printed without decimals.
type perSecond float64

func (r perSecond) String() string {
	if !screen.Known(float64(r)) {
		return nothing
	}
	return screen.Number(float64(r))
}

// fixedRate is a percentage with one decimal, or nothing if unknown.
func fixedRate(x float64) fixed { return fixed{x, 1, !screen.Known(x)} }
