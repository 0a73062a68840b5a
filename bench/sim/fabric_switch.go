package sim

import (
	"cmp"
	"fmt"

	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/sched"
)

// LosslessCoS is the one lossless class of service of AddLosslessSwitch, by convention that of
// FCoE.
const LosslessCoS = 3

// LosslessSwitch describes a switch with identical ports: one lossless class beside seven lossy
// ones, with headroom computed for the cable and for the ends of a Fabric.
type LosslessSwitch struct {
	Ports    int
	Workers  int    // the ports are assigned to them in turn; 0: 1
	Cable    Cable  // that each port may be joined to
	Cell     int    // bytes; 0: CellSize
	Quanta   uint16 // requested by XOFF; 0: 65535
	Refresh  uint16 // quanta until XOFF is repeated; 0: half of Quanta
	XOFF     int    // cells that a group may use before headroom; 0: 256
	Queue    int    // cells that an egress queue of a lossy class may hold; 0: as XOFF
	Spare    int    // additional cells of headroom; below 0: too few
	Copies   int    // of a flooded frame, for which there is headroom; 0: 1, as for other frames
	InFlight int    // bytes that a port may hand to its driver; 0: enough to keep the cable busy
	// above 0: the peers are hosts that honour PFC after this many ns; 0: switches, or hosts within
	// 60 quanta
	PeerDelay int64
	Storm     bridge.StormParams // of each port
}

const (
	CellSize      = 160 // bytes per accounting cell, as in the Nexus 5000
	fabricBuffers = 512 // most receive buffers that a port of a switch keeps with its driver
)

// perPoll returns the bytes that pass between two iterations that are PollMax apart.
func (c Cable) perPoll() int { return int(c.Rate * PollMax / 8e9) }

// InFlight returns the bytes that a host or a switch may hand to its driver: enough to keep the
// cable busy.
func (c Cable) InFlight() int { return max(16<<10, 4*c.perPoll()) }

// AddLosslessSwitch adds such a switch. The fabric owns its memory: Close frees it.
func (f *Fabric) AddLosslessSwitch(name string, l LosslessSwitch) (*Switch, error) {
	l.InFlight = cmp.Or(l.InFlight, l.Cable.InFlight())
	room, err := l.headroom(f.PollMax)
	if err != nil {
		return nil, fmt.Errorf("bench: add switch %s: %w", name, err)
	}
	p := dataplane.Params{CellSize: l.cell(), Part: l.Cable.part(), Workers: cmp.Or(l.Workers, 1)}
	share := cmp.Or(l.XOFF, 256)
	for i := range l.Ports {
		p.Ports = append(p.Ports, l.port(fmt.Sprintf("%s.%d", name, i), i%p.Workers, share, room+l.Spare))
		p.Bridge.Ports = append(p.Bridge.Ports, bridge.PortParams{Storm: l.Storm})
	}
	perPort := l.buffers() + dataplane.OwnBuffers + cells.Priorities*share + room + l.Spare
	if p.Memory, err = umem.Map(l.Ports*perPort*p.Workers, l.Cable.buffer()); err != nil {
		return nil, fmt.Errorf("bench: add switch %s: %w", name, err)
	}
	f.memories = append(f.memories, p.Memory)
	return f.AddSwitch(name, p)
}

// AddConfigured adds a switch built from a configuration, as control does. The fabric owns its
// memory.
func (f *Fabric) AddConfigured(c *config.Config) (*Switch, error) {
	memory, err := umem.Map(c.Memory.Buffers, c.Memory.BufferSize)
	if err != nil {
		return nil, err
	}
	f.memories = append(f.memories, memory)
	p, err := params.Of(c, memory)
	if err != nil {
		return nil, err
	}
	return f.AddSwitch("sw", p)
}

func (l LosslessSwitch) cell() int { return cmp.Or(l.Cell, CellSize) }

// buffers returns how many receive buffers each port keeps with its driver.
func (l LosslessSwitch) buffers() int { return min(fabricBuffers, l.Cable.ring()) }

// headroom returns the cells that a lossless group needs between two software ends of the fabric
// that poll at least every pollMax ns.
func (l LosslessSwitch) headroom(pollMax int64) (int, error) {
	c := l.Cable
	p := headroom.Params{
		Speed: c.Rate, MTUOwn: c.maxFrame(), MTUPeer: c.maxFrame(), Metres: c.Metres, Medium: headroom.Fibre,
		Cell: l.cell(), Unstored: frame.FCS, Transceivers: c.Transceivers,
		OwnGap: pollMax, PeerGap: pollMax, OwnInFlight: l.InFlight, PeerInFlight: max(l.InFlight, c.InFlight()),
	}
	if l.PeerDelay > 0 { // hosts pace themselves like adapters and queue at most one frame in front of the line
		p.ResponseBits, p.PeerInFlight = int(l.PeerDelay*int64(c.Rate/1e6)/1e3), 0
	}
	r, err := headroom.Compute(headroom.Measured, p)
	return r.Cells * max(1, l.Copies), err
}

// port returns the parameters of one port: every class has its share of the pool, an egress queue
// of the same length and the same weight. As in a configured switch, the shaper lets the TX ring
// fill up with shortest frames.
func (l LosslessSwitch) port(name string, worker, share, room int) dataplane.PortParams {
	maxFrame := l.Cable.maxFrame() - frame.FCS
	p := losslessPort(name, maxFrame, l.InFlight, l.Cable.Rate)
	p.Worker, p.Buffers, p.Sched.Burst = worker, l.buffers(), maxFrame+2*l.InFlight
	p.Generator.Quanta, p.Generator.Refresh = cmp.Or(l.Quanta, 65535), l.Refresh
	for i := range cells.Priorities {
		p.Cells.Groups[i] = cells.GroupParams{Share: share}
		p.Cells.Queues[i] = cells.QueueParams{Limit: cmp.Or(l.Queue, share)}
		p.Sched.Queues[i] = sched.QueueParams{TSA: sched.ETS, Weight: 1}
	}
	if part := l.Cable.part(); part > 0 {
		p.Parts = DivideUp(maxFrame, part)
	}
	p.Cells.Groups[LosslessCoS] = cells.GroupParams{Lossless: true, Share: share, Headroom: room, XON: share / 2}
	p.Cells.Queues[LosslessCoS] = cells.QueueParams{}
	return p
}

// losslessPort returns the parameters of a port whose peer pauses LosslessCoS and is paused in it.
func losslessPort(name string, maxFrame, inFlight int, rate uint64) dataplane.PortParams {
	return dataplane.PortParams{
		Name: name, MaxFrame: maxFrame, InFlight: inFlight, Buffers: fabricBuffers,
		FlowControl: dataplane.PriorityFlowControl,
		Sched:       sched.Params{Rate: rate, Burst: 2 * maxFrame, Overhead: frame.WireOverhead, MaxFrame: maxFrame},
		Generator:   pfc.GeneratorParams{Priorities: 1 << LosslessCoS, Quanta: 65535, Speed: rate},
		Receiver:    pfc.ReceiverParams{Priorities: 1 << LosslessCoS, Speed: rate},
	}
}
