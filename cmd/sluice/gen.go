package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/frame"
	"sluice/internal/gen"
	"sluice/pmd/afxdp"
)

// genOptions are the flags of gen.
type genOptions struct {
	device   string
	dst      string
	flow     gen.Flow
	pps      uint64
	speed    uint64
	honour   []int
	duration time.Duration
	json     bool
}

func genCommand() *cobra.Command {
	var o genOptions
	c := &cobra.Command{
		Use:   "gen -d DEVICE [--dst MAC]",
		Short: "Be a host: send a flow of test frames, check those received, honour PFC (root)",
		Long: `Opens the device with AF_XDP and is the host on it. With --dst it sends test frames that carry sequence
numbers; whatever test frames arrive are checked for loss, order, duplicates and damage. PFC is honoured on the
priorities given. Ends after --duration, or when interrupted, with the counts.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			stats, err := runGen(c, &o)
			if err != nil {
				return err
			}
			if o.json {
				return json.NewEncoder(c.OutOrStdout()).Encode(stats)
			}
			printGen(c, stats)
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&o.device, "device", "d", "", "the device")
	f.StringVar(&o.dst, "dst", "", "destination address; without it, only receive")
	f.Uint32Var(&o.flow.ID, "flow", 0, "number of the flow, below 64 and unlike that of other hosts")
	f.Uint16Var(&o.flow.VID, "vlan", 1, "VLAN")
	f.Uint8Var(&o.flow.PCP, "cos", 0, "priority in the tag")
	f.IntVar(&o.flow.Size, "size", 1496, "bytes a frame, without FCS")
	f.Uint64Var(&o.flow.Count, "count", 0, "frames to send, 0: no end")
	f.Uint64Var(&o.pps, "pps", 0, "frames a second, 0: as fast as --speed")
	f.Uint64Var(&o.speed, "speed", 1e9, "bit/s of the line, which is never exceeded")
	f.IntSliceVar(&o.honour, "pfc", []int{3}, "priorities on which PFC is honoured")
	f.DurationVar(&o.duration, "duration", 0, "how long, 0: until interrupted")
	f.BoolVar(&o.json, "json", false, "print the counts as JSON")
	if err := c.MarkFlagRequired("device"); err != nil {
		panic(err)
	}
	return c
}

// params turns the flags into a host.
func (o *genOptions) params() (p gen.Params, err error) {
	i, err := net.InterfaceByName(o.device)
	if err != nil {
		return p, fmt.Errorf("device %s: %w: write one that `ip link` shows", o.device, err)
	}
	p = gen.Params{
		MAC: frame.MACFrom(i.HardwareAddr), Speed: o.speed, InFlight: 64 << 10, CatchUp: int64(2 * time.Millisecond),
	}
	for _, priority := range o.honour {
		if priority < 0 || priority > 7 {
			return p, fmt.Errorf("--pfc %d: priorities are 0 to 7", priority)
		}
		p.Priorities |= 1 << priority
	}
	if o.dst == "" {
		return p, nil
	}
	if o.flow.Dst, err = frame.ParseMAC(o.dst); err != nil {
		return p, fmt.Errorf("--dst: %w", err)
	}
	o.flow.Rate = o.pps * uint64(o.flow.Size+gen.Overhead) * 8
	p.Flows = []gen.Flow{o.flow}
	return p, nil
}

func runGen(c *cobra.Command, o *genOptions) (stats gen.Stats, err error) {
	p, err := o.params()
	if err != nil {
		return stats, err
	}
	settings, err := afxdp.Prepare(o.device, afxdp.Options{})
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, settings.Restore()) }()
	h, err := newHosts(1)
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.add(o.device, p); err != nil {
		return stats, err
	}
	stop := make(chan struct{})
	go h.run(-1, stop)
	defer func() { close(stop); <-h.done }()
	var over <-chan time.Time // never, without a duration
	if o.duration > 0 {
		over = time.After(o.duration)
	}
	select {
	case <-over:
	case <-c.Context().Done():
	}
	h.stopSending()
	time.Sleep(200 * time.Millisecond) // for what is on its way
	return h.stats()[0], nil
}

func printGen(c *cobra.Command, s gen.Stats) {
	out := c.OutOrStdout()
	for _, f := range s.Sent {
		fmt.Fprintf(out, "flow %d: sent %d frames, %d bytes\n", f.ID, f.Frames, f.Bytes)
	}
	for _, f := range s.Received {
		fmt.Fprintf(out, "flow %d: received %d frames, %d bytes; %d missing, %d out of order, %d twice; latency mean %v, max %v\n",
			f.ID, f.Frames, f.Bytes, f.Missing, f.Reordered, f.Duplicates,
			time.Duration(f.FromWire.Mean), time.Duration(f.FromWire.Max))
	}
	fmt.Fprintf(out, "%d damaged, %d for others, %d other frames, %d PFC frames\n", s.Corrupt, s.Strangers, s.Others, s.PFC.Frames)
	for priority, ns := range s.PFC.PausedNS {
		if ns > 0 {
			fmt.Fprintf(out, "priority %d: paused for %v\n", priority, time.Duration(ns))
		}
	}
}
