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
		Long: `Sluice is a lossless Ethernet switch in software. It forwards frames between the
network devices of this machine. When frames of a lossless class pile up, it stops
their senders with PFC (IEEE 802.1Qbb) instead of dropping frames.`,
		Example: `  sluice check -c FILE         # validate a configuration, and print what it means
  sluice run -c FILE           # run the switch until SIGINT or SIGTERM (root)
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
		{"Inspect a running switch:", []*cobra.Command{showCommand(), topCommand(), captureCommand()}},
		{"Control a running switch:", []*cobra.Command{clearCommand(), portCommand(), stormCommand()}},
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
