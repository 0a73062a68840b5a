package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/report/console"
)

// orderOptions are the flags common to all commands that change a running switch.
type orderOptions struct {
	socket string
	asJSON bool
}

// flags declares the flags for a command and its sub-commands.
func (o *orderOptions) flags(c *cobra.Command) {
	socketFlag(c, &o.socket)
	c.PersistentFlags().BoolVar(&o.asJSON, "json", false, "print what was done as one JSON document")
}

// report prints what was done: as JSON, or as line unless line is empty.
func (o *orderOptions) report(c *cobra.Command, done any, line string) (err error) {
	switch {
	case o.asJSON:
		err = writeDocument(c.OutOrStdout(), done)
	case line != "":
		_, err = fmt.Fprintln(c.OutOrStdout(), line)
	}
	return err
}

func portCommand() *cobra.Command {
	var o orderOptions
	c := &cobra.Command{
		Use:   "port",
		Short: "Take a port of a running switch out of service, or put it back",
		Long: `Takes a port out of service, or puts it back.

shut holds the peer in XOFF while the switch forwards the frames that are on their way. Then the
device gets its original settings back. Other ports lose no lossless frame. The port stays shut over
link events and reloads, until it is opened or removed from the configuration, or the switch ends.
show ports says shut, and sluice_port_shut is 1.

open says if the port waits for its device or its link. If the switch can't open the port, that is
an error, and the switch tries again every second.`,
	}
	o.flags(c)
	for _, order := range []struct {
		word, short string
		shut        bool
	}{{"shut", "Take a port out of service", true}, {"open", "Put a port back into service", false}} {
		c.AddCommand(&cobra.Command{
			Use:               order.word + " DEVICE",
			Short:             order.short,
			Example:           "  sluice port " + order.word + " eth0",
			Args:              cobra.ExactArgs(1),
			ValidArgsFunction: portNames,
			RunE: func(c *cobra.Command, args []string) error {
				meant := console.PortOrder{Device: args[0], Shut: order.shut}
				done, err := console.Dial(o.socket).Port(c.Context(), meant)
				if err != nil {
					return err
				}
				line := ""
				if done.Waits != "" {
					line = fmt.Sprintf("%s waits: %s", done.Device, done.Waits)
				}
				return o.report(c, done, line)
			},
		})
	}
	return c
}
