package main

import (
	"github.com/spf13/cobra"

	"sluice/bench/host"
)

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
