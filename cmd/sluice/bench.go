package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the switch beside its peers",
	}
	c.AddCommand(benchVethCommand(), benchBaselineCommand())
	return c
}

func benchVethCommand() *cobra.Command {
	o := bench.VethOptions{Version: version}
	var asJSON bool
	c := &cobra.Command{
		Use:   "veth",
		Short: "Forward between two veth devices, beside DPDK's testpmd and a port over asavie/xdp (root)",
		Long: `Loads one forwarder after the other with more than it can take and counts what comes out. The forwarders take
turns, each on the same CPU; ratios are of trials of the same round. Without dpdk-testpmd (scripts/install-peers), that
peer is reported as absent.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Sluice, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			o.Log = c.ErrOrStderr()
			r, err := bench.RunVeth(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(r)
			}
			return r.WriteText(c.OutOrStdout())
		},
	}
	c.Flags().IntVar(&o.Trials, "trials", 5, "trials of each forwarder with each length")
	c.Flags().DurationVar(&o.Duration, "duration", 3*time.Second, "length of a trial")
	c.Flags().IntSliceVar(&o.Lengths, "lengths", []int{60, 1496}, "bytes a frame, without FCS")
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
