package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"sluice/bench/traffic"
	"sluice/bench/traffic/live"
	"sluice/bench/traffic/xdp"
	"sluice/internal/frame"
	"sluice/internal/linux/thread"
)

const (
	engineXDP  = "af_xdp" // hosts and forwarders on AF_XDP sockets
	engineLive = "live"   // hosts inside the kernel, of bench/traffic/live
)

// notLive are the flags that engine live does not support.
var notLive = []string{"count", "burst", "inject", "inject-interval", "tx-ip", "tx-udp"}

// checkLive rejects what engine live does not support.
func (o *genOptions) checkLive(given *pflag.FlagSet) error {
	if o.mode != "txonly" && o.mode != "rxonly" {
		return fmt.Errorf("--engine live does not support mode %s: choose txonly or rxonly", o.mode)
	}
	for _, name := range notLive {
		if given.Changed(name) {
			return fmt.Errorf("--engine live does not support --%s: leave out one of them", name)
		}
	}
	if len(o.sizes.bytes) > 1 {
		return fmt.Errorf("--engine live does not support --sizes %s: give one size", &o.sizes)
	}
	if o.mode == "txonly" && o.sizes.bytes[0] > live.MaxSize {
		return fmt.Errorf("--engine live makes frames of up to %d bytes, with FCS: use --engine %s for longer ones",
			live.MaxSize+frame.FCS, engineXDP)
	}
	if given.Changed("mix") && !given.Changed("rate") {
		return errors.New("--engine live sends as fast as possible without --rate: give a --rate for --mix to divide")
	}
	o.unlimited = !given.Changed("rate")
	return nil
}

// liveHosts are the hosts of engine live: a generator and, for each device, a sink.
type liveHosts struct {
	names     []string
	pauses    *live.Pauses
	sinks     []*live.Sink
	generator *live.Generator // nil in mode rxonly
	speakers  []*liveSpeaker  // by device; none without DCBX
	rates     []float64       // of all flows, in the order of generator.Sent
	done      chan struct{}
}

func (o *genOptions) newLiveHosts() (station, error) {
	l := &liveHosts{names: o.devices, done: make(chan struct{})}
	if err := l.open(o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *liveHosts) open(o *genOptions) (err error) {
	if l.pauses, err = live.NewPauses(len(o.devices)); err != nil {
		return err
	}
	var ports []live.PortParams
	for i, device := range o.devices {
		p, err := o.host(i)
		if err != nil {
			return err
		}
		sink, err := live.NewSink(nil, device, live.SinkParams{
			Flows: o.ids(), Priorities: p.Priorities, Speed: p.Speed, Delay: o.reaction, Pauses: l.pauses, Port: i,
			LLDP: p.DCBX != nil})
		if err != nil {
			return err
		}
		l.sinks = append(l.sinks, sink)
		if p.DCBX != nil {
			socket, err := live.OpenLLDP(nil, device)
			if err != nil {
				return err
			}
			l.speakers = append(l.speakers, &liveSpeaker{negotiator: p.DCBX, socket: socket, sink: sink})
		}
		ports = append(ports, live.PortParams{Device: device, Flows: l.hold(o.liveFlows(p))})
	}
	if o.mode == "rxonly" {
		return nil
	}
	cpu := o.cpu
	if cpu < 0 {
		if cpu, err = thread.LastCPU(); err != nil {
			return err
		}
	}
	l.generator, err = live.Start(live.GeneratorParams{CPU: cpu, Ports: ports, Pauses: l.pauses})
	return err
}

// liveFlows returns the flows of a host, with a flow for each stream.
func (o *genOptions) liveFlows(p traffic.Params) (flows []live.Flow) {
	for _, f := range p.Flows {
		bytes := f.Sizes[0]
		rate := 0.0
		if bits := f.Rate; !o.unlimited {
			if bits == 0 {
				bits = p.Speed
			}
			rate = float64(bits) / float64(8*(bytes+frame.WireOverhead)*f.Streams)
		}
		for stream := range f.Streams {
			flows = append(flows, live.Flow{
				ID: f.ID + uint32(stream), Dst: f.Dst, Src: p.MAC, VID: f.VID, PCP: f.PCP, Size: bytes, Rate: rate})
		}
	}
	return flows
}

// Run speaks DCBX until stop. The kernel does the other work.
func (l *liveHosts) Run(_ int, stop <-chan struct{}) {
	defer close(l.done)
	ticker := time.NewTicker(agreeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			for _, s := range l.speakers {
				s.step(xdp.Monotonic())
			}
		}
	}
}

// hold keeps flows from sending before begin, if the hosts speak DCBX.
func (l *liveHosts) hold(flows []live.Flow) []live.Flow {
	for i := range flows {
		l.rates = append(l.rates, flows[i].Rate)
		if len(l.speakers) > 0 {
			flows[i].Rate = -1
		}
	}
	return flows
}

// begin begins all flows at once: they share a generator.
func (l *liveHosts) begin() bool {
	for _, s := range l.speakers {
		if !s.settled(xdp.Monotonic()) {
			return false
		}
	}
	if l.generator != nil {
		for i, s := range l.generator.Sent() {
			_ = l.generator.SetRate(s.Port, s.Flow, l.rates[i]) // fails only for invalid rates
		}
	}
	return true
}

func (l *liveHosts) agreements() (all []*traffic.Agreement) {
	for _, s := range l.speakers {
		a := s.agreement()
		all = append(all, &a)
	}
	return all
}

func (l *liveHosts) leave() {
	for _, s := range l.speakers {
		s.leave(xdp.Monotonic())
	}
}

func (l *liveHosts) ended() <-chan struct{} { return l.done }

func (l *liveHosts) StopSending() {
	if l.generator == nil {
		return
	}
	for _, s := range l.generator.Sent() {
		_ = l.generator.SetRate(s.Port, s.Flow, -1) // fails only for invalid rates
	}
}

func (l *liveHosts) counters() (all []traffic.Counters) {
	for _, p := range l.report() {
		all = append(all, p.Counters)
	}
	return all
}

func (l *liveHosts) report() []genPort {
	all := make([]genPort, len(l.names))
	for i, sink := range l.sinks {
		s := sink.Read()
		all[i] = newLivePort(l.names[i], &s)
	}
	for i, a := range l.agreements() {
		all[i].Host.DCBX = a
	}
	if l.generator == nil {
		return all
	}
	for _, s := range l.generator.Sent() {
		p := &all[s.Port]
		p.TXPackets += s.Frames
		p.TXBytes += s.Bytes
		p.Host.Sent = append(p.Host.Sent, genSent{
			Sent: traffic.Sent{ID: s.ID, Frames: s.Frames, Bytes: s.Bytes}, ForgoneNS: int64(s.Forgone)})
	}
	for i := range all {
		l.subtractRefused(i, &all[i])
	}
	return all
}

// subtractRefused subtracts the frames that the device of a port dropped from those it was given.
// All frames have one size.
func (l *liveHosts) subtractRefused(port int, p *genPort) {
	refused, known := l.generator.Refused(port)
	p.Host.TXDropsUnknown = !known
	if p.TXPackets > 0 {
		size := p.TXBytes / p.TXPackets
		refused = min(refused, p.TXPackets)
		p.TXDropped = refused
		p.TXPackets -= refused
		p.TXBytes -= refused * size
	}
}

// newLivePort converts the counters of a sink.
func newLivePort(device string, s *live.SinkStats) genPort {
	c := &s.Control
	p := genPort{Device: device, Host: &genHost{
		Untracked: s.Untracked, OtherFrames: s.Unknown + c.Other + c.Pause, PFC: genPFC{Received: c.PFC}}}
	p.RXPackets = s.Untracked + s.Unknown + c.PFC + c.Pause + c.Other
	p.RXBytes = s.Bytes
	for priority, paused := range c.Paused {
		p.Host.PFC.PausedNS[priority] = int64(paused)
	}
	for id := range s.Flows {
		f := &s.Flows[id]
		if f.Frames == 0 {
			continue
		}
		p.RXPackets += f.Frames + f.Duplicates + f.Stale
		p.Host.Received = append(p.Host.Received, traffic.Received{
			ID: uint32(id), Frames: f.Frames, Bytes: f.Bytes, Missing: f.First + f.Lost, Reordered: f.Reordered,
			Duplicates: f.Duplicates, Stale: f.Stale,
			FromSchedule: traffic.LatencyOf(&f.FromSchedule), FromWire: traffic.LatencyOf(&f.FromWire)})
	}
	return p
}

func (l *liveHosts) Close() (err error) {
	if l.generator != nil {
		err = l.generator.Stop()
	}
	for _, s := range l.speakers {
		err = errors.Join(err, s.socket.Close())
	}
	for _, s := range slices.Backward(l.sinks) {
		err = errors.Join(err, s.Close())
	}
	if l.pauses != nil {
		err = errors.Join(err, l.pauses.Close())
	}
	return err
}
