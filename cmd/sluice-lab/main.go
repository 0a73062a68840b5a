// Command sluice-lab has tools to try a switch with: a demonstration, hosts, simulations, and
// measurements beside other switches.
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
		Use:   "sluice-lab",
		Short: "Demo, test hosts, simulations and benchmarks for the Sluice switch",
		Long: `Tools to try out and measure Sluice, a lossless Ethernet switch in software: a demo, test hosts,
simulations, and benchmarks beside other switches. To run a switch, only sluice(1) is needed.`,
		Example: `  sluice-lab demo              # three hosts and a switch on this machine (root)
  sluice-lab bench list        # the scenarios and their peers`,
		SilenceErrors: true, // cli.Run prints them
		SilenceUsage:  true, // a failed command is not a usage error
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Try it:", []*cobra.Command{demoCommand(), roceCommand(), genCommand(), fcfCommand(), enodeCommand()}},
		{"Simulate and measure:", []*cobra.Command{simCommand(), benchCommand(), figuresCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(cli.Version("sluice-lab", version), cli.Docs("sluice-lab", version, command), cli.Conventions(),
		agentCommand())
	return root
}
