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
	// maxRing bounds the entries of a port's rings, and with them the empty buffers it keeps.
	maxRing = 8192
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
	ring := ringSize(c)
	for i := range c.Ports {
		p.Ports = append(p.Ports, portParams(c, &c.Ports[i], ring))
		p.Bridge.Ports = append(p.Bridge.Ports, bridgePort(&c.Ports[i]))
	}
	return p, fits(c, &p)
}

// ringSize is the largest power of two such that all ports together keep no more than half of the buffers for
// reception.
func ringSize(c *config.Config) int {
	size := maxRing
	for size > 64 && size*len(c.Ports) > c.Memory.Buffers/2 {
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

// fits refuses a memory that can't keep what the classes are promised, with the number of buffers that would do. Every
// worker has its part of the buffers, so the fullest one counts.
func fits(c *config.Config, p *dataplane.Params) error {
	need := make([]int, p.Workers)
	largestShare := make([]int, p.Workers)
	for _, port := range p.Ports {
		need[port.Worker] += port.Buffers + dataplane.ControlBuffers
		for _, g := range port.Cells.Groups {
			need[port.Worker] += g.Reserved + g.Headroom
			largestShare[port.Worker] = max(largestShare[port.Worker], g.Share)
		}
	}
	most := 0
	for i := range need {
		most = max(most, need[i]+largestShare[i])
	}
	if most*p.Workers <= c.Memory.Buffers {
		return nil
	}
	return c.Problem(&c.Memory.Buffers,
		fmt.Sprintf("%d buffers for %d workers can't hold what the classes reserve, their headroom, the largest share and the receive rings",
			c.Memory.Buffers, p.Workers),
		fmt.Sprintf("write buffers: %d or more, or lower headroom, reserved or share", most*p.Workers))
}
