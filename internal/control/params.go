package control

import (
	"fmt"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/pfc"
	"sluice/sched"
)

const (
	// wireOverhead is what a frame takes on the wire beyond its length without FCS: FCS 4, preamble 8, gap 12 bytes.
	wireOverhead = 24
	// burstTime is how long a port may be left unserved and still keep its rate, ns: the burst of its shaper.
	burstTime = 100_000
	// They bound the entries of a port's rings, and with them the empty buffers it keeps.
	minRing, maxRing = 64, 4096
)

// Params translates a configuration into what the switch is made of. Device addresses are filled in when the devices
// are opened.
func Params(c *config.Config, memory *cells.Memory) (dataplane.Params, error) {
	p := dataplane.Params{Memory: memory, CellSize: c.Memory.Cell, Workers: max(1, len(c.Workers))}
	p.Bridge = bridge.Params{
		Mode: bridge.Learning, Ageing: int64(c.Forwarding.Ageing), Capacity: c.Forwarding.Table,
	}
	if c.Forwarding.Mode == config.WirePairs {
		p.Bridge.Mode = bridge.Wire
	}
	ring := ringSize(c.Memory.Buffers, len(c.Ports))
	for i := range c.Ports {
		p.Ports = append(p.Ports, portParams(c, &c.Ports[i], ring))
		p.Bridge.Ports = append(p.Bridge.Ports, bridgePort(&c.Ports[i]))
	}
	return p, fit(c, &p)
}

// ringSize is the largest power of two such that all ports together keep no more than half of the buffers for
// reception.
func ringSize(buffers, ports int) int {
	size := maxRing
	for size > minRing && size*ports > buffers/2 {
		size /= 2
	}
	return size
}

func portParams(c *config.Config, port *config.Port, ring int) dataplane.PortParams {
	longest := port.MTU + config.FrameOverhead
	p := dataplane.PortParams{
		Name: port.Device, Worker: port.Worker, MaxFrame: longest,
		DefaultPriority: port.DefaultCoS, InFlight: port.InFlight, Buffers: ring,
		Sched: sched.Params{
			Rate: port.Speed, Burst: longest + wireOverhead + int(port.Speed/8*burstTime/1e9),
			Overhead: wireOverhead, MaxFrame: longest,
		},
		PFC: c.PFC.Enabled,
	}
	var lossless uint8
	for cos := range dataplane.Priorities {
		class := c.Class(cos)
		p.Cells.Groups[cos] = group(class, c.Memory.Cell)
		p.Cells.Queues[cos] = cells.QueueParams{Limit: inCells(class.QueueLimit, c.Memory.Cell)}
		p.Sched.Queues[cos] = queue(class)
		if class.Lossless {
			lossless |= 1 << cos
		}
	}
	p.Generator = pfc.GeneratorParams{Priorities: lossless, Quanta: c.PFC.Quanta, Refresh: c.PFC.Refresh, Speed: port.Speed}
	p.Receiver = pfc.ReceiverParams{Priorities: lossless, Speed: port.Speed}
	return p
}

func group(class *config.Class, cell int) cells.GroupParams {
	return cells.GroupParams{
		Lossless: class.Lossless,
		Reserved: inCells(class.Reserved, cell), Share: inCells(class.Share, cell),
		Headroom: inCells(class.Headroom, cell), XON: inCells(class.XON, cell),
	}
}

// queue divides the weight of a class among its queues. 840 is what 1 to 8 queues divide without a rest.
func queue(class *config.Class) sched.QueueParams {
	return sched.QueueParams{Strict: class.Strict, Weight: class.Weight * 840 / len(class.CoS)}
}

func inCells(bytes, cell int) int { return (bytes + cell - 1) / cell }

func bridgePort(port *config.Port) bridge.PortParams {
	p := bridge.PortParams{PVID: port.PVID, Peer: port.Peer, VLANs: new(bridge.VLANSet)}
	for _, r := range port.VLANs {
		p.VLANs.AddRange(r.First, r.Last)
	}
	return p
}

// fit cuts every share to what is there to be shared, and refuses a memory that can't keep what is promised. Each
// worker has an equal part of the buffers, so each has to fit.
func fit(c *config.Config, p *dataplane.Params) error {
	for w := range p.Workers {
		free := c.Memory.Buffers/p.Workers - committed(p, w, p.Ports[0].Buffers)
		if free < 0 {
			return c.Problem(&c.Memory.Buffers,
				fmt.Sprintf("%d buffers can't hold what the receive rings, reserved and headroom of all ports take", c.Memory.Buffers),
				fmt.Sprintf("raise buffers to %d or more, or lower headroom or reserved", enough(c, p)))
		}
		for i := range p.Ports {
			if p.Ports[i].Worker == w {
				cutShares(&p.Ports[i].Cells, free)
			}
		}
	}
	return nil
}

// committed returns the buffers of a worker that are spoken for, with rings of so many entries.
func committed(p *dataplane.Params, worker, ring int) int {
	n := 0
	for i := range p.Ports {
		if p.Ports[i].Worker != worker {
			continue
		}
		n += ring + dataplane.ControlBuffers
		for _, g := range p.Ports[i].Cells.Groups {
			n += g.Reserved + g.Headroom
		}
	}
	return n
}

// enough returns a number of buffers that would do. Rings grow with it, by half as much at the most.
func enough(c *config.Config, p *dataplane.Params) int {
	buffers := c.Memory.Buffers
	for {
		most := 0
		for w := range p.Workers {
			most = max(most, committed(p, w, ringSize(buffers, len(p.Ports))))
		}
		if most*p.Workers <= buffers {
			return buffers
		}
		buffers = most * p.Workers
	}
}

func cutShares(p *cells.PortParams, most int) {
	for i := range p.Groups {
		g := &p.Groups[i]
		g.Share = min(g.Share, most)
		g.XON = min(g.XON, g.Reserved+g.Share)
	}
}
