package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/bench/netns"
	"sluice/bench/traffic"
	"sluice/bench/traffic/xdp"
	"sluice/internal/cli"
	"sluice/internal/frame"
)

// The demo's flows: 0 and 1 are lossless, 2 and 3 lossy; each sender has one of each.
const (
	demoLossless = 3 // CoS
	demoLossy    = 0
	demoVLAN     = 100
	demoSenders  = 2
	demoHello    = 2 * demoSenders // flow that keeps the target's address known, so that nothing is flooded
)

// demoOrder is the order in which hosts are added and begin: the target first.
var demoOrder = [...]int{demoSenders, 0, 1}

// demoOptions are the flags of the demo.
type demoOptions struct {
	duration    time.Duration
	speed       string
	size        int
	mtu         int // of all devices; 0: 1500, and all frames have the size
	noPFC       bool
	dcbx        string // dcbxOn, dcbxOff, or empty: the switch does not speak it
	transmitter bool   // the transmitter sends at the switch's ports
	json        bool
}

func demoCommand() *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "Overload a host: lossless traffic loses nothing, lossy does (root)",
		Long: `Builds three hosts and a switch out of network namespaces and veth pairs. Two hosts each send at
line rate to the third, whose port is no faster, in CoS 3 (lossless) and CoS 0 (lossy). PFC pauses
CoS 3 at the hosts; the switch drops the excess of CoS 0.

By default, the hosts are configured to honour PFC. With --dcbx, the switch has PFC only at ports
where it agrees on that with the host, by LLDP and DCBX. With --dcbx on, the hosts start without
PFC, learn from the switch that CoS 3 is lossless, and then start sending. With --dcbx off, the
hosts neither speak DCBX nor honour PFC: the switch treats CoS 3 like CoS 0, and drops its excess.

Ends with a verdict. The exit code is 0 only if CoS 3 lost nothing, CoS 0 lost frames, the switch
sent XOFF and XON, and every flow kept its order; otherwise it is 1.`,
		Example: `  sluice-lab demo
  sluice-lab demo --no-pfc --duration 3s   # the lossless class loses frames, too
  sluice-lab demo --mtu 9216               # frames from the shortest to the longest of jumbo ports
  sluice-lab demo --dcbx on                # the hosts learn from the switch where to honour PFC
  sluice-lab demo --dcbx off --duration 3s # hosts without DCBX: the lossless class loses frames, too
  sluice-lab demo --resident               # a program in the kernel sends, without a socket buffer per frame`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c.Flags()); err != nil {
				return cli.Usage(err)
			}
			r, err := runDemo(c.Context(), o, c.OutOrStdout())
			if err != nil {
				return err
			}
			if o.json {
				err = json.NewEncoder(c.OutOrStdout()).Encode(r)
			} else {
				_, err = fmt.Fprintln(c.OutOrStdout(), r)
			}
			if err == nil && r.Verdict != "pass" {
				err = cli.ErrVerdict
			}
			return err
		},
	}
	c.Flags().DurationVar(&o.duration, "duration", 12*time.Second, "how long to send")
	c.Flags().StringVar(&o.speed, "speed", "1G", "speed of all ports")
	c.Flags().IntVar(&o.size, "size", 1496, "frame size in bytes, without FCS")
	c.Flags().IntVar(&o.mtu, "mtu", 0,
		"MTU of all ports, up to 9500; frames then have all sizes up to the longest, in turn (default 1500 and --size)")
	c.Flags().BoolVar(&o.noPFC, "no-pfc", false, "turn PFC off: then the lossless class loses frames, too")
	c.Flags().StringVar(&o.dcbx, "dcbx", "",
		"on: hosts learn from the switch where to honour PFC; off: the same switch, hosts without DCBX and PFC")
	c.Flags().BoolVar(&o.transmitter, "resident", false,
		"send from the switch's ports with the transmitter, which shares the worker's CPU")
	c.Flags().BoolVar(&o.json, "json", false, "print only one JSON document, at the end")
	cli.Complete(c, "dcbx", dcbxOn, dcbxOff)
	return c
}

// check rejects flags that contradict each other.
func (o *demoOptions) check(given *pflag.FlagSet) error {
	const least, most = 576, 9500 // of RFC 791, and of a port
	switch {
	case given.Changed("mtu") && given.Changed("size"):
		return errors.New("with --mtu, frames have all sizes: leave out --mtu or --size")
	case given.Changed("mtu") && (o.mtu < least || o.mtu > most):
		return fmt.Errorf("--mtu %d: choose %d to %d", o.mtu, least, most)
	}
	if o.noPFC && given.Changed("dcbx") {
		return errors.New("--no-pfc leaves DCBX nothing to agree on: leave out --no-pfc or --dcbx")
	}
	return checkDCBX(o.dcbx, given)
}

// demo is a running demo.
type demo struct {
	demoOptions
	lab   *netns.Lab
	sw    *demoSwitch
	hosts *xdp.Hosts
	out   io.Writer // receives the live table
}

// runDemo creates hosts and switch, runs the demo, and removes everything.
func runDemo(ctx context.Context, o demoOptions, out io.Writer) (r demoResult, err error) {
	if o.json {
		out = io.Discard
	}
	l, err := netns.New("demo")
	if err != nil {
		return r, err
	}
	d := &demo{demoOptions: o, lab: l, out: out}
	defer func() { err = errors.Join(err, d.lab.Close()) }()
	if d.sw, err = startDemoSwitch(d.lab, o); err != nil {
		return r, err
	}
	stopSwitch := sync.OnceValue(d.sw.stop)
	defer func() { err = errors.Join(err, stopSwitch()) }()
	if d.hosts, err = xdp.New(demoSenders+1, d.mtu); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.hosts.Close()) }()
	if err := d.addHosts(); err != nil {
		return r, err
	}
	stop := make(chan struct{})
	go d.hosts.Run(d.sw.SpareCPU(), stop)
	defer func() { close(stop); <-d.hosts.Done }()
	// It stops before hosts leave, since it would warn of what that changes at its devices.
	defer func() { _ = stopSwitch() }() // joined above
	if err := d.traffic(ctx); err != nil {
		return r, err
	}
	return d.result()
}

// demoMAC returns the address of a host. The target is the last host.
func demoMAC(host int) frame.MAC { return 0x0200_0000_0001 + frame.MAC(host) }

// addHosts adds a host at the far end of each of the switch's ports, the target first.
func (d *demo) addHosts() error {
	for _, i := range demoOrder {
		p := traffic.Params{
			MAC: demoMAC(i), Speed: d.sw.config.Ports[i].Speed, InFlight: 64 << 10,
			CatchUp: int64(2 * time.Millisecond),
			Flows:   demoFlows(i, d.sizes()), Priorities: 1 << demoLossless,
		}
		if err := d.negotiate(i, &p); err != nil {
			return err
		}
		err := d.sw.hosts[i].Do(func() error { return d.hosts.Add(hostDevice, p) })
		if err != nil {
			return err
		}
	}
	return nil
}

// sizes returns the lengths of frames, which take turns, in bytes without FCS.
func (o *demoOptions) sizes() (all []int) {
	if o.mtu == 0 {
		return []int{o.size}
	}
	const header, tag = 14, 4
	for size := traffic.MinSize; size < o.mtu+header; size += size/2 + 1 {
		all = append(all, size)
	}
	return append(all, o.mtu+header+tag)
}

func demoFlows(from int, sizes []int) []traffic.Flow {
	flow := func(id uint32, to int, pcp uint8, sizes ...int) traffic.Flow {
		return traffic.Flow{ID: id, Dst: demoMAC(to), VID: demoVLAN, PCP: pcp, Sizes: sizes}
	}
	if from == demoSenders {
		hello := flow(demoHello, 0, demoLossy, traffic.MinSize)
		hello.Rate = 30_000 // bit/s: the first frames may come before the switch's ports are up
		return []traffic.Flow{hello}
	}
	return []traffic.Flow{
		flow(uint32(from), demoSenders, demoLossless, sizes...),
		flow(uint32(demoSenders+from), demoSenders, demoLossy, sizes...),
	}
}

// traffic waits until the target is known, runs the senders for the duration, and waits until the
// remaining frames have arrived.
func (d *demo) traffic(ctx context.Context) error {
	if err := d.sw.waitUp(10 * time.Second); err != nil {
		return err
	}
	if err := cli.Sleep(ctx, 200*time.Millisecond); err != nil {
		return err
	}
	d.hosts.Start(demoSenders)
	if err := d.agree(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%d senders at %s each into one port of %s, frames of %s bytes, PFC %s\n",
		demoSenders, d.speed, d.speed, span(d.sizes()), d.pfc())
	for began := time.Now(); time.Since(began) < d.duration; {
		if err := cli.Sleep(ctx, min(time.Second, d.duration-time.Since(began))); err != nil {
			return err
		}
		if err := d.report(time.Since(began)); err != nil {
			return err
		}
	}
	d.hosts.StopSending()
	return d.settle(ctx)
}

// span returns the least and the greatest of sizes that grow.
func span(sizes []int) string {
	if first, last := sizes[0], sizes[len(sizes)-1]; first < last {
		return fmt.Sprintf("%d to %d", first, last)
	}
	return fmt.Sprint(sizes[0])
}

// settle waits until the target receives nothing more. Remaining frames may first have to wait for
// a pause to expire.
func (d *demo) settle(ctx context.Context) error {
	const quiet, most = 500 * time.Millisecond, 20 * time.Second
	last, since := uint64(0), time.Now()
	for deadline := time.Now().Add(most); time.Since(since) < quiet && time.Now().Before(deadline); {
		if err := cli.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		r, err := d.result()
		if err != nil {
			return err
		}
		if n := r.Lossless.Received + r.Lossy.Received; n != last {
			last, since = n, time.Now()
		}
	}
	return nil
}

// report prints a line of the live table.
func (d *demo) report(elapsed time.Duration) error {
	r, err := d.result()
	if err != nil {
		return err
	}
	drops, err := d.sw.drops()
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%4.0f s   lossless: %8d received, %d dropped   lossy: %8d received, %7d dropped   PFC: %5d "+
		"frames, hosts paused %6.0f ms\n",
		elapsed.Seconds(), r.Lossless.Received, drops[demoLossless], r.Lossy.Received, drops[demoLossy], r.PFC.Frames,
		r.PFC.PausedMS)
	return nil
}
