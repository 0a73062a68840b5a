// Package params translates a configuration into the parameters of a dataplane. These are those of
// ports, scheduler, bridge, flow control, and of the accounts and pools into which the memory is
// divided.
package params

import (
	"math"
	"time"

	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/punt"
	"sluice/internal/linux/umem"
	"sluice/pfc"
)

const (
	// These bound the entries of a port's rings, and so the empty buffers that it keeps.
	minRing, maxRing = 64, 4096
)

// LLDPLimit bounds the LLDPDUs that a port takes: enough for a thousand neighbours that send every
// 30 s.
var LLDPLimit = punt.Limit{Rate: 100, Burst: 50}

// Of returns the parameters of a switch that starts with a configuration. memory may be nil if no
// switch is built. The addresses of devices are not filled in. The error, if any, is a
// config.Error: the memory does not hold what is promised, or a worker has no port.
func Of(c *config.Config, memory *umem.Memory) (dataplane.Params, error) {
	return WithRings(c, memory, RingSize(c))
}

// WithRings is Of with a given number of entries for the rings of each port, which a running switch
// can't change.
func WithRings(c *config.Config, memory *umem.Memory, ring int) (dataplane.Params, error) {
	p := dataplane.Params{Memory: memory, CellSize: c.Memory.Cell, Part: c.Memory.Part(),
		Workers: max(1, len(c.Workers))}
	p.Bridge = bridgeParams(c)
	if c.Forwarding.FloodQueues {
		queues := floodQueues(c)
		p.Floods = &queues
	}
	for i := range c.Ports {
		p.Ports = append(p.Ports, portParams(c, &c.Ports[i], ring))
	}
	p.Budget = budgetOf(c)
	return p, cut(c, &p)
}

// floodQueues returns the queues of flooded frames. Frames that are lossless where they come in
// stay in the queue of their CoS, which has no limit, and no others join them there.
func floodQueues(c *config.Config) bridge.QueueMap {
	queues, lossless := bridge.FloodQueues(), uint8(0)
	for i := range c.Ports {
		lossless |= c.Ports[i].PFC
	}
	for cos, queue := range queues {
		if (1<<cos|1<<queue)&lossless != 0 {
			queues[cos] = uint8(cos)
		}
	}
	return queues
}

// RingSize returns the number of entries of each port's receive ring when a switch starts with a
// configuration.
func RingSize(c *config.Config) int { return ringSize(c.Memory.Buffers, len(c.Ports)) }

// budgetOf returns how many frames an iteration may handle such that every port with flow control
// keeps to its response time.
func budgetOf(c *config.Config) int {
	response := int64(math.MaxInt64)
	for i := range c.Ports {
		if p := &c.Ports[i]; p.FlowControl != config.FlowOff {
			response = min(response, int64(p.Response))
		}
	}
	return budget.Of(response)
}

// LeastResponse returns the shortest response that the worker of a port can keep to without
// interruptions, in whole microseconds.
func LeastResponse(c *config.Config, p *config.Port) time.Duration {
	ports := 0
	for i := range c.Ports {
		if c.Ports[i].Worker == p.Worker {
			ports++
		}
	}
	return (time.Duration(budget.LeastResponse(ports)) + time.Microsecond - 1).Truncate(time.Microsecond)
}

// ringSize returns the largest power of two, within minRing and maxRing, such that all ports
// together keep at most half of the buffers for reception.
func ringSize(buffers, ports int) int {
	size := maxRing
	for size > minRing && size*ports > buffers/2 {
		size /= 2
	}
	return size
}

func portParams(c *config.Config, port *config.Port, ring int) dataplane.PortParams {
	p := dataplane.PortParams{
		Name: port.Device, Worker: port.Worker, MaxFrame: port.MaxFrame(), MaxLossless: port.MaxLossless(),
		Parts: port.Parts, InFlight: port.InFlight, Buffers: ring, Response: int64(port.Response),
		Sched:       schedule(port),
		FlowControl: flowControls[port.FlowControl],
		FIPTrusted:  port.FCoE.Role == config.FCoEFCF || port.FCoE.Role == config.FCoETrusted,
	}
	for cos := range dataplane.Priorities {
		class := c.Class(cos)
		p.Cells.Groups[cos] = group(c, class, port, port.Lossless(cos))
		p.Cells.Queues[cos] = cells.QueueParams{
			Limit: min(inCells(class.QueueLimit, c.Memory.Cell), c.Memory.Buffers), Alpha: class.QueueAlpha,
			RED: red(&class.WRED, c.Memory.Cell),
		}
		if class.ECN {
			p.ECN |= 1 << cos
		}
	}
	honoured := port.PFC
	if c.PFC.Asymmetric || port.FlowControl == config.FlowPause {
		honoured = 0xff
	}
	p.Generator = pfc.GeneratorParams{Priorities: port.PFC, Quanta: c.PFC.Quanta, Refresh: port.Refresh,
		Speed: port.LinkSpeed}
	p.Receiver = pfc.ReceiverParams{Priorities: honoured, Speed: port.LinkSpeed}
	if honoured != 0 || port.FlowControl == config.FlowAuto { // storms count on while no priority is agreed
		p.Watchdog = watchdog(&c.Watchdog, honoured)
	}
	if c.LLDP.Enabled && port.LLDP != config.LLDPOff {
		p.Punt = []punt.Subscription{punt.SubscribeLLDP(LLDPLimit)}
	}
	return p
}

var (
	flowControls = map[config.FlowControl]dataplane.FlowControl{
		config.FlowPFC: dataplane.PriorityFlowControl, config.FlowAuto: dataplane.PriorityFlowControl,
		config.FlowPause: dataplane.LinkPause, config.FlowOff: dataplane.NoFlowControl,
	}
	watchdogActions = map[config.WatchdogAction]pfc.Action{
		config.WatchdogAlert: pfc.Alert, config.WatchdogDrop: pfc.Drop, config.WatchdogForward: pfc.Forward,
	}
)

func watchdog(w *config.Watchdog, priorities uint8) pfc.WatchdogParams {
	if w.Action == config.WatchdogOff {
		return pfc.WatchdogParams{}
	}
	return pfc.WatchdogParams{
		Priorities: priorities, Detection: int64(w.Detection), Restoration: int64(w.Restoration),
		Action: watchdogActions[w.Action],
	}
}

func group(c *config.Config, class *config.Class, port *config.Port, lossless bool) cells.GroupParams {
	cell := c.Memory.Cell
	g := cells.GroupParams{
		Lossless: lossless,
		Reserved: inCells(class.Reserved, cell), Share: inCells(class.Share, cell), Alpha: class.Alpha,
	}
	if lossless {
		g.XON, g.XONOffset = inCells(class.XON, cell), inCells(class.XONOffset, cell)
		g.Headroom = inCells(port.HeadroomOf(class), cell)
	}
	return g
}

func red(w *config.WRED, cell int) cells.REDParams {
	return cells.REDParams{Min: w.Min / cell, Max: inCells(w.Max, cell), Probability: float64(w.Probability) / 100,
		Smoothing: w.Smoothing}
}

func inCells(bytes, cell int) int { return (bytes + cell - 1) / cell }
