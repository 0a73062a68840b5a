package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/bench/compare/figure/lossless"
)

func figuresCommand() *cobra.Command {
	var directory string
	var seed uint64
	c := &cobra.Command{
		Use:     "figures",
		Short:   "Draw the figures of docs/lossless.md",
		Long:    `Draws the figures of docs/lossless.md from simulations in virtual time, as SVG and PNG.`,
		Example: `  sluice-lab figures --out docs/figures`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return lossless.Draw(directory, seed, func(file string) { fmt.Fprintln(c.OutOrStdout(), file) })
		},
	}
	c.Flags().StringVar(&directory, "out", ".", "existing `directory` to write to")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of all random choices")
	if err := c.MarkFlagDirname("out"); err != nil {
		panic(err)
	}
	return c
}
