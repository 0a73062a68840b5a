package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/pmd/mem"
	"sluice/sched"
)

// MeasureGap runs a worker on one CPU for some time, or until ctx is done, and returns the gaps between its iterations.
// The worker forwards between two ports in memory that are never idle, so its iterations are as long as those of a loaded
// switch of two ports; what its worst gap shows is how long this machine keeps a thread from its CPU.
func MeasureGap(ctx context.Context, cpu int, length time.Duration) (gap dataplane.GapHistogram, err error) {
	memory, err := cells.Map(4096, 2048)
	if err != nil {
		return gap, fmt.Errorf("bench: memory to measure the loop with: %w", err)
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	w, err := busyWorker(memory)
	if err != nil {
		return gap, fmt.Errorf("bench: a worker to measure: %w", err)
	}
	over := time.AfterFunc(length, w.Stop)
	defer over.Stop()
	defer context.AfterFunc(ctx, w.Stop)()
	if err := w.Run(cpu); err != nil {
		return gap, err
	}
	return w.Look(int64(length)).Gap, nil
}

// busyWorker is a wire between two ports that receive for ever.
func busyWorker(memory *cells.Memory) (*dataplane.Worker, error) {
	const ring, length = 256, 1514
	p := dataplane.Params{
		Memory: memory, CellSize: 160, Workers: 1,
		Bridge: bridge.Params{Mode: bridge.Wire, Ports: []bridge.PortParams{{Peer: 1}, {Peer: 0}}},
	}
	for i := range p.Bridge.Ports {
		port := dataplane.PortParams{
			Name: fmt.Sprintf("port%d", i), MaxFrame: length + 4, InFlight: 64e3, Buffers: ring,
			Sched: sched.Params{Rate: 400e9, Burst: 1 << 20, Overhead: mem.Overhead, MaxFrame: length + 4},
		}
		for cos := range dataplane.Priorities {
			port.Cells.Groups[cos] = cells.GroupParams{Share: 256}
			port.Cells.Queues[cos] = cells.QueueParams{Limit: 256}
			port.Sched.Queues[cos] = sched.QueueParams{Weight: 1}
		}
		p.Ports = append(p.Ports, port)
	}
	s, err := dataplane.NewSwitch(p)
	if err != nil {
		return nil, err
	}
	plan := &dataplane.Plan{}
	for i := range p.Ports {
		header := make([]byte, 18)
		frame.PutHeader(header, 0x0200_0000_0001, 0x0200_0000_0002, 1, uint8(i), true, frame.TypeIPv4)
		driver := mem.NewNull(memory.Bytes(), ring, length, header)
		driver.Fill(s.Parked(i))
		plan.Links = append(plan.Links, dataplane.Link{Driver: driver, Up: true, TXRing: ring})
	}
	s.Publish(plan)
	return s.Workers[0], nil
}
