package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/console"
	"sluice/internal/state"
)

func clearCommand() *cobra.Command {
	var o orderOptions
	c := &cobra.Command{
		Use:   "clear",
		Short: "Clear counters, learned addresses or watermarks",
		Example: `  sluice clear counters
  sluice clear fdb --port eth0 --vlan 100`,
	}
	o.flags(c)
	c.AddCommand(
		clearing(&o, "counters", "Have show and top count from zero", clearCountersLong,
			(*console.Client).ClearCounters),
		clearing(&o, "watermarks", "Begin the watermarks anew; persistent ones stay", "",
			(*console.Client).ClearWatermarks),
		clearFDBCommand(&o),
	)
	return c
}

const clearCountersLong = `Counters of ports and of learned addresses in show, top and their JSON count from zero again,
and the report says since when. Nothing is lost: Prometheus' counters go on, the counters that
run prints at its end are of the whole time, alarms stay, and lossless drops from before stay in
the first line, as the total since the start.`

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
		Short: "Forget learned addresses",
		Long: `Forgets the addresses that were learned, on all ports and in all VLANs, or only on one
port or in one VLAN. Static entries stay. Frames to a forgotten address are flooded until its
station sends something.`,
		Example: `  sluice clear fdb
  sluice clear fdb --port eth0 --vlan 100`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("port") && order.Device == "" { // an unset shell variable, perhaps
				return cli.Usage(errors.New("--port names none: write a device, or leave it out for all"))
			}
			if c.Flags().Changed("vlan") && (order.VLAN < 1 || order.VLAN > lastVLAN) {
				return cli.Usage(fmt.Errorf("--vlan %d: VLANs are 1 to %d; leave it out for all", order.VLAN, lastVLAN))
			}
			done, err := console.Dial(o.socket).ClearFDB(c.Context(), order)
			if err != nil {
				return err
			}
			return o.report(c, done, fmt.Sprintf("learned addresses cleared at %s", state.Clock(done.At, time.Now())))
		},
	}
	c.Flags().StringVar(&order.Device, "port", "", "only those on this port (default all)")
	c.Flags().Uint16Var(&order.VLAN, "vlan", 0, "only those in this VLAN (default all)")
	cli.CompleteWith(c, "port", portNames)
	return c
}
