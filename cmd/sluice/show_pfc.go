package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/report/console"
	"sluice/internal/report/show"
)

func showPFCCommand(o *showOptions) *cobra.Command {
	var history bool
	c := &cobra.Command{
		Use:   "pfc",
		Short: "Show PFC frames and pauses by priority, in both directions",
		Long: `Shows the PFC frames that name each priority, sent (TX) and received (RX), and the
pauses that resulted: how many, their total duration, and whether one lasts now.

The last table counts the MAC control frames that each port received. Those that the port did not
honour are also counted by kind: MALFORMED (cut off), UNKNOWN, IGNORED (a kind of flow control that
the port does not do) and MISADDRESSED (sent to another address). SHORT frames lack their padding,
but are honoured.

With --history, a further table has the latest pauses of each port, one by one.`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, draw(show.PFC(history)))
		},
	}
	c.Flags().BoolVar(&history, "history", false, "add the latest pauses, one by one")
	return c
}

func showWatermarksCommand(o *showOptions) *cobra.Command {
	var persistent bool
	c := &cobra.Command{
		Use:   "watermarks",
		Short: "Show the highest usage of priority groups, queues and pools",
		Long: `Shows the highest usage of priority groups, egress queues and pools since the
watermarks were cleared (sluice clear watermarks), or with --persistent since the
start.`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, draw(show.Watermarks(persistent)))
		},
	}
	c.Flags().BoolVar(&persistent, "persistent", false,
		"show the highest usage since the start, even if watermarks were cleared")
	c.AddCommand(&cobra.Command{
		Use:   "clear",
		Short: "Clear the watermarks, as sluice clear watermarks does",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := console.Dial(o.socket).ClearWatermarks(c.Context())
			return err
		},
	})
	return c
}
