package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/bench/traffic"
	"sluice/bench/traffic/live"
	"sluice/internal/cli"
	"sluice/internal/frame"
)

const (
	// genIDs and liveIDs are the number of flows that sinks can tell apart, and so the limit of
	// flows. It is lower for live because kernel memory costs more.
	genIDs, liveIDs = 4096, live.MostFlows
	// flowgenFlows is the default number of flows in mode flowgen, as in testpmd.
	flowgenFlows = 1024
)

// genOptions are the flags of gen.
type genOptions struct {
	devices []string
	mode    string
	engine  string
	dst     []string

	flow         uint32
	flows        int
	vlan         uint16
	cos          uint8
	mix          mix
	sizes        sizes
	count        uint64
	rate         load
	unlimited    bool // send as fast as the engine can
	txIP, txUDP  string
	speed        cli.Quantity
	burst        int
	honour       []int
	dcbx         string // dcbxOn, dcbxOff, or empty: neither
	willing      bool   // to take PFC from the link partner
	announce     time.Duration
	reaction     time.Duration
	inject       injection
	interval     time.Duration
	noise        traffic.Noise
	noisyMemory  int // MB
	noisyFlushMS int64

	duration time.Duration
	period   int // seconds
	cpu      int
	json     bool
}

func genCommand() *cobra.Command {
	var o genOptions
	c := &cobra.Command{
		Use:     "gen -d DEVICE... [--mode MODE]",
		Short:   "Act as a host: send, check or forward frames, honour PFC (root)",
		Long:    genHelp(),
		Example: genExamples,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(c.Flags()); err != nil {
				return cli.Usage(err)
			}
			return runGen(c, &o)
		},
	}
	o.addFlags(c.Flags())
	if err := c.MarkFlagRequired("device"); err != nil {
		panic(err)
	}
	c.MarkFlagsMutuallyExclusive("mix", "cos")
	cli.CompleteWith(c, "device", cli.DeviceNames)
	cli.CompleteWith(c, "mode", forwardModes)
	cli.Complete(c, "engine", engineXDP, engineLive)
	cli.Complete(c, "dcbx", dcbxOn, dcbxOff)
	return c
}

// genHelp returns the help text with the modes.
func genHelp() string {
	var b strings.Builder
	b.WriteString(`Acts as a host on each device, over AF_XDP, in one of the forward modes of DPDK's testpmd:

`)
	for _, m := range traffic.Modes() {
		fmt.Fprintf(&b, "  %-9s %s\n", m.Name, m.Does)
	}
	b.WriteString(`
Frames carry a flow number, a sequence number and times. Modes txonly, flowgen and rxonly check the
frames that arrive for loss, order, duplicates and damage, and measure their latency. Modes that
forward do so from the first device to the second and back, from the third to the fourth and back,
and so on; a single device gets its own frames back. Modes that send honour PFC on the priorities
of --pfc; modes that forward do not.

With --dcbx on, a host starts without PFC, and is willing: it learns from the switch, by LLDP and
DCBX, on which priorities to honour PFC. It starts sending one second after that is agreed. With
--pfc as well, it is not willing to take PFC, like an FCoE forwarder: it tells the switch these
priorities, and honours PFC on those that the switch has, too. When it ends, it tells the switch to
forget it. With --dcbx off, it neither speaks DCBX nor honours PFC.

With --engine live, the kernel itself sends and counts, for loads that no program reaches. It
honours PFC within microseconds. Its frames carry no checksum. A flow that falls behind its --rate
by more than 100 µs, because of PFC or otherwise, skips the excess, and the statistics say so; with
af_xdp, hosts send later what PFC held back.

Ends after --duration, or when interrupted, with statistics in testpmd's layout.`)
	return b.String()
}

const genExamples = `  sluice-lab gen -d veth-a --mode rxonly
  sluice-lab gen -d veth-b --dst 02:00:00:00:00:01 --rate 50% --sizes imix --mix 3:50,0:50
  sluice-lab gen -d veth-c --mode flowgen --flows 100 --rate 100Kpps --stats-period 1
  sluice-lab gen -d veth-a -d veth-b --mode macswap
  sluice-lab gen -d veth-b --dst 02:00:00:00:00:01 --cos 3 --dcbx on    # learns from the switch to pause CoS 3
  sluice-lab gen -d veth-d --mode rxonly --inject 3:65535 --inject-interval 100us   # a pause storm`

func (o *genOptions) addFlags(f *pflag.FlagSet) {
	o.sizes = sizes{text: "1500", bytes: []int{1500 - frame.FCS}}
	o.rate = load{text: "100%", percent: true, number: cli.Quantity{Value: 100}}
	o.speed = cli.NewRate("1G")
	f.StringSliceVarP(&o.devices, "device", "d", nil, "device of a port; may be repeated")
	f.StringVar(&o.mode, "mode", "", "forward mode, see above; default txonly with --dst, else rxonly")
	f.StringVar(&o.engine, "engine", engineXDP,
		"af_xdp, or live: txonly and rxonly inside the kernel, without --rate as fast as possible")
	f.StringSliceVar(&o.dst, "dst", nil,
		"MAC address of each device's peer; default 02:00:00:00:00:nn, with the device's number from 0")
	f.Uint32Var(&o.flow, "flow", 0, fmt.Sprintf("number of the first flow, different from those of other hosts; "+
		"all are below %d, with --engine live below %d", genIDs, liveIDs))
	f.IntVar(&o.flows, "flows", 0,
		"flows per priority, each with its own sequence numbers; default 1, with flowgen 1024")
	f.Uint16Var(&o.vlan, "vlan", 1, "VLAN")
	f.Uint8Var(&o.cos, "cos", 0, "priority in the VLAN tag")
	f.Var(&o.mix, "mix",
		"priorities and their shares of the frames in percent, such as 3:50,0:30,5:20; instead of --cos")
	f.Var(&o.sizes, "sizes",
		"bytes per frame, with FCS, used in turn: such as 64,512,1518, or imix (7 × 64, 4 × 570, 1 × 1518), "+
			"or imix-jumbo (imix and 1 × 4218, 1 × 9018)")
	f.Uint64Var(&o.count, "count", 0, "frames to send from each device, all flows together; 0: no limit")
	f.Var(&o.rate, "rate",
		"rate of each device: bit/s such as 5G, packets/s such as 1Mpps, or a share of the line such as 50%")
	f.StringVar(&o.txIP, "tx-ip", "", "SRC,DST: send UDP datagrams over IPv4; flow n goes to address DST + n; "+
		"default with flowgen 10.254.0.0,10.253.0.0")
	f.StringVar(&o.txUDP, "tx-udp", "",
		"SRC[,DST]: send UDP datagrams; flow n comes from port SRC + n; default with flowgen 1000,1001")
	f.Var(&o.speed, "speed", "speed of the lines in bit/s; no device sends faster")
	f.IntVar(&o.burst, "burst", 64, fmt.Sprintf("frames per burst, up to %d", traffic.MaxBurst))
	f.IntSliceVar(&o.honour, "pfc", []int{3}, "priorities on which PFC is honoured")
	f.StringVar(&o.dcbx, "dcbx", "", "on: learn from the switch where to honour PFC; off: honour it nowhere; "+
		"default: on the priorities of --pfc")
	f.DurationVar(&o.announce, "lldp-interval", 30*time.Second,
		"time between LLDP frames with --dcbx on; the switch forgets a silent host after four of them and 1 s")
	f.DurationVar(&o.reaction, "reaction-delay", 0, "time from receiving a PFC frame to honouring it")
	f.Var(&o.inject, "inject",
		"PFC frame to send at the start: priorities and quanta of 512 bit times, such as 3:65535,4:100")
	f.DurationVar(&o.interval, "inject-interval", 0, "repeat the PFC frame of --inject at this interval: a pause storm")
	f.StringVar(&o.noise.Mode, "noisy-forward-mode", "io",
		"mode noisy: how to change frames: io, mac, macswap or 5tswap")
	f.IntVar(&o.noise.Queue, "noisy-tx-sw-buffer-size", 0,
		"mode noisy: frames that wait in a queue until later ones push them out")
	f.Int64Var(&o.noisyFlushMS, "noisy-tx-sw-buffer-flushtime", 0,
		"mode noisy: ms without a frame leaving the queue until it is emptied; 0: never")
	f.IntVar(&o.noisyMemory, "noisy-lkup-memory", 0, "mode noisy: MB of memory to access at random")
	f.IntVar(&o.noise.Reads, "noisy-lkup-num-reads", 0, "mode noisy: reads per frame")
	f.IntVar(&o.noise.Writes, "noisy-lkup-num-writes", 0, "mode noisy: writes per frame")
	f.IntVar(&o.noise.ReadWrites, "noisy-lkup-num-reads-writes", 0,
		"mode noisy: reads, each with a write to the same address, per frame")
	f.DurationVar(&o.duration, "duration", 0, "how long to run; 0: until interrupted")
	f.IntVar(&o.period, "stats-period", 0, "print port statistics at this interval in seconds; 0: only at the end")
	f.IntVar(&o.cpu, "cpu", -1, "CPU to run on; -1: any")
	f.BoolVar(&o.json, "json", false,
		"print one JSON document at the end instead; --stats-period then prints to standard error")
	f.SortFlags = false
}

// genFlags lists the flags that only some modes have.
var genFlags = []struct{ flags, modes []string }{
	{[]string{"flow", "flows", "vlan", "cos", "mix", "sizes", "count", "rate", "tx-ip", "tx-udp"},
		[]string{"txonly", "flowgen"}},
	{[]string{"speed", "pfc", "dcbx", "lldp-interval", "reaction-delay", "inject", "inject-interval"},
		[]string{"txonly", "flowgen", "rxonly"}},
	{[]string{"dst"}, []string{"txonly", "flowgen", "mac", "csum", "noisy"}},
	{[]string{"noisy-forward-mode", "noisy-tx-sw-buffer-size", "noisy-tx-sw-buffer-flushtime", "noisy-lkup-memory",
		"noisy-lkup-num-reads", "noisy-lkup-num-writes", "noisy-lkup-num-reads-writes"}, []string{"noisy"}},
}

// complete sets values that depend on other flags, and rejects combinations that make no sense.
func (o *genOptions) complete(given *pflag.FlagSet) error {
	if o.mode == "" {
		o.mode = "rxonly"
		if len(o.dst) > 0 {
			o.mode = "txonly"
		}
	}
	if _, err := traffic.ModeNamed(o.mode); err != nil {
		return err
	}
	for _, g := range genFlags {
		for _, name := range g.flags {
			if given.Changed(name) && !slices.Contains(g.modes, o.mode) {
				return fmt.Errorf("--%s does not apply to mode %s, only to %s", name, o.mode,
					strings.Join(g.modes, ", "))
			}
		}
	}
	for i, device := range o.devices {
		if slices.Contains(o.devices[:i], device) {
			return fmt.Errorf("device %s is given twice", device)
		}
	}
	switch o.engine {
	case engineXDP:
	case engineLive:
		if err := o.checkLive(given); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--engine %s: choose %s or %s", o.engine, engineXDP, engineLive)
	}
	if len(o.dst) > len(o.devices) {
		return fmt.Errorf("%d addresses with --dst for %d devices: give at most one each", len(o.dst), len(o.devices))
	}
	if given.Changed("inject-interval") && o.inject.frame.Enable == 0 {
		return fmt.Errorf("--inject-interval repeats the PFC frame of --inject: give both")
	}
	if o.period < 0 || o.interval < 0 || o.duration < 0 {
		return fmt.Errorf("--stats-period, --inject-interval and --duration must not be negative")
	}
	if o.flows == 0 {
		o.flows = 1
		if o.mode == "flowgen" {
			o.flows = flowgenFlows
		}
	}
	o.datagramDefaults()
	if err := o.checkDCBX(given); err != nil {
		return err
	}
	if !given.Changed("mix") {
		o.mix = mix{priorities: []uint8{o.cos}, percent: []float64{100}}
	}
	o.noise.Memory, o.noise.FlushAfter = o.noisyMemory<<20, o.noisyFlushMS*1e6
	return nil
}

func (o *genOptions) forwards() bool {
	m, err := traffic.ModeNamed(o.mode)
	return err == nil && m.Forwards()
}

// check rejects invalid values before any device is changed.
func (o *genOptions) check() error {
	for i := range o.devices {
		check := func() error { _, err := o.host(i); return err }
		if o.forwards() {
			check = func() error { _, err := o.station(i); return err }
		}
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// datagramDefaults sets the defaults of --tx-ip and --tx-udp, which are testpmd's. Mode flowgen
// always sends UDP datagrams; other modes do if at least one of the two flags is set.
func (o *genOptions) datagramDefaults() {
	ip, udp := "198.18.0.1,198.18.0.2", "9"
	if o.mode == "flowgen" {
		ip, udp = "10.254.0.0,10.253.0.0", "1000,1001"
	} else if o.txIP == "" && o.txUDP == "" {
		return
	}
	if o.txIP == "" {
		o.txIP = ip
	}
	if o.txUDP == "" {
		o.txUDP = udp
	}
}

// station returns port i with its own address and its peer's.
func (o *genOptions) station(i int) (s traffic.Station, err error) {
	device, err := net.InterfaceByName(o.devices[i])
	if err != nil {
		return s, fmt.Errorf("device %s: %w: give one that `ip link` shows", o.devices[i], err)
	}
	if len(device.HardwareAddr) != 6 {
		return s, fmt.Errorf("device %s has no MAC address: give an Ethernet device", o.devices[i])
	}
	s.MAC, s.Peer = frame.MACFrom(device.HardwareAddr), traffic.DefaultPeer(i)
	if i < len(o.dst) {
		if s.Peer, err = frame.ParseMAC(o.dst[i]); err != nil {
			return s, fmt.Errorf("--dst: %w", err)
		}
	}
	return s, nil
}

// host returns the parameters of the host on port i.
func (o *genOptions) host(i int) (p traffic.Params, err error) {
	s, err := o.station(i)
	if err != nil {
		return p, err
	}
	p = traffic.Params{
		MAC: s.MAC, Speed: uint64(o.speed.Value), InFlight: 64 << 10, CatchUp: int64(2 * time.Millisecond),
		FlowIDs:       genIDs,
		ReactionDelay: int64(o.reaction), Burst: o.burst,
		Injection: traffic.Injection{Frame: o.inject.frame, Interval: int64(o.interval)},
	}
	for _, priority := range o.honour {
		if o.dcbx == dcbxOff {
			break
		}
		if priority < 0 || priority > 7 {
			return p, fmt.Errorf("--pfc %d: priorities are 0 to 7", priority)
		}
		p.Priorities |= 1 << priority
	}
	if o.dcbx == dcbxOn {
		if p.DCBX, err = o.negotiator(s.MAC, p.Priorities); err != nil {
			return p, err
		}
		p.Priorities, p.Held = 0, true
	}
	if o.mode != "rxonly" {
		p.Flows, err = o.genFlows(i, s.Peer, p.Speed)
	}
	return p, err
}

// ids returns the number of flows that the engine's sinks can tell apart.
func (o *genOptions) ids() int {
	if o.engine == engineLive {
		return liveIDs
	}
	return genIDs
}

// genFlows returns the flows from port i to dst, one for each priority of the mix.
func (o *genOptions) genFlows(i int, dst frame.MAC, speed uint64) (flows []traffic.Flow, err error) {
	bits, err := o.rate.bits(o.sizes.bytes, speed)
	if err != nil {
		return nil, err
	}
	if o.flows < 0 || uint64(o.flow)+uint64(o.flows)*uint64(len(o.mix.priorities)*len(o.devices)) > uint64(o.ids()) {
		return nil, fmt.Errorf("--flow %d --flows %d: with %d priorities and %d devices, give at least one flow, and "+
			"keep their numbers below %d",
			o.flow, o.flows, len(o.mix.priorities), len(o.devices), o.ids())
	}
	var udp *traffic.UDP
	if o.txIP != "" {
		if udp, err = datagrams(o.txIP, o.txUDP); err != nil {
			return nil, err
		}
	}
	counts := o.mix.divide(o.count)
	for k, priority := range o.mix.priorities {
		if o.count > 0 && counts[k] == 0 {
			continue
		}
		share := o.mix.percent[k] / 100
		f := traffic.Flow{
			ID: o.flow + uint32((i*len(o.mix.priorities)+k)*o.flows), Streams: o.flows, Dst: dst, VID: o.vlan,
			PCP:   priority,
			Sizes: o.sizes.bytes, UDP: udp, Rate: max(uint64(share*float64(bits)), 1), Count: counts[k],
		}
		if len(o.mix.priorities) == 1 && bits == speed {
			f.Rate = 0 // the line sets the pace, so the flow is not late when the line is slightly slower
		}
		flows = append(flows, f)
	}
	return flows, nil
}
