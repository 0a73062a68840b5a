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
		Short: "Attack random switches to make one lose a lossless frame",
		Long: `Draws random configurations that check accepts, and attacks each switch for some milliseconds of
virtual time: with frames of any size on any port, congestion that comes and goes at the worst
moments, interruptions of the workers, links that flap or are held down, hosts that move and age,
devices that are opened again, and reloads, also at the worst moment. The workers are those of the
switch, with the headroom that the configuration computes. All attacks stay within what
docs/lossless.md assumes.

Ends with exit code 1 as soon as a switch loses a lossless frame, in its buffers or in a driver, as
soon as a frame is misdirected, duplicated, reordered or corrupted, and as soon as one is missing
that no counter shows. Prints the seed and the attacks that were not needed. The same seed repeats
the attack. With --less, every group has less headroom than computed; then some switch must lose a
frame.`,
		Example: `  sluice-lab sim adversary --switches 200
  sluice-lab sim adversary --switches 200 --less 1 --json
  sluice-lab sim adversary --switches 200 --jumbo
  sluice-lab sim adversary --seed 171 --switches 1 --omit flaps,reloads`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	f := c.Flags()
	f.IntVar(&o.switches, "switches", 200, "number of switches to attack")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the first switch; the others have the seeds that follow")
	f.IntVar(&o.less, "less", 0, "give every group this many longest frames less headroom than computed")
	f.BoolVar(&o.jumbo, "jumbo", false, "draw MTUs up to 9500, so that frames have several parts")
	f.StringSliceVar(&o.omit, "omit", nil, "attacks to leave out: "+strings.Join(adversary.AllTricks.Names(), ", "))
	f.BoolVar(&o.json, "json", false, "print one JSON document")
	cli.Complete(c, "omit", adversary.AllTricks.Names()...)
	return c
}

type adversaryOptions struct {
	switches int
	seed     uint64
	less     int
	jumbo    bool
	omit     []string
	json     bool
}

func (o *adversaryOptions) run(c *cobra.Command) error {
	if o.switches < 1 || o.less < 0 {
		return cli.Usage(fmt.Errorf("--switches %d --less %d: give at least one switch, and a --less of 0 or more",
			o.switches, o.less))
	}
	omit, err := adversary.ParseTricks(o.omit)
	if err != nil {
		return cli.Usage(fmt.Errorf("--omit: %w", err))
	}
	first := adversary.Attack{Seed: o.seed, Less: o.less, Omit: omit, Jumbo: o.jumbo}
	outcome, err := first.Campaign(c.Context(), o.switches)
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
		"%d switches, %d frames, %d of them lossless; %d XOFF sent, %d iterations that did not empty a ring\n",
		r.Switches, r.Frames, r.Lossless, r.XOFF, r.Behind)
	if r.Loss == nil {
		_, err := fmt.Fprintln(w, "lossless drops: 0; every other frame was delivered as it must or counted as dropped")
		return err
	}
	l := r.Loss
	fmt.Fprintf(w, "lossless drops: %d in buffers, %d in drivers; %d frames sent despite a pause; %d workers "+
		"too slow\nframes: %d misdirected, %d duplicated, %d reordered, %d corrupted; %d losses that no counter "+
		"shows\n",
		r.LosslessDrops, r.DriverLosses, r.Late, r.Slow,
		r.Misdirected, r.Duplicated, r.Reordered, r.Corrupted, r.Uncounted)
	again := fmt.Sprintf("sluice-lab sim adversary --seed %d --switches 1", l.Seed)
	if o.less > 0 {
		again += fmt.Sprintf(" --less %d", o.less)
	}
	if o.jumbo {
		again += " --jumbo"
	}
	if len(l.Omit) > 0 {
		again += " --omit " + strings.Join(l.Omit, ",")
	}
	_, err := fmt.Fprintf(w, "first loss with seed %d; to repeat it: %s\n\n%s", l.Seed, again, l.Config)
	return err
}
