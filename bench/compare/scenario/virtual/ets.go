// Package virtual has scenarios in virtual time, on the fabrics of bench/sim. Their results are
// exact and the same on every machine.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"sluice/bench/compare"
	"sluice/bench/sim"
	"sluice/bench/traffic"
	"sluice/examples"
	"sluice/internal/config"
	"sluice/internal/frame"
)

// ETS is how the classes of Huawei's documents share a port.
var ETS = compare.Scenario{
	Name: "ets",
	Shows: "how priority groups and queues share a port, in the traffic mixes of Huawei's documents and of the " +
		"kernel's self-test",
	Peers:  "the shares that the weights specify",
	Page:   "scheduling-and-buffers",
	OneCPU: true,
	Run:    runETS,
}

// etsMix is traffic of several classes to one port, with known shares. A whole switch with a
// configuration file divides the port; package sched tests the scheduler alone, for longer.
type etsMix struct {
	name    string
	source  string
	file    string // the switch's configuration: text, or the name of an example
	classes []etsClass
}

// etsClass is a class of traffic from two servers, each offering half of it.
type etsClass struct {
	name    string
	pcp     [2]uint8 // from each server
	size    [2]int   // frame sizes from each server, bytes without FCS; 0: the longest
	offered float64  // Gbit/s on the wire, preamble and gap included
	want    float64  // the same
	lost    bool     // traffic beyond want is lost; otherwise nothing is
}

// The classes of Huawei's documents. In every class one server sends the longest frames, the other
// shorter ones.
func etsLAN(offered, want float64) etsClass {
	return etsClass{"LAN", [2]uint8{0, 5}, [2]int{300, 0}, offered, want, want < offered}
}

func etsSAN(offered, want float64) etsClass {
	return etsClass{"SAN", [2]uint8{sim.LosslessCoS, sim.LosslessCoS}, [2]int{0, 700}, offered, want, false}
}

func etsIPC(offered, want float64) etsClass {
	return etsClass{"IPC", [2]uint8{7, 7}, [2]int{traffic.MinSize, 0}, offered, want, false}
}

const (
	etsModules = `Huawei, "CX11x, CX31x, CX710 and CX91x Series Switch Modules ` +
		`Configuration Guide", DCB Principles (the text leaves open what is offered at t1 and t2)`
	etsPaper  = `Huawei, white paper "FCoE/DCB", chapter 3`
	etsKernel = "the self-test of Linux's sch_ets, whose quanta are a hundred times these weights"
)

// modulesSwitch has the default priority groups: LAN and SAN with 50 % each, IPC with strict
// priority over both.
const modulesSwitch = `
memory: {buffers: 16384, buffer_size: 16384B, cell: 256B}
classes:
  - {name: san, cos: [3], lossless: true, share: 2MB}
  - {name: lan, cos: [0, 1, 2, 4, 5], queue_limit: 200KB}
  - {name: ipc, cos: [6, 7]}
ports:
  - {device: target, speed: 10G, mtu: 9198, in_flight: 64KB, response: 5us}
  - {device: a, speed: 10G, mtu: 9198, in_flight: 64KB, response: 5us}
  - {device: b, speed: 10G, mtu: 9198, in_flight: 64KB, response: 5us}
`

// kernelSwitch has queues of these weights in one group, and CoS 7 with strict priority over them.
func kernelSwitch(weights ...int) string {
	queues := ""
	for cos, w := range weights {
		queues += fmt.Sprintf("{cos: %d, weight: %d}, ", cos, w)
	}
	ports := ""
	for _, device := range []string{"target", "a", "b"} {
		ports += fmt.Sprintf("  - {device: %s, speed: 10G, in_flight: 64KB, response: 5us, ets: mix}\n", device)
	}
	return `
memory: {buffers: 16384, cell: 256B}
classes:
  - {name: bands, cos: [0, 1, 2, 3, 4, 5, 6], queue_limit: 100KB}
  - {name: strict, cos: [7]}
ets:
  - name: mix
    groups: [{pg: 0, cos: [0, 1, 2, 3, 4, 5, 6], weight: 100}, {pg: 15, cos: [7]}]
    queues: [` + queues + `]
ports:
` + ports
}

// kernelMix overloads queues of these weights; strict traffic takes its Gbit/s first.
func kernelMix(name string, strict float64, weights ...int) etsMix {
	m := etsMix{name: name, source: etsKernel, file: kernelSwitch(weights...)}
	sum := 0
	for _, w := range weights {
		sum += w
	}
	for i, w := range weights {
		pcp := uint8(i)
		m.classes = append(m.classes, etsClass{
			fmt.Sprintf("band %d of weight %d", i, w), [2]uint8{pcp, pcp}, [2]int{[]int{300, 0, 700}[i], 0},
			(19 - strict) / float64(len(weights)), (10 - strict) * float64(w) / float64(sum), true,
		})
	}
	if strict > 0 {
		m.classes = append(m.classes, etsClass{"strict", [2]uint8{7, 7}, [2]int{500, 0}, strict, strict, false})
	}
	return m
}

// etsMixes are all mixes. In the figure of the switch modules, all traffic gets through at t1 and
// t2; at t2 LAN exceeds its half because SAN does not use its own; at t3 LAN loses 1 Gbit/s.
// SwitchA divides what IPC leaves with weights 60 for LAN and 40 for SAN: excess LAN traffic is
// lost, SAN is paused by PFC.
var etsMixes = []etsMix{
	{"figure, t1", etsModules, modulesSwitch, []etsClass{etsLAN(3, 3), etsSAN(3, 3), etsIPC(3, 3)}},
	{"figure, t2", etsModules, modulesSwitch, []etsClass{etsLAN(5, 5), etsSAN(3, 3), etsIPC(2, 2)}},
	{"figure, t3", etsModules, modulesSwitch, []etsClass{etsLAN(5, 4), etsSAN(4, 4), etsIPC(2, 2)}},
	{"SwitchA, IPC silent", etsPaper, "switcha.yaml", []etsClass{etsLAN(9, 6), etsSAN(9, 4)}},
	{"SwitchA, IPC has 2 Gbit/s", etsPaper, "switcha.yaml", []etsClass{etsLAN(8, 4.8), etsSAN(8, 3.2), etsIPC(2, 2)}},
	kernelMix("33 33 33", 0, 33, 33, 33),
	kernelMix("50 35 15", 0, 50, 35, 15),
	kernelMix("50 25", 0, 50, 25),
	kernelMix("strict, 50 25 15", 3, 50, 25, 15),
}

func runETS(ctx context.Context, o compare.Options, r *compare.Report) error {
	length := int64(500_000_000)
	if o.Quick {
		length = 100_000_000
	}
	t := compare.Table{
		Title: "Shares of a port of 10 Gbit/s, in Gbit/s on the wire",
		Head:  []string{"mix", "class", "offered", "expected", "measured", "deviation", "lost", "frames lost"},
	}
	defer func() { r.Table(t) }()
	r.Note("Sources: %s; %s; %s.", etsModules, etsPaper, etsKernel)
	for _, m := range etsMixes {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.Progress("%s", m.name)
		shares, err := m.run(length, o.Seed)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for i, c := range m.classes {
			s := shares[i]
			metric := "rate of " + c.name
			r.Add(compare.Trial{
				Name: m.name, Metric: metric, Unit: "Gbit/s", Value: s.got,
				Detail: map[string]float64{
					"offered": c.offered, "expected": c.want, "lost": s.lost, "frames_lost": float64(s.framesLost),
				},
			})
			t.Rows = append(t.Rows, []string{
				m.name, c.name, fmt.Sprintf("%.2f", c.offered), fmt.Sprintf("%.4f", c.want), fmt.Sprintf("%.4f", s.got),
				fmt.Sprintf("%.2f %%", 100*math.Abs(s.got-c.want)/c.want), fmt.Sprintf("%.4f", s.lost),
				fmt.Sprint(s.framesLost),
			})
			name := strings.NewReplacer(",", "", " ", "_").Replace(m.name + " " + c.name)
			r.Limit("vs_expected_"+name, metric, m.name, c.want, compare.Equal)
		}
	}
	return nil
}

// load returns the configuration of the mix's switch without FIP snooping:
// its traffic is not FCoE.
func (m etsMix) load() (c *config.Config, err error) {
	if text, unread := examples.Files.ReadFile(m.file); unread == nil {
		c, err = config.Parse(m.file, text)
	} else {
		c, err = config.Parse("switch.yaml", []byte(m.file))
	}
	if err == nil {
		c.FCoE.Instances = nil
	}
	return c, err
}

// etsShare is the result for a class.
type etsShare struct {
	got, lost  float64 // Gbit/s on the wire
	framesLost uint64  // in all
}

const (
	etsVLAN   = 2094
	etsSettle = 20_000_000 // ns until queues have reached their full length
	etsTarget = frame.MAC(0x0200_0000_00ff)
	etsServer = frame.MAC(0x0200_0000_000a) // and the next
)

// etsFabric is a switch with three ports: behind the first is the target of all traffic, behind
// each of the others a server.
type etsFabric struct {
	*sim.Fabric
	sw      *sim.Switch
	config  *config.Config
	target  *sim.Host
	servers []*sim.Host
}

// run measures for length ns of virtual time. Then it waits for frames in flight, to count all lost
// frames.
func (m etsMix) run(length int64, seed uint64) (shares []etsShare, err error) {
	c, err := m.load()
	if err != nil {
		return nil, err
	}
	x, err := m.build(c, seed)
	defer func() { err = errors.Join(err, x.Close()) }()
	if err != nil {
		return nil, err
	}
	x.Run(etsSettle)
	began, got, sent := x.Now(), x.received(), x.sent()
	x.Run(length)
	gotThen, sentThen := x.received(), x.sent()
	for _, c := range m.classes {
		rate := func(before, after etsCounts) float64 {
			return (after.wire(c) - before.wire(c)) * 8 / float64(x.Now()-began)
		}
		s := etsShare{got: rate(got, gotThen)}
		s.lost = rate(sent, sentThen) - s.got
		shares = append(shares, s)
	}
	if err := x.Settle(50e6); err != nil {
		return nil, err
	}
	gotThen, sentThen = x.received(), x.sent()
	for i, c := range m.classes {
		shares[i].framesLost = sentThen.frames(c) - gotThen.frames(c)
	}
	return shares, x.check()
}

// build lets the target send a frame before the servers start, so that the switch learns its
// address.
func (m etsMix) build(c *config.Config, seed uint64) (*etsFabric, error) {
	x := &etsFabric{Fabric: sim.NewFabric(seed), config: c}
	x.Untraced = true
	var err error
	if x.sw, err = x.AddConfigured(c); err != nil {
		return x, err
	}
	x.target, err = x.host(0, etsTarget, traffic.Flow{ID: 63, Dst: etsServer, VID: etsVLAN, Size: traffic.MinSize,
		Count: 1})
	if err != nil {
		return x, err
	}
	x.Run(100_000)
	for server := range 2 {
		h, err := x.host(1+server, etsServer+frame.MAC(server), m.flows(server, c.Ports[0].MTU+config.FrameOverhead)...)
		if err != nil {
			return x, err
		}
		x.servers = append(x.servers, h)
	}
	return x, nil
}

func (x *etsFabric) host(port int, mac frame.MAC, flows ...traffic.Flow) (*sim.Host, error) {
	p := x.config.Ports[port]
	return x.AddHost(fmt.Sprintf("host %v", mac), x.sw, port,
		sim.Cable{Rate: p.Speed, Metres: p.Metres, MTU: p.MTU, Ring: x.sw.Params.Ports[port].Buffers},
		traffic.Params{MAC: mac, Speed: p.Speed, InFlight: 16 << 10, Flows: flows, Priorities: 1 << sim.LosslessCoS})
}

// flows returns a server's flows. The low digits of a flow's ID are its PCP.
func (m etsMix) flows(server, longest int) (flows []traffic.Flow) {
	for _, c := range m.classes {
		pcp, size := c.pcp[server], c.size[server]
		if size == 0 {
			size = longest
		}
		flows = append(flows, traffic.Flow{
			ID: uint32(8*server) + uint32(pcp), Dst: etsTarget, VID: etsVLAN, PCP: pcp, Size: size,
			Rate: uint64(c.offered / 2 * 1e9),
		})
	}
	return flows
}

// etsCounts are frames and bytes by flow.
type etsCounts map[uint32][2]uint64

func (n etsCounts) add(id uint32, frames, bytes uint64) { n[id] = [2]uint64{frames, bytes} }

// wire returns the bytes of a class on the wire.
func (n etsCounts) wire(c etsClass) (bytes float64) {
	for server, pcp := range c.pcp {
		flow := n[uint32(8*server)+uint32(pcp)]
		bytes += float64(flow[1] + flow[0]*frame.WireOverhead)
	}
	return bytes
}

func (n etsCounts) frames(c etsClass) (frames uint64) {
	for server, pcp := range c.pcp {
		frames += n[uint32(8*server)+uint32(pcp)][0]
	}
	return frames
}

func (x *etsFabric) received() etsCounts {
	n := etsCounts{}
	for _, r := range x.target.Stats(x.Now()).Received {
		n.add(r.ID, r.Frames, r.Bytes)
	}
	return n
}

func (x *etsFabric) sent() etsCounts {
	n := etsCounts{}
	for _, h := range x.servers {
		for _, s := range h.Stats(x.Now()).Sent {
			n.add(s.ID, s.Frames, s.Bytes)
		}
	}
	return n
}

// check finds errors that must not occur.
func (x *etsFabric) check() error {
	stats := x.target.Stats(x.Now())
	for _, r := range stats.Received {
		if r.Reordered+r.Duplicates+r.Stale > 0 {
			return fmt.Errorf("bench: flow %d: %d reordered, %d duplicates, %d stale", r.ID, r.Reordered, r.Duplicates,
				r.Stale)
		}
	}
	if stats.Corrupt > 0 {
		return fmt.Errorf("bench: %d corrupt frames", stats.Corrupt)
	}
	ports := x.sw.Ports(x.Now())
	for i := range ports {
		if n := ports[i].LosslessDrops(); n > 0 {
			return fmt.Errorf("bench: port %d dropped %d lossless frames", i, n)
		}
	}
	return x.Check()
}
