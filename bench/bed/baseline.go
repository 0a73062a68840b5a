package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/asavie/xdp"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/internal/umem"
	"sluice/pmd"
	"sluice/sched"
)

const (
	baselineRing  = 2048 // entries of each of a socket's rings
	baselineFrame = 2048 // bytes of UMEM a frame
)

// BaselinePort is a pmd.Port over github.com/asavie/xdp v0.3.3, the library that Go programs have
// used for AF_XDP. It is measured beside pmd/afxdp, and is no driver for the switch, because the
// library
//
//   - gives each socket a UMEM of its own, so that each frame is copied once more on either side of the switch;
//   - knows no need-wakeup: every burst costs a system call whether the kernel wants it or not, and one that the Go
//     runtime takes for blocking, so that it wakes other threads to take the worker's place;
//   - has commented out the barriers between a ring's entries and its index, and reads indices without atomics;
//   - finds free frames by linear search, and calls a frame free on reception that may be queued for sending;
//   - takes EBUSY for success, though it means that the kernel has dropped a frame: such loss can't be counted;
//   - panics on any error of sendto that it does not expect, such as a device that has gone;
//   - removes whatever XDP program it finds on the device.
//
// What can be avoided is: the search, by never asking for free frames. Half of the UMEM receives,
// and goes back to the fill ring as soon as it is copied out; the other half sends, in turn, which
// is sound because copy mode completes in order. Zero-copy devices need not.
type BaselinePort struct {
	socket  *xdp.Socket
	program *xdp.Program
	index   int // of the device
	memory  []byte
	size    uint64 // bytes of the switch's buffers

	empty  []uint64             // the switch's buffers to receive into
	sent   [baselineRing]uint64 // the switch's buffers whose frames are being sent, by the frame that sends
	next   int                  // of sent, counting on for ever: where the next frame goes…
	oldest int                  // … and the first that has not completed
	descs  []xdp.Desc           // of the burst in hand
}

// OpenBaseline opens queue 0 of a device of the calling thread's network namespace. Frames come
// from and go to buffers of size bytes, a power of two, in memory.
func OpenBaseline(device string, memory []byte, size int) (*BaselinePort, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("bench: baseline port %s: %w", device, err)
	}
	p := &BaselinePort{
		index: i.Index, memory: memory, size: uint64(size),
		empty: make([]uint64, 0, baselineRing),
		descs: make([]xdp.Desc, 0, baselineRing),
	}
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("bench: baseline port %s: %w", device, errors.Join(err, p.Close()))
	}
	return p, nil
}

func (p *BaselinePort) open() (err error) {
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

// Close detaches from the device. What the port holds is the caller's again.
func (p *BaselinePort) Close() error {
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
func (p *BaselinePort) Fill(addrs []uint64) int {
	n := min(len(addrs), cap(p.empty)-len(p.empty))
	p.empty = append(p.empty, addrs[:n]...)
	return n
}

// Waiting implements pmd.Port.
func (p *BaselinePort) Waiting() int { return p.socket.NumReceived() }

// Receive implements pmd.Port.
func (p *BaselinePort) Receive(burst []pmd.Desc) int {
	descs := p.socket.Receive(min(len(burst), len(p.empty)))
	for i := range descs {
		last := len(p.empty) - 1
		addr := p.empty[last] &^ (p.size - 1)
		p.empty = p.empty[:last]
		n := copy(p.memory[addr:addr+p.size], p.socket.GetFrame(descs[i]))
		burst[i] = pmd.Desc{Addr: addr, Len: uint32(n)}
		descs[i].Addr &^= baselineFrame - 1
	}
	p.socket.Fill(descs) // there is room: as many left the ring
	return len(descs)
}

// Transmit implements pmd.Port.
func (p *BaselinePort) Transmit(burst []pmd.Desc) int {
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
func (p *BaselinePort) Complete(addrs []uint64) int {
	n := min(len(addrs), p.socket.NumCompleted())
	for i := range n {
		addrs[i] = p.sent[p.oldest%baselineRing]
		p.oldest++
	}
	p.socket.Complete(n)
	return n
}

// Flush implements pmd.Port. Transmit wakes the kernel itself, but one system call sends 32 frames
// at the most: the rest needs further ones.
func (p *BaselinePort) Flush() {
	if p.socket.NumFreeTxSlots() < baselineRing {
		p.socket.Transmit(nil)
	}
}

// Stats implements pmd.Port.
func (p *BaselinePort) Stats() pmd.Stats {
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
		p, err := OpenBaseline(d, memory.Bytes(), size)
		if err != nil {
			return err
		}
		defer p.Close()
		p.Fill(s.Parked(i))
		plan.Links = append(plan.Links, dataplane.Link{Driver: p, Up: true, TXRing: baselineRing})
	}
	s.Publish(plan)
	// As for sluice's own workers: the runtime needs places beside that of a worker, which never
	// yields its own.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 3)))
	defer context.AfterFunc(ctx, s.Workers[0].Stop)()
	return s.Workers[0].Run(cpu, nil)
}

// wireParams joins two ports by a wire, as wireConfig does: all classes lossy, with limits as they
// are by default.
func wireParams(memory *umem.Memory, devices [2]string) dataplane.Params {
	const maxFrame = 1518
	p := dataplane.Params{Memory: memory, CellSize: memory.BufferSize(), Workers: 1,
		Bridge: bridge.Params{Mode: bridge.Wire}}
	for i, d := range devices {
		port := dataplane.PortParams{
			Name: d, MaxFrame: maxFrame, InFlight: 256 << 10, Buffers: baselineRing,
			Sched: sched.Params{Overhead: frame.WireOverhead, MaxFrame: maxFrame},
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
