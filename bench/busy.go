package bench

import (
	"fmt"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd/mem"
	"sluice/sched"
)

const (
	busyBuffers = 4096
	busyRing    = 256 // frames that a port takes each way
)

// busyWorker returns the worker of a switch whose ports are memory only and never idle: every port receives frames of
// length bytes, without FCS, for ever, in all eight classes, from a station of its own to that of its neighbour. The
// whole lossless path is on. The memory, of busyBuffers buffers, is the caller's.
func busyWorker(memory *cells.Memory, ports, length int) (*dataplane.Worker, error) {
	p := dataplane.Params{
		Memory: memory, CellSize: 160, Workers: 1, Bridge: bridge.Params{Mode: bridge.Learning},
		Accounts: []cells.Params{busyAccount(ports)},
	}
	for i := range ports {
		p.Ports = append(p.Ports, busyPort(fmt.Sprintf("null%d", i)))
		p.Bridge.Ports = append(p.Bridge.Ports, bridge.PortParams{})
	}
	s, err := dataplane.NewSwitch(p)
	if err != nil {
		return nil, fmt.Errorf("bench: a switch that is never idle: %w", err)
	}
	plan := &dataplane.Plan{}
	for i := range ports {
		d := busyDriver(memory, i, ports, length)
		d.Fill(s.Parked(i))
		plan.Links = append(plan.Links, dataplane.Link{Driver: d, Up: true, TXRing: busyRing})
	}
	s.Publish(plan)
	return s.Workers[0], nil
}

// busyDriver returns the driver of a port.
func busyDriver(memory *cells.Memory, port, ports, length int) *mem.Null {
	station := func(i int) frame.MAC { return 0x0200_0000_0000 + frame.MAC(i%ports) }
	var headers [][]byte
	for pcp := range uint8(dataplane.Priorities) {
		h := make([]byte, 18)
		frame.PutHeader(h, station(port^1), station(port), 1, pcp, true, frame.TypeIPv4)
		headers = append(headers, h)
	}
	return mem.NewNull(memory.Bytes(), busyRing, length, headers...)
}

// busyAccount has a lossless pool, with headroom over-subscribed, beside a lossy one.
func busyAccount(ports int) cells.Params {
	const headroom = 409
	account := cells.Params{Cells: busyBuffers - ports*(busyRing+dataplane.ControlBuffers)}
	kept := max(headroom, ports*headroom/2)
	lossless := (account.Cells - kept) / 2
	account.Pools = []cells.PoolParams{{Shared: lossless, Headroom: kept}, {Shared: account.Cells - kept - lossless}}
	return account
}

// busyGroups and busyQueues are two groups that share by weight, and one that goes before them.
var (
	busyGroups       = []sched.GroupParams{{TSA: sched.ETS, Weight: 50}, {TSA: sched.ETS, Weight: 50}, {TSA: sched.StrictPriority}}
	busyLAN, busySAN = sched.QueueParams{Group: 0, TSA: sched.ETS, Weight: 1}, sched.QueueParams{Group: 1, TSA: sched.ETS, Weight: 1}
	busyQueues       = [sched.Queues]sched.QueueParams{busyLAN, busyLAN, busyLAN, LosslessCoS: busySAN, busyLAN, busyLAN, {Group: 2}, {Group: 2}}
)

// busyPort has CoS 3 lossless beside lossy classes, all with dynamic limits, and CoS 6 and 7 strict; PFC both ways, and
// a watchdog.
func busyPort(name string) dataplane.PortParams {
	const speed = 400e9
	p := dataplane.PortParams{
		Name: name, MaxFrame: 1518, InFlight: 64 << 10, Buffers: busyRing,
		Sched: sched.Params{
			Rate: speed, Burst: 1 << 20, Overhead: mem.Overhead, MaxFrame: 1518, Groups: busyGroups, Queues: busyQueues,
		},
		FlowControl: dataplane.PriorityFlowControl,
		Generator:   pfc.GeneratorParams{Priorities: 1 << LosslessCoS, Quanta: 65535, Speed: speed},
		Receiver:    pfc.ReceiverParams{Priorities: 1 << LosslessCoS, Speed: speed},
		Watchdog: pfc.WatchdogParams{
			Priorities: 1 << LosslessCoS, Detection: 200e6, Restoration: 200e6, Action: pfc.Drop,
		},
	}
	for i := range dataplane.Priorities {
		p.Cells.Groups[i] = cells.GroupParams{Pool: 1, Alpha: cells.AlphaUnit / 2}
		p.Cells.Queues[i] = cells.QueueParams{Alpha: cells.AlphaUnit}
	}
	p.Cells.Groups[LosslessCoS] = cells.GroupParams{Lossless: true, Alpha: cells.AlphaUnit, Headroom: 409, XONOffset: 128}
	p.Cells.Queues[LosslessCoS] = cells.QueueParams{}
	return p
}
