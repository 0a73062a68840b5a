package cli

import (
	"net"

	"github.com/spf13/cobra"
)

// Shell completion of words other than commands and flags.

// Complete offers words as the completions of a flag.
func Complete[W ~string](c *cobra.Command, flag string, words ...W) {
	var all []cobra.Completion
	for _, w := range words {
		all = append(all, string(w))
	}
	CompleteWith(c, flag, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteWith registers a function that completes a flag.
func CompleteWith(c *cobra.Command, flag string, words cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic(err)
	}
}

// DeviceNames completes the network devices of this machine, without loopback.
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
