package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/sim"
	"sluice/internal/cli"
)

func simCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sim",
		Short: "Simulate networks in virtual time, with the switch's own engines",
	}
	c.AddCommand(simAdversaryCommand(), simChainCommand(), simLostCommand())
	return c
}

func simChainCommand() *cobra.Command {
	o := sim.NewChain(1)
	speed, lossless, lossy, cable := cli.NewRate("10G"), cli.NewRate("4G"), cli.NewRate("2G"), cli.NewLength("300m")
	duration := time.Duration(o.Time)
	var asJSON bool
	c := &cobra.Command{
		Use:   "chain",
		Short: "Simulate congestion that spreads hop by hop over three switches",
		Long: `Two hosts, each behind a switch of its own, send through a third switch to one target, which
pauses the lossless class for part of the time. PFC spreads from the target back to the hosts; no
switch may lose a lossless frame.`,
		Example: `  sluice-lab sim chain
  sluice-lab sim chain --cable 10km --pause 0.5 --seed 7`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Time, o.Cable.Rate, o.Cable.Metres = int64(duration), uint64(speed.Value), cable.Value
			o.Lossless, o.Lossy = uint64(lossless.Value), uint64(lossy.Value)
			if err := o.Check(); err != nil {
				return cli.Usage(err)
			}
			var r sim.ChainResult
			if err := interruptible(c.Context(), func() (err error) { r, err = o.Run(); return err }); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(r)
			}
			return writeChain(c.OutOrStdout(), &r)
		},
	}
	f := c.Flags()
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of all random choices")
	f.DurationVar(&duration, "time", duration, "how long the hosts send, in virtual time")
	f.Var(&speed, "speed", "speed of every link")
	f.Var(&cable, "cable", "cable length of every link")
	f.Var(&lossless, "lossless", "rate that each host offers in the lossless class")
	f.Var(&lossy, "lossy", "rate that each host offers in a lossy class")
	f.Float64Var(&o.Pause, "pause", o.Pause, "share of the time in which the target pauses the lossless class, 0 to 1")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// interruptible returns the result of f, or an error as soon as ctx is done. In that case f
// continues in the background.
func interruptible(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
}

func writeChain(w io.Writer, r *sim.ChainResult) error {
	fmt.Fprintf(w, "lossless: lost %d of %d, %.2f Gbit/s arrived; lossy: lost %d of %d, %.2f Gbit/s arrived\n",
		r.Lossless.Lost, r.Lossless.Sent, r.Lossless.Rate/1e9, r.Lossy.Lost, r.Lossy.Sent, r.Lossy.Rate/1e9)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "sends PFC\tis paused\tXOFF\tXON\tpaused ms\theadroom cells\tlossless drops\t")
	for _, h := range r.Hops {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.3f\t%d\t%d\t\n", h.From, h.To, h.XOFF, h.XON, float64(h.PausedNS)/1e6,
			h.Headroom, h.LosslessDrops)
	}
	return t.Flush()
}

func simLostCommand() *cobra.Command {
	var (
		seed   uint64
		quanta []uint
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "lost-pfc",
		Short: "Simulate the loss of a PFC frame, and what it costs",
		Example: `  sluice-lab sim lost-pfc
  sluice-lab sim lost-pfc --quanta 1024,65535 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var costs []sim.Cost
			for _, q := range quanta {
				if q < 2 || q > 65535 {
					return cli.Usage(fmt.Errorf("--quanta %d: choose 2 to 65535", q))
				}
				cost, err := sim.HealingCost(seed, uint16(q))
				if err != nil {
					return err
				}
				costs = append(costs, cost)
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(costs)
			}
			return writeCosts(c.OutOrStdout(), costs)
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of all random choices")
	c.Flags().UintSliceVar(&quanta, "quanta", []uint{1024, 4096, 16384, 65535}, "pause times of XOFF, in quanta")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func writeCosts(w io.Writer, costs []sim.Cost) error {
	fmt.Fprintln(w, "300 m at 10 Gbit/s, frames of 64 bytes at line rate")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "quanta\tpause µs\tXOFF lost: frames dropped\theadroom cells\tmore cells that would prevent "+
		"it\tXON lost: idle µs\t")
	for _, c := range costs {
		fmt.Fprintf(t, "%d\t%.1f\t%d\t%d\t%d\t%.1f\t\n", c.Quanta, us(c.Pause), c.Dropped, c.Headroom, c.Spare,
			us(c.Idle))
	}
	return t.Flush()
}

func us(ns int64) float64 { return float64(ns) / 1e3 }
