package main

import (
	"context"
	"encoding/json"
	"fmt"
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
		Short: "What each port has received, sent and dropped, and its rates",
		Long: `Counters of each port since the start, and its rates: bit/s on the wire (with FCS, preamble and gap),
frames/s and the share of the port's speed. Rates need two looks at the switch, --interval apart;
with --watch, each is compared with the one before.`,
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
			return o.run(c, tablesOf(o.ratedPorts(interval)))
		},
	}
	c.Flags().DurationVar(&interval, "interval", firstInterval, "the time that rates are averages of; 0 leaves them out")
	return c
}

// ratedPorts returns the tables of ports, with their rates unless the interval is 0. The first
// time they take that long.
func (o *showOptions) ratedPorts(
	interval time.Duration,
) func(context.Context, *console.Client, *state.Switch) ([]table, error) {
	var before *state.Switch
	return func(ctx context.Context, c *console.Client, now *state.Switch) ([]table, error) {
		if interval == 0 {
			return portTables(now), nil
		}
		if before == nil {
			if err := cli.Sleep(ctx, interval); err != nil {
				return nil, err
			}
			later, err := c.State(ctx)
			if err != nil {
				return nil, err
			}
			before, now = now, o.filter.report(later)
		}
		tables := append(portTables(now), rateTable(now, before))
		before = now
		return tables, nil
	}
}

// rateTable shows the rates of ports between two reports.
func rateTable(now, before *state.Switch) table {
	title := fmt.Sprintf("Rates over the last %v:", span(now.Time.Sub(before.Time)))
	t := table{key: "rates", title: title, columns: []column{
		text("port", "PORT"), count("rx_bps", "RX bit/s"), count("rx_fps", "RX frame/s"), number("rx_percent", "RX %"),
		count("tx_bps", "TX bit/s"), count("tx_fps", "TX frame/s"), number("tx_percent", "TX %"), count("drops_fps", "DROP/s"),
	}}
	for i, r := range screen.Rates(now, before) {
		t.rows = append(t.rows, []any{
			now.Ports[i].Name, perSecond(r.Received.Bits), perSecond(r.Received.Frames), fixedRate(100 * r.Received.Share),
			perSecond(r.Sent.Bits), perSecond(r.Sent.Frames), fixedRate(100 * r.Sent.Share), perSecond(r.Dropped),
		})
	}
	return t
}

// perSecond is a number per second, which people see rounded, and null in JSON if it is not known.
type perSecond float64

func (r perSecond) String() string {
	if !screen.Known(float64(r)) {
		return nothing
	}
	return screen.Number(float64(r))
}

// MarshalJSON writes null where there is no number.
func (r perSecond) MarshalJSON() ([]byte, error) {
	if !screen.Known(float64(r)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// fixedRate is a percentage with one decimal, if it is known.
func fixedRate(x float64) fixed { return fixed{x, 1, !screen.Known(x)} }
