package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sluice/bench"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the switch beside its peers",
	}
	c.AddCommand(benchListCommand(), benchRunCommand(), benchBaselineCommand())
	return c
}

func benchListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scenarios",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, s := range bench.Scenarios() {
				fmt.Fprintf(c.OutOrStdout(), "%-10s %s\n", s.Name, s.Shows)
			}
			return nil
		},
	}
}

func benchRunCommand() *cobra.Command {
	o := bench.Options{Version: version}
	var asJSON bool
	c := &cobra.Command{
		Use:   "run NAME...",
		Short: "Measure scenarios",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) (err error) {
			if o.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			o.Progress = func(format string, args ...any) { fmt.Fprintf(c.ErrOrStderr(), format+"\n", args...) }
			for _, s := range bench.Scenarios() {
				if !strings.Contains(strings.Join(names, " "), s.Name) {
					continue
				}
				r, err := bench.Run(c.Context(), s, o)
				if err != nil {
					return err
				}
				if asJSON {
					err = json.NewEncoder(c.OutOrStdout()).Encode(r)
				} else {
					err = r.WriteText(c.OutOrStdout())
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&o.Quick, "quick", false, "the smallest run that exercises every part")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

// benchBaselineCommand is what the veth benchmark starts as a peer; people have no use for it.
func benchBaselineCommand() *cobra.Command {
	var cpu int
	c := &cobra.Command{
		Use:    "baseline DEVICE DEVICE",
		Short:  "Forward between two devices over asavie/xdp",
		Args:   cobra.ExactArgs(2),
		Hidden: true,
		RunE: func(c *cobra.Command, devices []string) error {
			return bench.RunBaseline(c.Context(), [2]string(devices), cpu)
		},
	}
	c.Flags().IntVar(&cpu, "cpu", 0, "CPU to forward on")
	return c
}
