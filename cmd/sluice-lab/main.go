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
		Short: "What to try the Sluice switch with: demonstration, hosts, simulations, measurements",
		Long: `Shows what Sluice, a lossless Ethernet switch in software, does: beside other switches, with hosts
that send whatever is wanted, and in simulations. Nothing here is needed to run a switch; that is sluice(1).`,
		Example: `  sluice-lab demo              # three hosts and a switch, on this machine alone (root)
  sluice-lab bench list        # what can be measured`,
		SilenceErrors: true, // cli.Run prints them
		SilenceUsage:  true, // a failed command is not a usage error
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Try it:", []*cobra.Command{demoCommand(), genCommand()}},
		{"Simulate and measure:", []*cobra.Command{simCommand(), benchCommand(), figuresCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(cli.Version("sluice-lab", version), cli.Docs("sluice-lab", version, command), cli.Conventions())
	return root
}
