package main

import (
	"github.com/spf13/cobra"
	"sluice/bench/traffic"
)

// forwardModes completes the modes of gen, with descriptions.
func forwardModes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, m := range traffic.Modes() {
		names = append(names, cobra.CompletionWithDesc(m.Name, m.Does))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// scenarioNames completes the scenarios of bench run, with descriptions.
func scenarioNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, s := range scenarios() {
		names = append(names, cobra.CompletionWithDesc(s.Name, s.Shows))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
