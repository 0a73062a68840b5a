// Command sluice is a lossless Ethernet switch on AF_XDP. Command sluice-lab has the tools to try
// it with.
package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/cli"
)

// version is set by the Makefile.
var version = "unknown"

func main() { cli.Run(command()) }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A software lossless Ethernet switch: AF_XDP, PFC, ETS",
		Long: `Sluice is a lossless Ethernet switch in software. It forwards between the network devices of this machine, and where the
frames of a lossless class pile up it stops their senders with PFC (IEEE 802.1Qbb) rather than drop one.`,
		Example: `  sluice check -c FILE         # what comes of a configuration, or what is wrong with it
  sluice run -c FILE           # until SIGINT or SIGTERM (root)
  sluice help conventions      # exit codes, signals, units`,
		SilenceErrors: true, // cli.Run prints them
		SilenceUsage:  true, // a failed command is not a usage error
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run a switch:", []*cobra.Command{checkCommand(), headroomCommand(), doctorCommand(), runCommand(),
			reloadCommand(), schemaCommand()}},
		{"Look at one that runs:", []*cobra.Command{showCommand(), topCommand(), captureCommand()}},
		{"Steer one that runs:", []*cobra.Command{clearCommand(), portCommand(), stormCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(cli.Version("sluice", version), cli.Docs("sluice", version, command), cli.Conventions())
	return root
}
