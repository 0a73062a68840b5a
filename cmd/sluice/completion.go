package main

import (
	"net"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/host"
	"sluice/internal/console"
)

// What shells complete beside commands and flags.

// complete declares the words that a flag takes.
func complete[W ~string](c *cobra.Command, flag string, words ...W) {
	var all []cobra.Completion
	for _, w := range words {
		all = append(all, string(w))
	}
	completeWith(c, flag, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}

// completeWith declares a function that returns the words that a flag takes.
func completeWith(c *cobra.Command, flag string, words cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic(err)
	}
}

// deviceNames returns the network devices of this machine.
func deviceNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
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

// portNames returns the ports of the switch that answers on the socket of the command line; none if it doesn't within a second.
func portNames(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	socket, err := c.Flags().GetString("socket")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	client := console.Dial(socket)
	client.Patience = time.Second
	report, err := client.State(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for i := range report.Ports {
		names = append(names, report.Ports[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// forwardModes returns the modes of gen, with what each does.
func forwardModes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, m := range host.Modes() {
		names = append(names, cobra.CompletionWithDesc(m.Name, m.Does))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// scenarioNames returns what bench run can measure, with what each shows.
func scenarioNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, s := range scenarios() {
		names = append(names, cobra.CompletionWithDesc(s.Name, s.Shows))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
