// Package loopgap provides switches that are never idle: their ports are in memory and always have
// frames to receive. With one of them it measures the gaps between the iterations of a worker's
// loop on a CPU, which shows how long the machine keeps a thread from its CPU.
package loopgap

import (
	"encoding/binary"
	"fmt"

	"sluice/cells"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
	"sluice/sched"
)

// Sizes of a Load's switch.
const (
	Buffers  = 4096 // enough for eight ports
	Ring     = 256  // frames that a port holds each way
	Headroom = 409  // cells of a lossless group

	lossless = 3        // the CoS
	maxFrame = 1518     // bytes with FCS
	inFlight = 96 << 10 // bytes: 64 of the longest frames, as many as a port receives in a pass
)

// Load describes a switch that is never idle. Every port always receives frames, in all eight
// classes, from its own addresses to those of its neighbour.
type Load struct {
	Ports    int    // an even number
	Lengths  []int  // of the frames, in turn; bytes without FCS
	Type     uint16 // EtherType; 0: IPv4
	Stations int    // addresses behind each port; 0: 1
	Wire     bool   // neighbours are the ends of a wire, without learning or look-ups
	Workers  int    // workers that share the ports; 0: 1
	Crossing bool   // neighbours belong to different workers, so every frame crosses

	Tune func(*dataplane.Params)              // if set, changes the switch's parameters
	Wrap func(port int, d *mem.Null) pmd.Port // if set, wraps a driver
}

// NewWorker returns the worker of a switch that is never idle, with frames of one length in bytes
// without FCS. The whole lossless path is on. The memory remains the caller's.
func NewWorker(memory *umem.Memory, ports, length int) (*dataplane.Worker, error) {
	s, _, err := Load{Ports: ports, Lengths: []int{length}}.Start(memory, 0)
	if err != nil {
		return nil, err
	}
	return s.Workers[0], nil
}

// Start returns the switch and the time at which to continue stepping it, in ns. By then all
// addresses are learned and no frame waits: until they are learned, each port receives a single
// frame per iteration of step ns, so that flooded frames find room.
func (l Load) Start(memory *umem.Memory, step int64) (*dataplane.Switch, int64, error) {
	l.Stations, l.Workers = max(1, l.Stations), max(1, l.Workers)
	p := dataplane.Params{
		Memory: memory, CellSize: 160, Workers: l.Workers,
		Bridge: bridge.Params{Mode: bridge.Learning, Capacity: max(bridge.DefaultCapacity, l.Ports*l.Stations)},
	}
	if l.Wire {
		p.Bridge = bridge.Params{Mode: bridge.Wire}
	}
	for range l.Workers {
		p.Accounts = append(p.Accounts, newAccount(memory.Buffers()/l.Workers, l.Ports/l.Workers))
	}
	for i := range l.Ports {
		port := newPort(fmt.Sprintf("null%d", i))
		if port.Worker = i * l.Workers / l.Ports; l.Crossing {
			port.Worker = i % l.Workers
		}
		p.Ports = append(p.Ports, port)
		p.Bridge.Ports = append(p.Bridge.Ports, bridge.PortParams{Peer: i ^ 1})
	}
	if l.Tune != nil {
		l.Tune(&p)
	}
	s, err := dataplane.NewSwitch(p)
	if err != nil {
		return nil, 0, fmt.Errorf("loopgap: create the switch: %w", err)
	}
	plan := &dataplane.Plan{}
	for i := range l.Ports {
		d := l.driver(memory, i)
		d.Fill(s.Parked(i)[:1])
		plan.Links = append(plan.Links, dataplane.Link{Driver: d, Up: true, TXRing: Ring})
	}
	parked := make([][]uint64, l.Ports)
	for i := range parked {
		parked[i] = s.Parked(i)[1:]
	}
	s.Publish(plan)
	now := int64(0)
	for range 16 + l.Stations {
		now += step
		for _, w := range s.Workers {
			w.Step(now)
		}
	}
	for i, link := range plan.Links {
		link.Driver.Fill(parked[i])
	}
	return s, now, nil
}

// driver returns the driver of a port.
func (l Load) driver(memory *umem.Memory, port int) pmd.Port {
	etherType := l.Type
	if etherType == 0 {
		etherType = frame.TypeIPv4
	}
	var headers [][]byte
	for pcp := range uint8(dataplane.Priorities) {
		h := make([]byte, 18)
		frame.PutHeader(h, Address(port^1, 0), Address(port, 0), 1, pcp, true, etherType)
		headers = append(headers, h)
	}
	null := mem.NewNull(memory.Bytes(), Ring, l.Lengths[0], headers...)
	switch {
	case l.Wrap != nil:
		return l.Wrap(port, null)
	case l.Stations > 1:
		return &crowd{Null: null, memory: memory.Bytes(), port: port, stations: l.Stations,
			stride: strideThrough(l.Stations)}
	case len(l.Lengths) > 1:
		return &mixedLengths{Null: null, lengths: l.Lengths}
	}
	return null
}

// Address returns an address behind a port. Addresses are scattered, because consecutive ones would
// spread over a hash table more evenly than random ones, and make look-ups seem cheaper than they
// are.
func Address(port, number int) frame.MAC {
	const bits = 24 // each step is invertible, so no two numbers have the same address
	n := uint32(number)
	n = (n ^ n>>11) * 0x9e3779 & (1<<bits - 1)
	n = (n ^ n>>13) * 0x85ebca6b & (1<<bits - 1)
	return 0x0200_0000_0000 + frame.MAC(port<<bits) + frame.MAC(n^n>>12)
}

// mixedLengths is a Null whose frames have several lengths, in turn.
type mixedLengths struct {
	*mem.Null
	lengths []int
	next    int
}

// Receive implements pmd.Port.
func (m *mixedLengths) Receive(burst []pmd.Desc) int {
	n := m.Null.Receive(burst)
	for i := range burst[:n] {
		burst[i].Len = uint32(m.lengths[m.next])
		if m.next++; m.next == len(m.lengths) {
			m.next = 0
		}
	}
	return n
}

// crowd is a Null with many addresses: successive frames come from different ones and go to
// different ones. It computes the addresses, so its own cost does not depend on their number.
type crowd struct {
	*mem.Null
	memory           []byte
	port             int
	stations, stride int
	from, to         int
}

// Receive implements pmd.Port.
func (c *crowd) Receive(burst []pmd.Desc) int {
	n := c.Null.Receive(burst)
	for _, d := range burst[:n] {
		if c.from += c.stride; c.from >= c.stations {
			c.from -= c.stations
			if c.to++; c.to == c.stations { // the pairs change from round to round
				c.to = 0
			}
		}
		to := c.from + c.to
		if to >= c.stations {
			to -= c.stations
		}
		b := c.memory[d.Addr:]
		dst, src := uint64(Address(c.port^1, to)), uint64(Address(c.port, c.from))
		binary.BigEndian.PutUint64(b, dst<<16|src>>32)
		binary.BigEndian.PutUint32(b[8:], uint32(src))
	}
	return n
}

// strideThrough returns a step that visits all of 0 to n-1 in an order from which neither a table
// nor a cache can profit: about the golden section of n, without a common divisor.
func strideThrough(n int) int {
	stride := max(1, n*618/1000)
	for a, b := n, stride; ; a, b = n, stride {
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return stride
		}
		stride++
	}
}

// newAccount returns a lossless pool with over-subscribed headroom beside a lossy pool, for a
// worker with this many buffers and ports.
func newAccount(buffers, ports int) cells.Params {
	account := cells.Params{Cells: buffers - ports*(Ring+dataplane.OwnBuffers)}
	kept := max(Headroom, ports*Headroom/2)
	lossless := (account.Cells - kept) / 2
	account.Pools = []cells.PoolParams{{Shared: lossless, Headroom: kept}, {Shared: account.Cells - kept - lossless}}
	return account
}

// groups and queues are two groups that share by weight, and one with strict priority over them.
var (
	groups = []sched.GroupParams{{TSA: sched.ETS, Weight: 50}, {TSA: sched.ETS, Weight: 50},
		{TSA: sched.StrictPriority}}
	lan, san = sched.QueueParams{Group: 0, TSA: sched.ETS, Weight: 1}, sched.QueueParams{Group: 1, TSA: sched.ETS,
		Weight: 1}
	queues = [sched.Queues]sched.QueueParams{lan, lan, lan, lossless: san, lan, lan, {Group: 2}, {Group: 2}}
)

// newPort returns a port with CoS 3 lossless, CoS 6 and 7 strict, the others lossy, and dynamic
// limits for all; with PFC in both directions and a watchdog.
func newPort(name string) dataplane.PortParams {
	const speed = 400e9
	p := dataplane.PortParams{
		Name: name, MaxFrame: maxFrame, InFlight: inFlight, Buffers: Ring,
		Sched: sched.Params{
			Rate: speed, Burst: 1 << 20, Overhead: frame.WireOverhead, MaxFrame: maxFrame, Groups: groups,
			Queues: queues,
		},
		FlowControl: dataplane.PriorityFlowControl,
		Generator:   pfc.GeneratorParams{Priorities: 1 << lossless, Quanta: 65535, Speed: speed},
		Receiver:    pfc.ReceiverParams{Priorities: 1 << lossless, Speed: speed},
		Watchdog: pfc.WatchdogParams{
			Priorities: 1 << lossless, Detection: 200e6, Restoration: 200e6, Action: pfc.Drop,
		},
	}
	for i := range dataplane.Priorities {
		p.Cells.Groups[i] = cells.GroupParams{Pool: 1, Alpha: cells.AlphaUnit / 2}
		p.Cells.Queues[i] = cells.QueueParams{Alpha: cells.AlphaUnit}
	}
	p.Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Alpha: cells.AlphaUnit, Headroom: Headroom,
		XONOffset: 128}
	p.Cells.Queues[lossless] = cells.QueueParams{}
	return p
}
