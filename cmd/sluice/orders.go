package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/console"
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
		Short: "Shut a port of a running switch by hand, or open it again",
		Long: `Takes a port out of service, or puts it back. The peer of a port that is shut is held in
XOFF while what was on its way is still forwarded; then the device is given back as it was before
the switch had it. Other ports lose no lossless frame.

A port stays shut, whatever its link does and over reloads, until it is opened, taken out of the configuration, or the
switch ends. show ports calls it shut, and sluice_port_shut is 1.

What is opened says if it waits for its device or its link. If it can't be opened, that is an error, and the switch goes on trying.`,
	}
	o.flags(c)
	for _, order := range []struct {
		word, short string
		shut        bool
	}{{"shut", "Take a port out of service", true}, {"open", "Put a port back that was shut", false}} {
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
