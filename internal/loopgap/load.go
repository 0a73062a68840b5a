// Package loopgap has switches that are never idle: their ports are in memory and always have
// frames to receive. With one of them it measures the gaps between the iterations of a worker's
// loop on a CPU, which is how long the machine keeps a thread away.
package loopgap

import (
	"encoding/binary"
	"fmt"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
	"sluice/sched"
)

// What a switch of a Load has.
const (
	Buffers  = 4096 // enough for eight ports
	Ring     = 256  // frames that a port takes each way
	Headroom = 409  // cells of a lossless group

	lossless = 3        // the CoS
	maxFrame = 1518     // bytes with FCS
	inFlight = 96 << 10 // bytes: as many as a port receives in an iteration, 64 of the longest frames
)

// Load is what a switch that is never idle does: every port receives frames for ever, in all eight
// classes, from stations of its own to those of its neighbour.
type Load struct {
	Ports    int   // an even number
	Lengths  []int // of the frames, in turn, bytes without FCS
	Stations int   // behind each port; 0: 1
	Wire     bool  // neighbours are the ends of a wire: nothing is learned or looked up
	Workers  int   // that share the ports; 0: 1
	Crossing bool  // neighbours belong to different workers, so that every frame crosses

	Tune func(*dataplane.Params)              // if set, changes the switch
	Wrap func(port int, d *mem.Null) pmd.Port // if set, puts something before a driver
}

// NewWorker returns the worker of a switch that is never idle, with frames of one length, bytes
// without FCS. The whole lossless path is on. The memory is the caller's.
func NewWorker(memory *umem.Memory, ports, length int) (*dataplane.Worker, error) {
	s, _, err := Load{Ports: ports, Lengths: []int{length}}.Start(memory, 0)
	if err != nil {
		return nil, err
	}
	return s.Workers[0], nil
}

// Start returns the switch, and the time at which it is to go on, ns. All stations are known by
// then, and nothing waits: until they are, each port receives a single frame an iteration, of step
// ns each, so that what is flooded finds room.
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
		return nil, 0, fmt.Errorf("loopgap: a switch that is never idle: %w", err)
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
	var headers [][]byte
	for pcp := range uint8(dataplane.Priorities) {
		h := make([]byte, 18)
		frame.PutHeader(h, address(port^1, 0), address(port, 0), 1, pcp, true, frame.TypeIPv4)
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

// address returns the address of a station behind a port. Addresses are scattered: a series spreads
// over a hash table more evenly than chance would have it, so that look-ups would seem cheaper than
// they are.
func address(port, number int) frame.MAC {
	const bits = 24 // each step has an inverse, so that no two numbers have one address
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

// crowd is a Null with many stations: every frame comes from another one, and goes to another. It
// writes the addresses by arithmetic, so that its own cost does not depend on their number.
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
		dst, src := uint64(address(c.port^1, to)), uint64(address(c.port, c.from))
		binary.BigEndian.PutUint64(b, dst<<16|src>>32)
		binary.BigEndian.PutUint32(b[8:], uint32(src))
	}
	return n
}

// strideThrough returns a step that leads through all of n, in no order that a table or a cache
// could profit from: about the golden section of n, without a common divisor.
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

// newAccount has a lossless pool, with headroom over-subscribed, beside a lossy one, for a worker
// with so many buffers and ports.
func newAccount(buffers, ports int) cells.Params {
	account := cells.Params{Cells: buffers - ports*(Ring+dataplane.ControlBuffers)}
	kept := max(Headroom, ports*Headroom/2)
	lossless := (account.Cells - kept) / 2
	account.Pools = []cells.PoolParams{{Shared: lossless, Headroom: kept}, {Shared: account.Cells - kept - lossless}}
	return account
}

// groups and busyQueues are two groups that share by weight, and one that goes before them.
var (
	groups = []sched.GroupParams{{TSA: sched.ETS, Weight: 50}, {TSA: sched.ETS, Weight: 50},
		{TSA: sched.StrictPriority}}
	lan, san = sched.QueueParams{Group: 0, TSA: sched.ETS, Weight: 1}, sched.QueueParams{Group: 1, TSA: sched.ETS,
		Weight: 1}
	queues = [sched.Queues]sched.QueueParams{lan, lan, lan, lossless: san, lan, lan, {Group: 2}, {Group: 2}}
)

// newPort has CoS 3 lossless beside lossy classes, all with dynamic limits, and CoS 6 and 7 strict;
// PFC both ways, and a watchdog.
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
