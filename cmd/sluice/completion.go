package main

import (
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/report/console"
)

// portNames completes the ports of the switch on the given socket. It offers none if the switch
// does not answer within a second.
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
