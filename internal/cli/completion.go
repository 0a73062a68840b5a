package cli

import (
	"net"

	"github.com/spf13/cobra"
)

// What shells complete beside commands and flags.

// Complete declares the words that a flag takes.
func Complete[W ~string](c *cobra.Command, flag string, words ...W) {
	var all []cobra.Completion
	for _, w := range words {
		all = append(all, string(w))
	}
	CompleteWith(c, flag, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteWith declares a function that returns the words that a flag takes.
func CompleteWith(c *cobra.Command, flag string, words cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic(err)
	}
}

// DeviceNames returns the network devices of this machine.
func DeviceNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, device := range all {
		if device.Flags&net.FlagLoopback == 0 {
			names = append(names, device.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
