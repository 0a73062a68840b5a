package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/traffic"
	"sluice/bench/traffic/xdp"
	"sluice/internal/frame"
	"sluice/pmd/afxdp"
)

// afterStop is the time for frames in flight when sending stops.
const afterStop = 200 * time.Millisecond

// agreeInterval is how often gen looks whether DCBX has agreed.
const agreeInterval = 50 * time.Millisecond

// station is what gen runs on the devices: hosts or a forwarder, in user space or in the kernel.
type station interface {
	Run(cpu int, stop <-chan struct{}) // in its own goroutine
	ended() <-chan struct{}            // closed when Run has returned
	begin() (all bool)                 // begins the flows of hosts that have agreed by DCBX; while Run runs
	agreements() []*traffic.Agreement  // by device; none without DCBX; while Run runs
	leave()                            // tells link partners with DCBX to forget the hosts; while Run runs
	StopSending()
	counters() []traffic.Counters // while Run runs
	report() []genPort            // while Run runs
	Close() error                 // after Run has returned
}

// runGen runs gen after its flags are complete.
func runGen(c *cobra.Command, o *genOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	for _, device := range o.prepared() {
		settings, err := afxdp.Prepare(device, afxdp.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, settings.Restore()) }()
	}
	s, err := o.newStation()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	stop := make(chan struct{})
	go s.Run(o.cpu, stop)
	defer func() { close(stop); <-s.ended() }()

	progress := c.OutOrStdout()
	if o.json {
		progress = c.ErrOrStderr()
	}
	o.wait(c, s, progress)
	s.StopSending()
	time.Sleep(afterStop)
	r := genReport{Mode: o.mode, Ports: s.report()}
	s.leave()
	if o.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(r)
	}
	r.print(c.OutOrStdout())
	return nil
}

// wait shows statistics until the duration is over or the program is interrupted.
func (o *genOptions) wait(c *cobra.Command, s station, progress io.Writer) {
	var over, show, agree <-chan time.Time // never
	if o.duration > 0 {
		over = time.After(o.duration)
	}
	if o.period > 0 {
		ticker := time.NewTicker(time.Duration(o.period) * time.Second)
		defer ticker.Stop()
		show = ticker.C
	}
	begun, agreed := false, make([]string, len(o.devices))
	if o.dcbx == dcbxOn {
		ticker := time.NewTicker(agreeInterval)
		defer ticker.Stop()
		agree = ticker.C
	}
	last, at := s.counters(), time.Now()
	for {
		select {
		case <-agree:
			if begun = begun || s.begin(); begun {
				o.printChanges(progress, s.agreements(), agreed)
			}
		case <-over:
			return
		case <-c.Context().Done():
			return
		case <-show:
			ports, now := s.counters(), time.Now()
			traffic.WriteNIC(progress, ports, last, now.Sub(at).Seconds())
			last, at = ports, now
		}
	}
}

// prepared returns the devices that need settings for AF_XDP.
func (o *genOptions) prepared() []string {
	if o.engine == engineLive {
		return nil
	}
	return o.devices
}

func (o *genOptions) newStation() (station, error) {
	if o.engine == engineLive {
		return o.newLiveHosts()
	}
	if o.forwards() {
		return o.newForwarding()
	}
	h, err := xdp.New(len(o.devices), o.mtu())
	if err != nil {
		return nil, err
	}
	h.Active = len(o.devices)
	for i, device := range o.devices {
		p, err := o.host(i)
		if err == nil {
			err = o.checkMTU(device)
		}
		if err == nil {
			err = h.Add(device, p)
		}
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	return &genHosts{Hosts: h, names: o.devices}, nil
}

// mtu returns the largest MTU of the devices, in bytes. A device that does not exist is not opened
// either.
func (o *genOptions) mtu() (mtu int) {
	for _, device := range o.devices {
		if i, err := net.InterfaceByName(device); err == nil {
			mtu = max(mtu, i.MTU)
		}
	}
	return mtu
}

// checkMTU rejects frames that are longer than a device sends.
func (o *genOptions) checkMTU(device string) error {
	const header, tag = 14, 4
	i, err := net.InterfaceByName(device)
	if err != nil || o.mode == "rxonly" { // a device that does not exist is reported when it is opened
		return nil
	}
	if most, longest := i.MTU+header+tag, slices.Max(o.sizes.bytes); longest > most {
		return fmt.Errorf("--sizes %d: %s has an MTU of %d, for frames of up to %d bytes: choose shorter ones, "+
			"or set its MTU to %d", longest+frame.FCS, device, i.MTU, most+frame.FCS, longest-header)
	}
	return nil
}

// genHosts runs the modes that generate and sink.
type genHosts struct {
	*xdp.Hosts
	names []string
}

func (g *genHosts) ended() <-chan struct{} { return g.Done }

func (g *genHosts) begin() (all bool) {
	all = true
	g.Do(func(now int64) {
		for _, h := range g.List {
			if h.DCBX() == nil || h.DCBX().Settled(now) {
				h.Begin(now)
			} else {
				all = false
			}
		}
	})
	return all
}

func (g *genHosts) agreements() (all []*traffic.Agreement) {
	g.Do(func(int64) {
		for _, h := range g.List {
			if d := h.DCBX(); d != nil {
				a := d.Agreement()
				all = append(all, &a)
			}
		}
	})
	return all
}

func (g *genHosts) leave() {
	g.Calls <- func(now int64) {
		for _, h := range g.List {
			h.Leave(now)
		}
	}
}

func (g *genHosts) counters() (all []traffic.Counters) {
	g.Do(func(int64) {
		for _, h := range g.List {
			all = append(all, h.Counters())
		}
	})
	return all
}

func (g *genHosts) report() []genPort {
	var all []genPort
	for i, s := range g.Stats() {
		all = append(all, genPort{Device: g.names[i], Counters: s.Port, Host: newGenHost(s)})
	}
	return all
}

// forwarding runs the modes that forward.
type forwarding struct {
	xdp.Devices
	xdp.Loop
	names     []string
	forwarder *traffic.Forwarder
}

func (o *genOptions) newForwarding() (_ station, err error) {
	f := &forwarding{Loop: xdp.NewLoop(), names: o.devices}
	if f.Devices, err = xdp.NewDevices(len(o.devices), xdp.BufferSize(o.mtu())); err != nil {
		return nil, err
	}
	p := traffic.ForwarderParams{
		Mode: o.mode, Noise: o.noise, Burst: o.burst,
		Memory: f.Memory.Bytes(), BufferSize: f.Memory.BufferSize(), Buffers: len(o.devices) * xdp.HostBuffers,
	}
	for i, device := range o.devices {
		s, err := o.station(i)
		if err == nil {
			s.Port, err = f.Open(device)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		p.Ports = append(p.Ports, s)
	}
	if f.forwarder, err = traffic.NewForwarder(p); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *forwarding) Run(cpu int, stop <-chan struct{}) {
	f.Loop.Run(cpu, stop, f.forwarder.Step)
}

func (f *forwarding) ended() <-chan struct{} { return f.Done }

func (f *forwarding) StopSending() {}

func (f *forwarding) begin() bool { return true }

func (f *forwarding) agreements() []*traffic.Agreement { return nil }

func (f *forwarding) leave() {}

func (f *forwarding) counters() (all []traffic.Counters) {
	f.Do(func(int64) { all = f.forwarder.Counters() })
	return all
}

func (f *forwarding) report() []genPort {
	var all []genPort
	for i, c := range f.counters() {
		all = append(all, genPort{Device: f.names[i], Counters: c})
	}
	return all
}

// genReport is the final report of gen.
type genReport struct {
	Mode  string    `json:"mode"`
	Ports []genPort `json:"ports"` // in the order of the devices
}

type genPort struct {
	Device string `json:"device"`
	traffic.Counters
	Host *genHost `json:"host,omitempty"` // in modes that generate and sink
}

// genHost is a host's statistics of test frames.
type genHost struct {
	Sent        []genSent          `json:"sent"`
	Received    []traffic.Received `json:"received"`
	Damaged     uint64             `json:"damaged"`
	ForOthers   uint64             `json:"for_others"`
	Untracked   uint64             `json:"untracked"`    // of flows with too high numbers
	OtherFrames uint64             `json:"other_frames"` // not test frames, or MAC control frames other than PFC
	PFC         genPFC             `json:"pfc"`
	DCBX        *traffic.Agreement `json:"dcbx,omitempty"` // of hosts that speak it

	// TXDropsUnknown means that the device does not count frames that it drops instead of sending.
	// They count as sent.
	TXDropsUnknown bool `json:"tx_drops_unknown,omitempty"`
}

type genSent struct {
	traffic.Sent
	ForgoneNS int64 `json:"forgone_ns,omitempty"` // how far the schedule was postponed because it could not be kept
}

type genPFC struct {
	Received uint64   `json:"received"` // frames
	Injected uint64   `json:"injected"`
	PausedNS [8]int64 `json:"paused_ns"` // by priority
}

func newGenHost(s traffic.Stats) *genHost {
	h := &genHost{
		Received: s.Received, Damaged: s.Corrupt, ForOthers: s.Strangers, Untracked: s.Untracked,
		OtherFrames: s.Others + s.Control,
		DCBX:        s.DCBX,
		PFC:         genPFC{Received: s.PFC.Frames, Injected: s.Injected, PausedNS: s.PFC.PausedNS},
	}
	for _, sent := range s.Sent {
		h.Sent = append(h.Sent, genSent{Sent: sent})
	}
	return h
}

// flowsShown is the number of flows listed individually.
const flowsShown = 16

// print writes statistics in testpmd's layout, and then those of the hosts.
func (r *genReport) print(out io.Writer) {
	var ports []traffic.Counters
	for _, p := range r.Ports {
		ports = append(ports, p.Counters)
	}
	traffic.WriteForward(out, r.Mode, ports)
	for _, p := range r.Ports {
		if p.Host != nil {
			fmt.Fprintf(out, "\n%s\n", p.Device)
			p.Host.print(out)
		}
		if p.Unanswered > 0 {
			fmt.Fprintf(out, "\n%s: %d frames were neither ARP requests nor pings\n", p.Device, p.Unanswered)
		}
	}
}

func (h *genHost) print(out io.Writer) {
	for i, f := range h.Sent {
		if i == flowsShown {
			fmt.Fprintf(out, "and %d more flows\n", len(h.Sent)-i)
			break
		}
		fmt.Fprintf(out, "flow %d: sent %d frames, %d bytes\n", f.ID, f.Frames, f.Bytes)
		if f.ForgoneNS > 0 {
			fmt.Fprintf(out, "  skipped %v of its schedule\n", time.Duration(f.ForgoneNS))
		}
	}
	if h.TXDropsUnknown {
		fmt.Fprintln(out, "the device does not count frames that it drops instead of sending; they count as sent")
	}
	for i, f := range h.Received {
		if i == flowsShown {
			fmt.Fprintf(out, "and %d more flows\n", len(h.Received)-i)
			break
		}
		fmt.Fprintf(out, "flow %d: received %d frames, %d bytes; %d missing, %d out of order, %d twice\n",
			f.ID, f.Frames, f.Bytes, f.Missing, f.Reordered, f.Duplicates+f.Stale)
		printLatency(out, "from schedule", f.FromSchedule)
		printLatency(out, "from wire", f.FromWire)
	}
	fmt.Fprintf(out, "%d damaged, %d for other addresses, %d of unknown flows, %d other frames; PFC frames: %d "+
		"received, %d injected\n",
		h.Damaged, h.ForOthers, h.Untracked, h.OtherFrames, h.PFC.Received, h.PFC.Injected)
	if h.DCBX != nil {
		fmt.Fprintln(out, h.DCBX)
	}
	for priority, ns := range h.PFC.PausedNS {
		if ns > 0 {
			fmt.Fprintf(out, "priority %d: paused for %v\n", priority, time.Duration(ns))
		}
	}
}

func printLatency(out io.Writer, from string, l traffic.Latency) {
	fmt.Fprintf(out, "  latency %-13s  mean %v  p50 %v  p90 %v  p99 %v  p99.9 %v  p99.99 %v  max %v\n", from,
		time.Duration(l.Mean), time.Duration(l.P50), time.Duration(l.P90), time.Duration(l.P99),
		time.Duration(l.P999), time.Duration(l.P9999), time.Duration(l.Max))
}
