package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/console"
)

func reloadCommand() *cobra.Command {
	var o orderOptions
	c := &cobra.Command{
		Use:   "reload",
		Short: "Have a running switch read its file again and change over to it",
		Long: `Has the switch read its configuration file again, as SIGHUP does, and change over to it between two iterations of its workers. If
that can't be done nothing has changed, and the switch says why; when the file is at fault, with its line, its column, a remedy
and exit code 2, as check does.`,
		Example: `  sluice reload`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := console.Dial(o.socket).Reload(c.Context())
			if err != nil {
				return err
			}
			return o.report(c, loaded, fmt.Sprintf("runs by %s, number %d", loaded.File, loaded.Generation))
		},
	}
	o.flags(c)
	return c
}

func stormCommand() *cobra.Command {
	var o orderOptions
	c := &cobra.Command{
		Use:   "storm",
		Short: "Treat classes of a port as in a pause storm, or no longer",
		Long: `Treats classes of a port as in a pause storm, whatever the link partner does, until they are let go: the action of the watchdog is taken
at once (sluice show pfcwd). With action drop their frames are discarded; with forward they are sent in spite of pauses.`,
	}
	o.flags(c)
	for _, order := range []struct {
		word, short string
		on          bool
	}{{"on", "Begin a storm by hand", true}, {"off", "End a storm that was begun by hand", false}} {
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
		sub.Flags().IntSliceVar(&cos, "cos", nil, "the classes of service, 0 to 7")
		if err := sub.MarkFlagRequired("cos"); err != nil {
			panic(err)
		}
		c.AddCommand(sub)
	}
	return c
}
