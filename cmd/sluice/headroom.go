package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/cells/headroom"
	"sluice/internal/cli"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/gaps"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/frame"
	"sluice/internal/linux/thread"
)

// allMethods is the value of --method that compares all methods.
const allMethods = "all"

// headroomOptions are the flags of headroom. complete copies the flags with units to params.
type headroomOptions struct {
	method              string
	medium              string
	speed, cable        cli.Quantity
	inFlight, peersRing cli.Quantity
	unstored            int
	transceivers        time.Duration
	gap, peerGap        time.Duration
	gapGiven            bool
	lossless            int
	measure             time.Duration
	cpu                 int
	json                bool
	params              headroom.Params
}

func headroomCommand() *cobra.Command {
	var o headroomOptions
	c := &cobra.Command{
		Use:   "headroom",
		Short: "Compute the headroom that a lossless class needs on a link",
		Long: `Computes the headroom of a lossless class on one link: the buffer that it needs
beyond its threshold. Each method is the formula of a document, of a driver, or of
the wire itself. Notes say where a document is wrong or leaves something out.

  cisco       Cisco, "Priority Flow Control: Build Reliable Layer 2 Infrastructure" (2009)
  cisco-wire  the same, with preamble and gap counted
  dc-farm     DC Farm, "In-depth analysis of PFC processing"
  annex-o     802.1Q Annex O as the drivers of Intel and Wangxun implement it. They add 20 B to an
              MTU for the frame on the link: 9216 becomes 9236
  sonic       SONiC on Mellanox switches
  exact       the worst case on the wire: one sequence of frames needs it, and none needs more
  measured    exact, for two ends in software
  all         compares all methods

Without --gap, measured runs a worker on one CPU to find its longest wait: the longest two
consecutive gaps of its loop. So long may a frame have to wait until the worker finds it.`,
		Example: `  sluice headroom --speed 10G --cable 300m
  sluice headroom --method all --speed 100G --cable 2km --json
  sluice headroom --method measured --gap 100us --in-flight 64KB`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(c); err != nil {
				return cli.Usage(err)
			}
			return o.run(c)
		},
	}
	o.linkFlags(c.Flags())
	o.softwareFlags(c.Flags())
	o.sonicFlags(c.Flags())
	c.Flags().StringVar(&o.method, "method", string(headroom.Exact),
		fmt.Sprintf("one of %v, or %s", headroom.Methods(), allMethods))
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	cli.Complete(c, "method", append(headroom.Methods(), allMethods)...)
	cli.Complete(c, "medium", headroom.Media()...)
	return c
}

func (o *headroomOptions) linkFlags(f *pflag.FlagSet) {
	p := &o.params
	o.speed, o.cable = cli.NewRate("10G"), cli.NewLength("100m")
	f.Var(&o.speed, "speed", "rate of the link, bit/s")
	f.Var(&o.cable, "cable", "length of the cable")
	f.StringVar(&o.medium, "medium", string(headroom.Fibre),
		fmt.Sprintf("medium of the cable, one of %v", headroom.Media()))
	f.IntVar(&p.MTUOwn, "mtu-own", 1522, "longest frame of any class that the switch sends, bytes with FCS")
	f.IntVar(&p.MTUPeer, "mtu-peer", 1522, "longest frame of the class that the peer sends, bytes with FCS")
	f.IntVar(&p.Cell, "cell", 160, "size of an accounting cell, bytes")
	f.IntVar(&o.unstored, "unstored", -1,
		"bytes of a frame that are not stored; -1: 4 (the FCS) for exact and measured, else 0")
	f.DurationVar(&o.transceivers, "transceivers", 0, "delay of a frame in the transceivers of both ends together")
	f.IntVar(&p.ResponseBits, "response", 0,
		"bit times until the peer stops, for exact and measured; 0: those of the standard")
}

func (o *headroomOptions) softwareFlags(f *pflag.FlagSet) {
	o.inFlight, o.peersRing = cli.NewSize("64KB"), cli.NewSize("0B")
	f.DurationVar(&o.gap, "gap", 0,
		"measured: longest two consecutive gaps of the worker's loop, WAIT of show workers (default: measured here)")
	f.Var(&o.inFlight, "in-flight", "measured: bytes that the TX ring of the switch may hold (in_flight)")
	f.IntVar(&o.lossless, "lossless", 1,
		"measured: lossless classes of the port; their PFC frames may be in the TX ring too")
	f.DurationVar(&o.peerGap, "peer-gap", 0,
		"measured: longest two consecutive gaps of the peer's loop; 0: the peer is hardware")
	f.Var(&o.peersRing, "peer-in-flight", "measured: bytes that the TX ring of the peer may hold")
	f.DurationVar(&o.measure, "measure", 2*time.Second, "measured: how long to measure the gap")
	f.IntVar(&o.cpu, "cpu", -1, "measured: CPU to measure on; -1: the last one allowed")
}

func (o *headroomOptions) sonicFlags(f *pflag.FlagSet) {
	s := &o.params.SONiC
	def := headroom.SONiCDefaults()
	f.IntVar(&s.LosslessMTU, "sonic-lossless-mtu", def.LosslessMTU, "sonic: mtu of LOSSLESS_TRAFFIC_PATTERN, bytes")
	f.IntVar(&s.SmallPackets, "sonic-small-packets", def.SmallPackets, "sonic: small_packet_percentage")
	f.IntVar(&s.PortMTU, "sonic-port-mtu", def.PortMTU, "sonic: MTU of the port, bytes")
	f.IntVar(&s.Pipeline, "sonic-pipeline", def.Pipeline, "sonic: pipeline_latency, bytes")
	f.IntVar(&s.MACPHY, "sonic-mac-phy", def.MACPHY, "sonic: mac_phy_delay, bytes")
	f.IntVar(&s.Gearbox, "sonic-gearbox", def.Gearbox, "sonic: delay of the gearbox in one direction, bytes")
	f.IntVar(&s.Quanta, "sonic-quanta", def.Quanta, "sonic: response of the peer, quanta; 0: by speed")
	f.BoolVar(&s.SharedPool, "sonic-shared-pool", def.SharedPool, "sonic: the switch has a shared headroom pool")
}

// complete checks the flags and sets the parameters that flags do not set directly.
func (o *headroomOptions) complete(c *cobra.Command) error {
	if o.method != allMethods && !slices.Contains(headroom.Methods(), headroom.Method(o.method)) {
		return fmt.Errorf("unknown method %q: choose one of %v, or %s", o.method, headroom.Methods(), allMethods)
	}
	if o.measure <= 0 {
		return fmt.Errorf("--measure %v: choose a time such as 2s", o.measure)
	}
	if o.lossless < 1 || o.lossless > 8 {
		return fmt.Errorf("--lossless %d: choose 1 to 8", o.lossless)
	}
	o.gapGiven = c.Flags().Changed("gap")
	p := &o.params
	p.Speed, p.Metres, p.Medium = uint64(o.speed.Value), o.cable.Value, headroom.Medium(o.medium)
	p.OwnControl = dataplane.ControlAhead(o.lossless)
	p.OwnInFlight, p.PeerInFlight = int(o.inFlight.Value), int(o.peersRing.Value)
	p.Transceivers, p.OwnGap, p.PeerGap = int64(o.transceivers), int64(o.gap), int64(o.peerGap)
	return nil
}

// compute returns the headroom by one method.
func (o *headroomOptions) compute(m headroom.Method, p headroom.Params) (headroom.Result, error) {
	p.Unstored = o.unstored
	if o.unstored == -1 {
		p.Unstored = 0
		if m == headroom.Exact || m == headroom.Measured {
			p.Unstored = frame.FCS // the switch strips the FCS
		}
	}
	r, err := headroom.Compute(m, p)
	return r, cli.Usage(err) // errors depend on the flags alone
}

func (o *headroomOptions) run(c *cobra.Command) error {
	var r headroomReport
	// Report errors that all methods share before measuring or comparing.
	if _, err := o.compute(headroom.Measured, o.params); err != nil {
		return err
	}
	if (o.method == string(headroom.Measured) || o.method == allMethods) && !o.gapGiven {
		gap, err := o.measureGap(c)
		if err != nil {
			return err
		}
		r.Gap, o.params.OwnGap = gap, gap.Wait
	}
	if o.method == allMethods {
		return o.compare(c.OutOrStdout(), r.Gap)
	}
	var err error
	if r.Result, err = o.compute(headroom.Method(o.method), o.params); err != nil {
		return err
	}
	if r.Method == headroom.Measured {
		peers, err := o.compute(headroom.Measured, o.params.Reversed())
		if err != nil {
			return err
		}
		r.ForPeer = &peers
	}
	return o.print(c.OutOrStdout(), &r)
}

// measureGap measures the gaps of a worker's loop on this machine.
func (o *headroomOptions) measureGap(c *cobra.Command) (*gapReport, error) {
	cpu := o.cpu
	if cpu < 0 {
		var err error
		if cpu, err = thread.LastCPU(); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(c.ErrOrStderr(),
		"measuring the gaps of a worker on CPU %d for %v (--gap sets the longest two in a row instead)\n",
		cpu, o.measure)
	gap, err := loopgap.Measure(c.Context(), cpu, o.measure)
	if err != nil {
		return nil, err
	}
	if err := c.Context().Err(); err != nil {
		return nil, fmt.Errorf("measuring the gaps was interrupted: %w", err)
	}
	return newGapReport(cpu, &gap), nil
}

func newGapReport(cpu int, g *gaps.Histogram) *gapReport {
	return &gapReport{CPU: cpu, Iterations: g.Iterations(), P50: g.Quantile(.5), P999: g.Quantile(.999), Max: g.Max,
		Wait: g.Wait}
}
