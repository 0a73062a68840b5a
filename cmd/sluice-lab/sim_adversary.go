package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/bench/sim/adversary"
	"sluice/internal/cli"
)

func simAdversaryCommand() *cobra.Command {
	var o adversaryOptions
	c := &cobra.Command{
		Use:   "adversary",
		Short: "Attack random switches, to make one lose a lossless frame",
		Long: `Draws configurations that check accepts, and has link partners do their worst to each switch for some milliseconds of virtual
time: frames of any size on any ports, congestion that comes and goes at the worst moments, interruptions of the workers, flapping
links, reloads. The workers are those that forward, with the headroom that the configuration computes and within what
docs/lossless.md assumes.

Ends with 1 as soon as a switch loses a lossless frame, by its accounts or in a driver. The seed and what the adversary could do
without are printed; the same seed does the same again. With --less every group has so many of the longest frames less headroom than
computed: then some switch must lose one.`,
		Example: `  sluice-lab sim adversary --switches 200
  sluice-lab sim adversary --switches 200 --less 1 --json
  sluice-lab sim adversary --seed 171 --switches 1 --omit flaps,reloads`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	f := c.Flags()
	f.IntVar(&o.switches, "switches", 200, "how many to attack")
	f.Uint64Var(&o.seed, "seed", 1, "of the first; those after it have the next ones")
	f.IntVar(&o.less, "less", 0, "longest frames by which headroom is smaller than computed")
	f.StringSliceVar(&o.omit, "omit", nil, "what the adversary does without: "+strings.Join(adversary.AllTricks.Names(),
		", "))
	f.BoolVar(&o.json, "json", false, "print one JSON document")
	cli.Complete(c, "omit", adversary.AllTricks.Names()...)
	return c
}

type adversaryOptions struct {
	switches int
	seed     uint64
	less     int
	omit     []string
	json     bool
}

func (o *adversaryOptions) run(c *cobra.Command) error {
	if o.switches < 1 || o.less < 0 {
		return cli.Usage(fmt.Errorf("--switches %d --less %d: attack at least one switch, with headroom that is "+
			"smaller by 0 frames or more",
			o.switches, o.less))
	}
	omit, err := adversary.ParseTricks(o.omit)
	if err != nil {
		return cli.Usage(fmt.Errorf("--omit: %w", err))
	}
	outcome, err := adversary.Campaign{First: o.seed, Switches: o.switches, Less: o.less, Omit: omit}.Run(c.Context())
	if err != nil {
		return err
	}
	if o.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(outcome)
	} else {
		err = o.print(c.OutOrStdout(), &outcome)
	}
	if err == nil && outcome.Loss != nil {
		err = cli.ErrVerdict
	}
	return err
}

func (o *adversaryOptions) print(w io.Writer, r *adversary.Outcome) error {
	fmt.Fprintf(w,
		"%d switches, %d frames, %d of them lossless; %d XOFF sent, %d iterations that could not empty a ring\n",
		r.Switches, r.Frames, r.Lossless, r.XOFF, r.Behind)
	if r.Loss == nil {
		_, err := fmt.Fprintln(w, "lossless drops: 0")
		return err
	}
	l := r.Loss
	fmt.Fprintf(w, "lossless drops: %d by the accounts, %d in drivers; %d frames sent in spite of a pause; %d "+
		"workers too slow\n",
		r.LosslessDrops, r.DriverLosses, r.Late, r.Slow)
	again := fmt.Sprintf("sluice-lab sim adversary --seed %d --switches 1", l.Seed)
	if o.less > 0 {
		again += fmt.Sprintf(" --less %d", o.less)
	}
	if len(l.Omit) > 0 {
		again += " --omit " + strings.Join(l.Omit, ",")
	}
	_, err := fmt.Fprintf(w, "the first by seed %d; once more: %s\n\n%s", l.Seed, again, l.Config)
	return err
}
