// Package afxdp is the poll-mode driver for real devices: AF_XDP sockets of Linux 6.x, zero-copy
// where the device can, copy mode elsewhere.
//
// A port's life is Prepare (settings.go: offloads, queues, qdisc), Open, then bursts by the one
// worker that owns it, Close, Restore. All of these but the bursts and Stats run in the network
// namespace of the calling thread; a goroutine in another one than the process must be locked to
// its thread meanwhile.
//
// What is known to bite users of AF_XDP, and where it is handled:
//
//	 1 EBUSY means that the kernel dropped a frame           Port.wakeTX: TXDropped
//	 2 no carrier: the kernel drops what it is given         Watch: the control plane stops transmission; what the TX
//	                                                         ring still held counts as TXDropped
//	 3 veth drops unless a qdisc pushes back                 Prepare: pfifo; what needs the peer's help: peerNote
//	 4 32 frames a system call, 212992 bytes of send buffer  socket.widen
//	 5 a full completion ring stops transmission             the ring is twice the TX ring; Port.Flush never loops
//	 6 a completion may be published twice                   not here: only the worker knows who owns a buffer, so it
//	                                                         marks buffers and finds duplicates. Invalid descriptors,
//	                                                         the other half of the trap: Port.Transmit panics
//	 7 an empty fill ring is silent loss; six counters       Config.Fill, socket.fillSize; Port.Stats reads all six
//	 8 copy mode transmits only when kicked                  Port.Flush, while frames are outstanding
//	 9 reception can need a wake-up too                      Port.Flush, the fill ring's flag
//	10 busy polling helps or hurts                           Config.BusyPoll, Options.BusyPoll
//	11 a fence before the need-wakeup flag is read           ring.Ring.Submit, kernelRing.needsWakeup
//	12 fill ring before bind, and its size                   Open, socket.fillSize
//	13 sharing a UMEM between sockets                        socket.register: registered once per socket
//	14 virtio-net's header                                   headroom
//	15 other queues take their share of the frames           Prepare: one channel; Open: ErrQueues
//	16 offloads, tag stripping above all                     Prepare; the peer's own checksums: peerNote
//	17 NICs that swallow 0x8808 frames                       SetFlowControl turns off the device's own PAUSE; what else there is,
//	                                                         nothing here shows: to be proved per device by sending PFC
//	                                                         to it (sluice doctor)
//	18 MTU limits and silent fall-backs of native mode       device.check, Port.Mode and Port.Fallback
//	19 native attach takes the link down for seconds         Watch: a port opens without its link and gets it when
//	                                                         the event comes
//	20 kill -9 must leave nothing                            attach: unpinned bpf_link; Prepare: remembers on disk
//	21 capabilities and locked memory                        ErrPermission, ErrMemlock
//	22 the device is unregistered                            StateGone; Watch tells when it is back
//	23 packet taps see none of these frames                  not applicable: the tests look from a peer without XDP
//	24 LockOSThread has a price                              not here: the worker's
//	25 a worker that never yields                            not here: the worker's; no call below blocks
//	26 RawSyscall for kicks                                  kick in socket_unsafe.go
//	27 bounds checks, 28 pointer type parameters             package ring
//	29 descriptors one by one                                bursts are copied whole; Transmit's check has no branch
package afxdp

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/internal/transmitter"
	"sluice/pmd"
)

// Mode is how frames get from the device into the memory.
type Mode uint8

const (
	Auto     Mode = iota // zero-copy, or else copy
	Copy                 // the kernel copies every frame
	ZeroCopy             // the device reads and writes the buffers itself; Open fails if it can't
)

// defaultRingSize is the number of entries of the RX and the TX ring.
const defaultRingSize = 2048

// headroom is the space in bytes that the kernel leaves free in a buffer, in front of the 256 that
// XDP programs may use. virtio-net puts its header there in zero-copy mode. With 128, frames begin
// on a cache line and a 2 KiB buffer still holds 1664 bytes.
const headroom = 128

// What a frame is longer by than its MTU says, in bytes.
const ethernetHeader, tag = 14, 4

// minFrame is the shortest frame that a device may be given: an Ethernet header. Drivers drop
// shorter ones.
const minFrame = 14

// Config says what Open opens.
type Config struct {
	Device string
	// Queue is the receive and transmit queue. A device must have only one receive queue, or frames
	// on the others would pass the port by: so this is 0.
	Queue int
	// Memory is what all ports share: whole buffers, page aligned, mapped until the last port is
	// closed.
	Memory []byte
	// BufferSize is in bytes, a power of two: 2048 or 4096 (more needs memory of huge pages).
	BufferSize int
	// RingSize is the number of entries of the RX and TX rings, a power of two; 0: 2048. Fill and
	// completion ring are at least twice that.
	RingSize int
	Mode     Mode
	// BusyPoll makes the worker's core do the device's work instead of its interrupts (preferred
	// busy polling). It is good for one port a core and bad for two. Give Prepare the same option.
	BusyPoll bool
	// Fill is the first empty buffers, offsets into Memory: they are in the fill ring before the
	// device can look for one. At least the device's ring plus RingSize is good.
	Fill []uint64
	// Transmitter is to send instead of the socket, unless that does so without a copy; nil: the
	// socket. Memory is its memory. Where the device does not take frames from it the socket sends,
	// and Port.TX says why.
	Transmitter *transmitter.Transmitter
}

// State is what the kernel last answered to a wake-up.
type State uint32

const (
	StateRunning  State = iota // nothing is wrong
	StateNoMemory              // ENOBUFS, ENOMEM: the kernel had no memory for frames; they wait in the TX ring
	StateDown                  // ENETDOWN: the device was set down; frames wait in the TX ring
	StateGone                  // ENXIO, ENODEV: the device was unregistered: Close, and Open when it is back
	StateFailed                // any other error
)

func (s State) String() string {
	names := [...]string{"running", "no memory", "down", "gone", "failed"}
	return names[min(s, StateFailed)]
}

// Port is one queue of a device. It implements pmd.Port.
type Port struct {
	*socket
	program       *program
	transmitter   *transmitter.Port // nil: the socket sends
	noTransmitter error             // why there is none though one was asked for
	// busyPoll says that every Flush is to call the kernel.
	busyPoll    bool
	more        bool   // with busyPoll: the last call brought so many frames that the device may hold others
	index       int    // of the device
	offsetMask  uint64 // BufferSize - 1
	memoryBytes uint64

	state                           atomic.Uint32 // written by the worker
	txDropped, txWakeups, rxWakeups atomic.Uint64 // written by the worker

	mu     sync.Mutex // Stats and Close; never taken on the frame path
	closed bool
	last   pmd.Stats // what Stats returns once closed
}

var _ pmd.Port = (*Port)(nil)

// MaxMTU returns the largest MTU in bytes that buffers of bufferSize bytes can serve: a buffer
// holds one whole frame with header and tag behind the space that XDP and this driver keep free.
func MaxMTU(bufferSize int) int {
	return bufferSize - unix.XDP_PACKET_HEADROOM - headroom - ethernetHeader - tag
}

// Open opens a port on a device that is up. It changes nothing but the device's XDP program, which
// another program keeps it from doing (ErrProgram). The buffers of c.Fill belong to the kernel when
// it succeeds, and to the caller when it fails.
//
// Errors wrap the Err values of this package where a caller may want to tell them apart, and say
// what to do.
func Open(c Config) (*Port, error) {
	if c.RingSize == 0 {
		c.RingSize = defaultRingSize
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("afxdp: %s: %w", c.Device, err)
	}
	d, err := findDevice(c.Device)
	if err != nil {
		return nil, fmt.Errorf("afxdp: %s: %w", c.Device, err)
	}
	p := &Port{busyPoll: c.BusyPoll, index: d.index, offsetMask: uint64(c.BufferSize) - 1,
		memoryBytes: uint64(len(c.Memory))}
	if err := p.open(c, d); err != nil {
		return nil, fmt.Errorf("afxdp: %s: %w", c.Device, errors.Join(err, p.Close()))
	}
	return p, nil
}

// open does Open's steps, each of which Close undoes. The program comes before bind, because
// attaching may make a driver set up its rings anew; until its map has the socket, it passes every
// frame on to the kernel's stack.
func (p *Port) open(c Config, d device) (err error) {
	if err := d.check(c); err != nil {
		return err
	}
	if p.socket, err = newSocket(c, d.rxRing); err != nil {
		return err
	}
	if n := p.Fill(c.Fill); n < len(c.Fill) {
		return fmt.Errorf("%d buffers to begin with are more than the fill ring's %d entries: give fewer", len(c.Fill),
			n)
	}
	if p.program, err = attach(d, c.Queue, c.Mode == ZeroCopy); err != nil {
		return err
	}
	mode := c.Mode
	if mode == Auto && !p.program.native {
		mode = Copy // zero-copy is for native XDP only
	}
	if err := p.bind(d, c.Queue, mode); err != nil {
		return err
	}
	if err := p.widen(c); err != nil {
		return err
	}
	if c.Transmitter != nil && !p.zeroCopy {
		p.join(c.Transmitter, d)
	}
	return p.program.admit(c.Queue, p.fd)
}

// check refuses what can't work on any device.
func (c Config) check() error {
	pages := uint64(unix.Getpagesize())
	switch {
	case bits.OnesCount(uint(c.BufferSize)) != 1 || c.BufferSize < 2048:
		return fmt.Errorf("buffers of %d bytes: choose a power of two from 2048 on", c.BufferSize)
	case len(c.Memory) == 0 || len(c.Memory)%c.BufferSize != 0 || address(c.Memory)%pages != 0:
		return fmt.Errorf("a memory of %d bytes at %#x: it must be page aligned and hold whole buffers of %d bytes",
			len(c.Memory), address(c.Memory), c.BufferSize)
	case c.RingSize < 0 || bits.OnesCount(uint(c.RingSize)) != 1:
		return fmt.Errorf("rings of %d entries: choose a power of two", c.RingSize)
	case c.Queue < 0:
		return fmt.Errorf("queue %d: queues count from 0", c.Queue)
	case slices.ContainsFunc(c.Fill, func(a uint64) bool { return a >= uint64(len(c.Memory)) }):
		return fmt.Errorf("a buffer to begin with lies outside of the memory's %d bytes", len(c.Memory))
	case c.Mode > ZeroCopy:
		return fmt.Errorf("mode %d: choose Auto, Copy or ZeroCopy", c.Mode)
	}
	return nil
}

// Mode returns what was obtained: "zero-copy", "copy (native)" or "copy (generic)".
func (p *Port) Mode() string {
	switch {
	case p.zeroCopy:
		return "zero-copy"
	case p.program.native:
		return "copy (native)"
	}
	return "copy (generic)"
}

// Fallback returns why Mode is not a better one, or nil if a better one was not asked for or does
// not exist.
func (p *Port) Fallback() error { return errors.Join(p.program.fallback, p.socket.fallback) }

// State returns what the kernel answered to the last wake-up. It does not see a device that is
// asked for nothing: for that there is Watch. Any goroutine may call it.
func (p *Port) State() State { return State(p.state.Load()) }

// Fill implements pmd.Port. It panics on an address outside of the memory, which would be lost in
// the kernel.
func (p *Port) Fill(addrs []uint64) int {
	var bad uint64 // the sign bit of a difference that may not be negative
	for _, a := range addrs {
		bad |= a | (p.memoryBytes - 1 - a)
	}
	if bad>>63 != 0 {
		panic("afxdp: an address outside of the memory for the fill ring")
	}
	return p.fill.Push(addrs)
}

// Receive implements pmd.Port.
func (p *Port) Receive(burst []pmd.Desc) int { return p.rx.Pop(burst) }

// Waiting implements pmd.Port.
//
// With busy polling, frames wait in the device until Flush asks for them. If the last call brought
// as many as one may, more may wait there.
func (p *Port) Waiting() int {
	n := p.rx.Len()
	if n == 0 && p.more {
		return 1
	}
	return n
}

// Transmit implements pmd.Port. It panics on a descriptor that is not one whole frame in one
// buffer: kernels differ in what they do with such a one, and some never give its buffer back.
func (p *Port) Transmit(burst []pmd.Desc) int {
	var bad uint64 // the sign bit of differences that may not be negative
	for i := range burst {
		d := &burst[i]
		bad |= d.Addr | (p.memoryBytes - 1 - d.Addr)
		bad |= p.offsetMask + 1 - (d.Addr&p.offsetMask + uint64(d.Len))
		bad |= uint64(d.Len) - minFrame
		bad |= -uint64(d.Options)
	}
	if bad>>63 != 0 {
		panic("afxdp: a descriptor that is not one frame in one buffer for the TX ring")
	}
	if p.transmitter != nil {
		return p.transmitter.Transmit(burst)
	}
	return p.tx.Push(burst)
}

// Complete implements pmd.Port. It must be called even when nothing is sent: a full completion ring
// stops transmission.
func (p *Port) Complete(addrs []uint64) int {
	if p.transmitter != nil {
		return p.transmitter.Complete(addrs, p.completion.Ring)
	}
	return p.completion.Pop(addrs)
}

// Flush implements pmd.Port. Handing over has published everything; what is left is to wake the
// kernel where it has to be. It asks once: what the kernel leaves in the TX ring (EAGAIN) is asked
// for again at the next Flush.
func (p *Port) Flush() {
	if p.transmitter != nil {
		p.transmitter.Flush(p.tx.Ring)
	}
	transmit := p.tx.Len() > 0
	if p.busyPoll { // one call polls both directions
		before := p.rx.Len()
		if transmit {
			p.wakeTX()
		} else {
			p.wakeRX()
		}
		p.more = p.rx.Len()-before >= busyPollBudget
		return
	}
	if transmit && p.tx.needsWakeup() {
		p.wakeTX()
	}
	if p.fill.needsWakeup() && p.fill.Len() > 0 {
		p.wakeRX()
	}
}

func (p *Port) wakeTX() {
	p.txWakeups.Store(p.txWakeups.Load() + 1)
	errno := kick(unix.SYS_SENDTO, p.fd)
	if errno == unix.EBUSY && !p.zeroCopy { // in zero-copy mode it comes from the driver and means: later
		p.txDropped.Store(p.txDropped.Load() + 1)
	}
	p.answered(errno)
}

func (p *Port) wakeRX() {
	p.rxWakeups.Store(p.rxWakeups.Load() + 1)
	p.answered(kick(unix.SYS_RECVFROM, p.fd))
}

// answered keeps the state that an answer means. No state ends the asking: drivers report some of
// these for moments only, while they set up their rings.
func (p *Port) answered(errno unix.Errno) {
	if s := uint32(stateOf(errno)); s != p.state.Load() {
		p.state.Store(s)
	}
}

func stateOf(errno unix.Errno) State {
	switch errno {
	case 0, unix.EAGAIN, unix.EBUSY, unix.EINTR:
		return StateRunning
	case unix.ENOBUFS, unix.ENOMEM:
		return StateNoMemory
	case unix.ENETDOWN:
		return StateDown
	case unix.ENXIO, unix.ENODEV:
		return StateGone
	}
	return StateFailed
}

// Stats implements pmd.Port. In copy mode the kernel counts a frame that found no buffer twice, in
// RXDropped and in RXFillEmpty. After Close it returns what was counted until then.
func (p *Port) Stats() pmd.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats()
}

func (p *Port) stats() pmd.Stats {
	if p.closed || p.socket == nil {
		return p.last
	}
	s := p.socketStats()
	if p.transmitter != nil {
		p.transmitter.Count(&s)
	}
	return s
}

func (p *Port) socketStats() pmd.Stats {
	k, err := getsockopt[unix.XDPStatistics](p.fd, unix.SOL_XDP, unix.XDP_STATISTICS)
	if err != nil {
		panic(fmt.Sprintf("afxdp: statistics of a socket that is open: %v", err)) // no such error exists
	}
	return pmd.Stats{
		RXDropped:   k.Rx_dropped,
		RXInvalid:   k.Rx_invalid_descs,
		TXInvalid:   k.Tx_invalid_descs,
		RXRingFull:  k.Rx_ring_full,
		RXFillEmpty: k.Rx_fill_ring_empty_descs,
		TXRingEmpty: k.Tx_ring_empty_descs,
		TXDropped:   p.txDropped.Load(),
		TXWakeups:   p.txWakeups.Load(),
		RXWakeups:   p.rxWakeups.Load(),
	}
}

// Close detaches the program and closes the socket. The worker must have let go of the port.
// Closing again does nothing.
//
// When it returns without error, the kernel writes into none of the memory on this port's behalf.
// It may still read: drivers that send a frame out of its buffer in copy mode (virtio-net) go on
// until the frame has left. So buffers that were handed to Fill are the caller's at once, and so
// are those behind Complete, but whoever wants to use the rest again in this process must first see
// its frames complete.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	var errs []error
	if p.socket != nil {
		p.last = p.socketStats()
	}
	if p.transmitter != nil {
		errs = append(errs, p.transmitter.Close(&p.last))
	}
	p.closed = true
	if p.program != nil {
		errs = append(errs, p.program.close())
	}
	if p.socket != nil {
		errs = append(errs, p.socket.close())
	}
	return errors.Join(errs...)
}
