package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/report/console"
	"sluice/internal/state"
)

func clearCommand() *cobra.Command {
	var o orderOptions
	c := &cobra.Command{
		Use:   "clear",
		Short: "Clear counters, learned FDB entries or watermarks",
		Example: `  sluice clear counters
  sluice clear fdb --port eth0 --vlan 100`,
	}
	o.flags(c)
	c.AddCommand(
		clearing(&o, "counters", "Make show and top count from zero", clearCountersLong,
			(*console.Client).ClearCounters),
		clearing(&o, "watermarks", "Restart the watermarks; persistent ones stay", "",
			(*console.Client).ClearWatermarks),
		clearFDBCommand(&o),
	)
	return c
}

const clearCountersLong = `Makes the counters of ports and of the FDB in show, top and their JSON
count from zero again. show prints since when.

The totals are not lost: Prometheus counters, and the counters that run prints when it ends, still
count from the start. Alarms stay, and the first line keeps earlier lossless drops as the total
since the start.`

// clearing returns a sub-command that clears one thing as a whole.
func clearing(o *orderOptions, what, short, long string,
	order func(*console.Client, context.Context) (*console.Cleared, error),
) *cobra.Command {
	return &cobra.Command{
		Use: what, Short: short, Long: long, Args: cobra.NoArgs, Example: "  sluice clear " + what,
		RunE: func(c *cobra.Command, _ []string) error {
			done, err := order(console.Dial(o.socket), c.Context())
			if err != nil {
				return err
			}
			return o.report(c, done, fmt.Sprintf("%s cleared at %s", done.What, state.Clock(done.At, time.Now())))
		},
	}
}

func clearFDBCommand(o *orderOptions) *cobra.Command {
	var order console.FDBOrder
	c := &cobra.Command{
		Use:   "fdb",
		Short: "Remove learned FDB entries",
		Long: `Removes the learned FDB entries of all ports and VLANs, or only those of one port or
one VLAN. Static entries stay. Frames to a removed address are flooded until its host
sends a frame.`,
		Example: `  sluice clear fdb
  sluice clear fdb --port eth0 --vlan 100`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("port") && order.Device == "" { // an unset shell variable, perhaps
				return cli.Usage(errors.New("--port is empty: name a port, or leave --port out for all"))
			}
			if c.Flags().Changed("vlan") && (order.VLAN < 1 || order.VLAN > lastVLAN) {
				return cli.Usage(fmt.Errorf("--vlan %d: VLANs are 1 to %d; leave --vlan out for all", order.VLAN,
					lastVLAN))
			}
			done, err := console.Dial(o.socket).ClearFDB(c.Context(), order)
			if err != nil {
				return err
			}
			return o.report(c, done, fmt.Sprintf("learned FDB entries cleared at %s", state.Clock(done.At, time.Now())))
		},
	}
	c.Flags().StringVar(&order.Device, "port", "", "only entries of this port (default all)")
	c.Flags().Uint16Var(&order.VLAN, "vlan", 0, "only entries of this VLAN (default all)")
	cli.CompleteWith(c, "port", portNames)
	return c
}
