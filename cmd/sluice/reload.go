package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/report/console"
)

func reloadCommand() *cobra.Command {
	var o orderOptions
	c := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration of a running switch",
		Long: `Makes the switch read its configuration file again, as SIGHUP does. The workers
change over to it between two iterations.

If the reload fails, nothing changes, and the message says why. For errors in the file, it has their
line, column and a fix, and the exit code is 2, as with check.`,
		Example: `  sluice reload`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := console.Dial(o.socket).Reload(c.Context())
			if err != nil {
				return err
			}
			return o.report(c, loaded,
				fmt.Sprintf("configuration %s, number %d, loaded", loaded.File, loaded.Generation))
		},
	}
	o.flags(c)
	return c
}

func stormCommand() *cobra.Command {
	var o orderOptions
	c := &cobra.Command{
		Use:   "storm",
		Short: "Begin or end a pause storm in classes of a port",
		Long: `Treats classes of a port as in a pause storm, whatever the link partner does, until
storm off. The action of the watchdog (sluice show pfcwd) applies immediately: their
frames are dropped (drop), or sent despite pauses (forward).`,
	}
	o.flags(c)
	for _, order := range []struct {
		word, short string
		on          bool
	}{{"on", "Begin a storm", true}, {"off", "End a storm that storm on has begun", false}} {
		var cos []int
		sub := &cobra.Command{
			Use:               order.word + " DEVICE --cos N[,N…]",
			Short:             order.short,
			Example:           "  sluice storm " + order.word + " eth0 --cos 3",
			Args:              cobra.ExactArgs(1),
			ValidArgsFunction: portNames,
			RunE: func(c *cobra.Command, args []string) error {
				if err := checkCoS(cos); err != nil {
					return err
				}
				meant := console.StormOrder{Device: args[0], CoS: cos, On: order.on}
				done, err := console.Dial(o.socket).Storm(c.Context(), meant)
				if err != nil {
					return err
				}
				return o.report(c, done, "")
			},
		}
		sub.Flags().IntSliceVar(&cos, "cos", nil, "classes of service, 0 to 7")
		if err := sub.MarkFlagRequired("cos"); err != nil {
			panic(err)
		}
		c.AddCommand(sub)
	}
	return c
}
