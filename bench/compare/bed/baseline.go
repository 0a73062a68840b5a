package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/asavie/xdp"

	"sluice/cells"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/sched"
)

const (
	baselineRing  = 2048 // entries of each of a socket's rings
	baselineFrame = 2048 // bytes of UMEM per frame

	baselineMaxFrame = 1518 // bytes without FCS
)

// baselinePort is a pmd.Port over github.com/asavie/xdp v0.3.3, the library that Go programs have
// used for AF_XDP. It is the baseline for pmd/afxdp, and no driver for the switch, because the
// library
//
//   - gives each socket its own UMEM, so each frame is copied once more on either side of the
//     switch;
//   - does not support need-wakeup: every burst costs a system call whether the kernel needs it or
//     not, and the Go runtime takes that call for blocking and wakes other threads;
//   - has commented out the barriers between a ring's entries and its index, and reads indices
//     without atomics;
//   - finds free frames by linear search, and marks a received frame as free although it may be
//     queued for sending;
//   - treats EBUSY as success, though the kernel has dropped a frame then: such loss can't be
//     counted;
//   - panics on any unexpected error of sendto, such as that of a device that is gone;
//   - removes any XDP program that it finds on the device.
//
// baselinePort avoids the search by never asking for free frames. Half of the UMEM receives, and
// returns to the fill ring once it is copied; the other half sends, in turn. That is sound because
// copy mode completes in order. Zero-copy devices need not.
type baselinePort struct {
	socket  *xdp.Socket
	program *xdp.Program
	index   int // of the device
	memory  []byte
	size    uint64 // bytes of the switch's buffers

	empty  []uint64             // the switch's receive buffers
	sent   [baselineRing]uint64 // the switch's buffers being sent, by the frame that sends
	next   int                  // in sent, a free-running count: where the next frame goes…
	oldest int                  // … and the first that has not completed
	descs  []xdp.Desc           // of the current burst
}

// openBaseline opens queue 0 of a device in the calling thread's network namespace. Frames use
// buffers of size bytes, a power of two, in memory.
func openBaseline(device string, memory []byte, size int) (*baselinePort, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("bench: open baseline port %s: %w", device, err)
	}
	p := &baselinePort{
		index: i.Index, memory: memory, size: uint64(size),
		empty: make([]uint64, 0, baselineRing),
		descs: make([]xdp.Desc, 0, baselineRing),
	}
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("bench: open baseline port %s: %w", device, errors.Join(err, p.Close()))
	}
	return p, nil
}

func (p *baselinePort) open() (err error) {
	if p.program, err = xdp.NewProgram(1); err != nil {
		return err
	}
	p.socket, err = xdp.NewSocket(p.index, 0, &xdp.SocketOptions{
		NumFrames: 2 * baselineRing, FrameSize: baselineFrame,
		FillRingNumDescs: baselineRing, CompletionRingNumDescs: baselineRing,
		RxRingNumDescs: baselineRing, TxRingNumDescs: baselineRing,
	})
	if err != nil {
		return err
	}
	for i := range uint64(baselineRing) {
		p.descs = append(p.descs, xdp.Desc{Addr: i * baselineFrame})
	}
	p.socket.Fill(p.descs)
	if err := p.program.Register(0, p.socket.FD()); err != nil {
		return err
	}
	return p.program.Attach(p.index)
}

// Close detaches from the device. The caller owns the port's buffers again.
func (p *baselinePort) Close() error {
	var errs []error
	if p.program != nil {
		errs = append(errs, p.program.Detach(p.index), p.program.Close())
	}
	if p.socket != nil {
		errs = append(errs, p.socket.Close())
	}
	return errors.Join(errs...)
}

// Fill implements pmd.Port.
func (p *baselinePort) Fill(addrs []uint64) int {
	n := min(len(addrs), cap(p.empty)-len(p.empty))
	p.empty = append(p.empty, addrs[:n]...)
	return n
}

// Waiting implements pmd.Port.
func (p *baselinePort) Waiting() int { return p.socket.NumReceived() }

// Receive implements pmd.Port.
func (p *baselinePort) Receive(burst []pmd.Desc) int {
	descs := p.socket.Receive(min(len(burst), len(p.empty)))
	for i := range descs {
		last := len(p.empty) - 1
		addr := p.empty[last] &^ (p.size - 1)
		p.empty = p.empty[:last]
		n := copy(p.memory[addr:addr+p.size], p.socket.GetFrame(descs[i]))
		burst[i] = pmd.Desc{Addr: addr, Len: uint32(n)}
		descs[i].Addr &^= baselineFrame - 1
	}
	p.socket.Fill(descs) // there is room: as many have left the ring
	return len(descs)
}

// Transmit implements pmd.Port.
func (p *baselinePort) Transmit(burst []pmd.Desc) int {
	n := min(len(burst), baselineRing-(p.next-p.oldest), p.socket.NumFreeTxSlots())
	p.descs = p.descs[:0]
	for _, b := range burst[:n] {
		slot := p.next % baselineRing
		d := xdp.Desc{Addr: uint64(baselineRing+slot) * baselineFrame, Len: b.Len}
		copy(p.socket.GetFrame(d), p.memory[b.Addr:b.Addr+uint64(b.Len)])
		p.descs = append(p.descs, d)
		p.sent[slot] = b.Addr
		p.next++
	}
	if n > 0 {
		p.socket.Transmit(p.descs)
	}
	return n
}

// Complete implements pmd.Port.
func (p *baselinePort) Complete(addrs []uint64) int {
	n := min(len(addrs), p.socket.NumCompleted())
	for i := range n {
		addrs[i] = p.sent[p.oldest%baselineRing]
		p.oldest++
	}
	p.socket.Complete(n)
	return n
}

// Flush implements pmd.Port. Transmit wakes the kernel itself, but one system call sends at most 32
// frames: the rest needs more calls.
func (p *baselinePort) Flush() {
	if p.socket.NumFreeTxSlots() < baselineRing {
		p.socket.Transmit(nil)
	}
}

// Stats implements pmd.Port.
func (p *baselinePort) Stats() pmd.Stats {
	s, err := p.socket.Stats()
	if err != nil {
		return pmd.Stats{}
	}
	k := s.KernelStats
	return pmd.Stats{
		RXDropped: k.Rx_dropped, RXInvalid: k.Rx_invalid_descs, TXInvalid: k.Tx_invalid_descs,
		RXRingFull: k.Rx_ring_full, RXFillEmpty: k.Rx_fill_ring_empty_descs, TXRingEmpty: k.Tx_ring_empty_descs,
	}
}

// RunBaseline forwards between two devices with the switch's own worker over two baseline ports, on
// one CPU, until ctx ends. It runs in the process's network namespace.
func RunBaseline(ctx context.Context, devices [2]string, cpu int) (err error) {
	const buffers, size = 16384, 2048
	memory, err := umem.Map(buffers, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	s, err := dataplane.NewSwitch(wireParams(memory, devices))
	if err != nil {
		return err
	}
	plan := &dataplane.Plan{}
	for i, d := range devices {
		p, err := openBaseline(d, memory.Bytes(), size)
		if err != nil {
			return err
		}
		defer p.Close()
		p.Fill(s.Parked(i))
		plan.Links = append(plan.Links, dataplane.Link{Driver: p, Up: true, TXRing: baselineRing})
	}
	s.Publish(plan)
	// As for the workers of sluice: a worker never yields its P, so the runtime needs more of them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 3)))
	defer context.AfterFunc(ctx, s.Workers[0].Stop)()
	return s.Workers[0].Run(cpu, nil)
}

// wireParams joins two ports by a wire, as WireConfig does: all classes lossy, with default limits.
func wireParams(memory *umem.Memory, devices [2]string) dataplane.Params {
	p := dataplane.Params{Memory: memory, CellSize: memory.BufferSize(), Workers: 1,
		Bridge: bridge.Params{Mode: bridge.Wire}}
	for i, d := range devices {
		port := dataplane.PortParams{
			Name: d, MaxFrame: baselineMaxFrame, InFlight: 256 << 10, Buffers: baselineRing,
			Sched: sched.Params{Overhead: frame.WireOverhead, MaxFrame: baselineMaxFrame},
		}
		for c := range dataplane.Priorities {
			port.Cells.Groups[c] = cells.GroupParams{Share: 2048}
			port.Cells.Queues[c] = cells.QueueParams{Limit: 512}
			port.Sched.Queues[c] = sched.QueueParams{TSA: sched.ETS, Weight: 1}
		}
		p.Ports = append(p.Ports, port)
		p.Bridge.Ports = append(p.Bridge.Ports, bridge.PortParams{Peer: 1 - i})
	}
	return p
}
