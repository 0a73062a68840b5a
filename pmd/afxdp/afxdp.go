// Package afxdp is the poll-mode driver for real devices: AF_XDP sockets on Linux 6.x, in zero-copy
// mode where the device supports it and in copy mode elsewhere.
//
// A port goes through Prepare (settings.go: offloads, queues, qdisc), Open, bursts by the one
// worker that owns it, Close and Restore. Keep puts back what others change meanwhile. All of these
// except the bursts and Stats run in the network namespace of the calling thread. A goroutine that
// works in another namespace than the process must be locked to its thread for that time.
//
// Known AF_XDP problems, and where this package handles them:
//
//	 1 EBUSY: the kernel dropped a frame           Port.wakeTX: TXDropped
//	 2 no carrier: the kernel drops frames         Watch: the control plane stops transmission;
//	                                               frames still in the TX ring count as TXDropped
//	 3 veth drops without a qdisc that pushes back Prepare: pfifo; what the peer must do: peerNote
//	 4 32 frames per call, 212992 B of send buffer socket.widen
//	 5 a full completion ring stops transmission   it is twice the TX ring; Port.Flush never loops
//	 6 a completion may be published twice         the worker, who owns buffers, finds duplicates;
//	                                               Port.Transmit panics on invalid descriptors
//	 7 silent loss if the fill ring is empty       Config.Fill, socket.fillSize;
//	                                               Port.Stats reads all six counters
//	 8 copy mode transmits only when kicked;       Port.Flush, while frames are outstanding;
//	   zero-copy drivers ask for needless kicks    Port.newToKernel
//	 9 reception may need a wake-up too            Port.Flush, the fill ring's flag
//	10 busy polling helps, hurts or does nothing   Config.BusyPoll, Options.BusyPoll, ErrBusyPoll
//	11 fence before reading the need-wakeup flag   ring.Ring.Submit, kernelRing.needsWakeup
//	12 fill ring before bind, and its size         Open, socket.fillSize
//	13 sharing a UMEM between sockets              socket.register: registered once per socket
//	14 virtio-net's header                         headroom
//	15 other queues take frames                    Prepare: one channel; Open: ErrQueues;
//	                                               device.recount: queues that native XDP adds
//	16 offloads, above all tag stripping           Prepare; the peer's own checksums: peerNote
//	17 NICs that swallow 0x8808 frames             SetFlowControl turns off the device's PAUSE;
//	                                               other causes: test each device by sending PFC
//	                                               to it (sluice doctor); Traits.DropsPauses:
//	                                               those that drop them on the way out
//	18 MTU limits, silent fallback from native     device.check, device.checkNative, Port.Mode and
//	                                               Port.Fallback; Redirects: native XDP that loses
//	                                               frames
//	19 native attach downs the link for seconds    Watch: a port opens without a link and starts
//	                                               when the link event comes
//	20 kill -9 must leave nothing behind           attach: unpinned bpf_link; Prepare: state on disk
//	21 capabilities and locked memory              ErrPermission, ErrMemlock
//	22 the device is unregistered                  StateGone; Watch reports its return
//	23 packet taps do not see these frames         the tests capture at a peer without XDP
//	24 the cost of LockOSThread                    not here: the worker's
//	25 a worker that never yields                  not here: the worker's; no call below blocks
//	26 RawSyscall for kicks                        kick in socket_unsafe.go
//	27 bounds checks, 28 pointer type parameters   package ring
//	29 descriptors one by one                      bursts are copied whole; Transmit checks without
//	                                               a branch
//	30 frames of several parts: a burst cuts one,  Port.receiveWhole; Port.transmitParts, which
//	   a part is invalid, a ring is too short      also checks each part; device.check
package afxdp

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/internal/linux/netdev"
	"sluice/pmd"
	"sluice/pmd/transmitter"
)

// Mode is how frames get from the device into the memory.
type Mode uint8

const (
	Auto     Mode = iota // zero-copy if possible, else copy
	Copy                 // the kernel copies each frame
	ZeroCopy             // the device reads and writes the buffers itself; Open fails if it can't
)

// defaultRingSize is the number of entries of the RX and the TX ring.
const defaultRingSize = 2048

// headroom is the space in bytes that the kernel leaves free at the start of a buffer, before the
// 256 bytes for XDP programs. In zero-copy mode, virtio-net puts its header there. With 128, frames
// start on a cache line, and a 2 KiB buffer still holds 1664 bytes.
const headroom = 128

// A frame may be longer than the MTU by these, in bytes.
const ethernetHeader, tag = 14, 4

// minFrame is the length of the shortest frame that devices accept: an Ethernet header. Drivers
// drop shorter frames.
const minFrame = 14

// Config holds the parameters of Open.
type Config struct {
	Device string
	// Queue is the receive and transmit queue. It must be 0: a device may have only one receive
	// queue, because frames on other queues would bypass the port.
	Queue int
	// Memory is shared by all ports: whole buffers, page aligned, mapped until the last port is
	// closed.
	Memory []byte
	// BufferSize is in bytes, a power of two: 2048 or 4096 (larger sizes need huge pages).
	BufferSize int
	// RingSize is the number of entries of the RX and TX rings, a power of two; 0: 2048. Each part
	// of a frame takes one. The fill and completion rings have at least twice as many.
	RingSize int
	Mode     Mode
	// BusyPoll has the worker's core process the device's packets in place of interrupts (preferred
	// busy polling). It helps with one port per core and hurts with two. Prepare needs the same
	// option. ErrBusyPoll: the kernel would not do it for this socket.
	BusyPoll bool
	// Fill holds the first empty buffers, as offsets into Memory. They are in the fill ring before
	// the device first looks for one. Give at least as many as the device's receive ring and
	// RingSize together.
	Fill []uint64
	// Scatter has the port take frames of several parts in copy mode even if the device's present
	// MTU needs none, so that it may be raised later (Longest). Before Linux 6.6, in zero-copy mode
	// and with a Transmitter, which sends no such frames, it has no effect.
	Scatter bool
	// Transmitter, if not nil, sends instead of a socket in copy mode. Memory must then be its
	// memory. If the device takes no frames from it, the socket sends, and Port.TX returns the
	// reason.
	Transmitter *transmitter.Transmitter
}

// State is the kernel's answer to the last wake-up.
type State uint32

const (
	StateRunning  State = iota // no error
	StateNoMemory              // ENOBUFS, ENOMEM: the kernel was out of memory; frames wait in the TX ring
	StateDown                  // ENETDOWN: the device is set down; frames wait in the TX ring
	StateGone                  // ENXIO, ENODEV: the device was unregistered; Close, and Open when it is back
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
	noTransmitter error             // why transmitter is nil although Config named one
	// busyPoll: every Flush calls the kernel.
	busyPoll    bool
	more        bool   // with busyPoll: the last call received a whole budget, so the device may hold more
	device      device // as Open found it
	wokenFor    uint32 // frames ever in the TX ring (ring.Ring.Produced) when the kernel was last woken to send
	relied      int    // calls of Flush since then that left it to the driver
	offsetMask  uint64 // BufferSize - 1
	memoryBytes uint64
	parts       int // most of a frame

	state                           atomic.Uint32 // written by the worker
	txDropped, txWakeups, rxWakeups atomic.Uint64 // written by the worker

	mu     sync.Mutex // for Stats and Close; never locked on the frame path
	closed bool
	last   pmd.Stats // returned by Stats after Close
}

var _ pmd.Port = (*Port)(nil)

// Open opens a port on a device that is up. It changes nothing but the device's XDP program, and
// fails if the device already has one (ErrProgram). The buffers of c.Fill belong to the kernel if
// it succeeds, and to the caller if it fails.
//
// If frames of the device's present MTU do not fit one buffer each, the port receives and sends
// frames of several parts. That needs Linux 6.6. See also Config.Scatter.
//
// Errors that callers may want to distinguish wrap an Err value of this package. All errors suggest
// a fix.
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
	p := &Port{busyPoll: c.BusyPoll, device: d, offsetMask: uint64(c.BufferSize) - 1,
		memoryBytes: uint64(len(c.Memory)), parts: 1}
	if err := p.open(c, d); err != nil {
		return nil, fmt.Errorf("afxdp: %s: %w", c.Device, errors.Join(err, p.Close()))
	}
	return p, nil
}

// open runs the steps of Open; Close undoes each of them. It attaches the program before it binds
// the socket, because attaching may make a driver set up its rings anew. Until the program's map
// holds the socket, the program passes all frames to the kernel's stack.
func (p *Port) open(c Config, d device) (err error) {
	if err := d.check(c); err != nil {
		return err
	}
	rx := c.RingSize
	if c.Mode == ZeroCopy { // as far as possible before the program is attached, which sets up many devices anew
		if err := d.checkZeroCopy(c.BufferSize); err != nil {
			return err
		}
		if rx, err = ReceiveRing(d.driver, c.RingSize, len(c.Fill), d.rxRing); err != nil {
			return fmt.Errorf("%w: raise memory.buffers, shorten the device's ring with `ethtool -G %s rx …`, or "+
				"choose copy mode", err, c.Device)
		}
	}
	if p.socket, err = newSocket(c, rx, d.rxRing); err != nil {
		return err
	}
	if n := p.Fill(c.Fill); n < len(c.Fill) {
		return fmt.Errorf("%d initial buffers are more than the %d entries of the fill ring: pass fewer", len(c.Fill),
			n)
	}
	if p.program, err = attach(d, c.Queue, c.Mode); err != nil {
		return err
	}
	mode := c.Mode
	if mode == Auto && !p.program.native {
		mode = Copy // zero-copy is for native XDP only
	}
	if err := p.bind(d, c, mode); err != nil {
		return err
	}
	if p.scatter {
		p.parts = p.mostParts(d, c.BufferSize)
	}
	if err := p.widen(c); err != nil {
		return err
	}
	if c.Transmitter != nil && !p.zeroCopy {
		p.join(c.Transmitter, d)
	}
	return p.program.admit(c.Queue, p.fd)
}

// check rejects parameters that are invalid for every device.
func (c Config) check() error {
	pages := uint64(unix.Getpagesize())
	switch {
	case bits.OnesCount(uint(c.BufferSize)) != 1 || c.BufferSize < 2048:
		return fmt.Errorf("buffers of %d bytes: choose a power of two of at least 2048", c.BufferSize)
	case len(c.Memory) == 0 || len(c.Memory)%c.BufferSize != 0 || address(c.Memory)%pages != 0:
		return fmt.Errorf("memory of %d bytes at %#x: it must be page-aligned and hold whole buffers of %d bytes",
			len(c.Memory), address(c.Memory), c.BufferSize)
	case c.RingSize < 0 || bits.OnesCount(uint(c.RingSize)) != 1:
		return fmt.Errorf("rings of %d entries: choose a power of two", c.RingSize)
	case c.Queue < 0:
		return fmt.Errorf("queue %d: choose 0 or more", c.Queue)
	case slices.ContainsFunc(c.Fill, func(a uint64) bool { return a >= uint64(len(c.Memory)) }):
		return fmt.Errorf("an initial buffer lies outside the memory of %d bytes", len(c.Memory))
	case c.Mode > ZeroCopy:
		return fmt.Errorf("mode %d: choose Auto, Copy or ZeroCopy", c.Mode)
	}
	return nil
}

// mostParts returns the most parts of a frame that the bound socket sends. In copy mode, drivers
// with IFF_TX_SKB_NO_LINEAR send one less than others (xsk_build_skb_zerocopy).
func (p *Port) mostParts(d device, size int) int {
	if !p.zeroCopy {
		return pmd.MaxParts - 1
	}
	segments, _ := netdev.Segments(d.index) // bindZeroCopy has read it
	return ZeroCopySegments(d.driver, size, segments)
}

// Parts returns the most parts of a frame that the port sends: 1 if each frame must fit one buffer.
// Then no frame that it receives has several. Open decides that.
func (p *Port) Parts() int { return p.parts }

// Longest returns the length in bytes of the longest frame that the open port receives and sends,
// if its device does.
func (p *Port) Longest() int {
	size := int(p.offsetMask) + 1
	longest := room(size)
	switch {
	case p.zeroCopy:
		longest = mostZeroCopyMTU(p.device.driver, size, p.parts) + ethernetHeader + tag
	case p.scatter:
		longest = MaxMTU(size) + ethernetHeader + tag
	}
	if p.transmitter != nil {
		longest = min(longest, room(size), transmitter.LongestFrame)
	}
	return longest
}

// CheckMTU returns why the open port would not receive all frames of the device whole if the MTU
// were mtu bytes. ErrMTU: it was opened for frames that fit one buffer, and the kernel drops longer
// ones (RXDropped); opened again, the port receives them if the buffers hold them (MaxMTU). ErrRoom
// and ErrParts: it may not continue, because frames may arrive in more parts than it takes, or
// parts of them look like frames.
func (p *Port) CheckMTU(mtu int) error {
	size := int(p.offsetMask) + 1
	switch {
	case p.scatter && (mtu > MaxMTU(size) || p.zeroCopy && Parts(mtu, size) > p.parts):
		return fmt.Errorf("%w: %d with an MTU of %d", ErrParts, Parts(mtu, size), mtu)
	case p.scatter:
		return nil
	case p.zeroCopy:
		_, err := WholeFrames(p.device.driver, mtu, size, 1)
		return err
	case mtu > BufferMTU(size):
		return fmt.Errorf("%w: the port was opened for frames that fit a buffer of %d bytes, so an MTU of at most %d, "+
			"and longer frames are lost", ErrMTU, size, BufferMTU(size))
	}
	return nil
}

// CheckDevice returns an error if the device was changed in a way in which the open port loses or
// damages frames: ErrDetached if it has no XDP program, ErrQueues if it has more receive queues,
// ErrReplay if its receive ring is longer and the driver may now run short of buffers. It returns
// nil if the device is gone or can't be asked.
func (p *Port) CheckDevice() error {
	was := p.device
	now, err := findDevice(was.name)
	switch {
	case err != nil || now.index != was.index:
		return nil
	case p.program != nil && now.xdpMode == "":
		return ErrDetached
	case now.queues > was.queues:
		return fmt.Errorf("%w: the device has %d now, and the port reads %d", ErrQueues, now.queues, was.queues)
	case p.zeroCopy && drivers[was.driver].Replays && now.rxRing > was.rxRing:
		return fmt.Errorf("%w: the receive ring of the device has grown from %d to %d entries", ErrReplay, was.rxRing,
			now.rxRing)
	}
	return nil
}

// Generic is the mode in which the kernel makes a socket buffer of each frame.
const Generic = "copy (generic)"

// Mode returns the mode in use: "zero-copy", "copy (native)" or Generic.
func (p *Port) Mode() string {
	switch {
	case p.zeroCopy:
		return "zero-copy"
	case p.program.native:
		return "copy (native)"
	}
	return Generic
}

// Fallback returns why Mode is not a better one, or nil if no better one was requested or exists.
func (p *Port) Fallback() error { return errors.Join(p.program.fallback, p.socket.fallback) }

// State returns the kernel's answer to the last wake-up. It does not notice changes to a device
// that is never woken; Watch does. Any goroutine may call it.
func (p *Port) State() State { return State(p.state.Load()) }

// Fill implements pmd.Port. It panics on an address outside the memory: the kernel would lose the
// buffer.
func (p *Port) Fill(addrs []uint64) int {
	var bad uint64 // its sign bit is set if any difference is negative
	for _, a := range addrs {
		bad |= a | (p.memoryBytes - 1 - a)
	}
	if bad>>63 != 0 {
		panic("afxdp: fill ring: an address outside the memory")
	}
	return p.fill.Push(addrs)
}

// Receive implements pmd.Port.
func (p *Port) Receive(burst []pmd.Desc) int {
	if p.scatter {
		return p.receiveWhole(burst)
	}
	return p.rx.Pop(burst)
}

// receiveWhole is Receive where frames may have several parts. The kernel publishes all parts of a
// frame together, so only the end of burst can cut one.
func (p *Port) receiveWhole(burst []pmd.Desc) int {
	a, b := p.rx.Peek(len(burst))
	n := copy(burst, a)
	n += copy(burst[n:], b)
	for n > 0 && burst[n-1].Options&pmd.Continued != 0 {
		n--
	}
	p.rx.Release(n)
	return n
}

// Waiting implements pmd.Port.
//
// With busy polling, frames wait in the device until Flush asks for them. If the last call brought
// a full budget of frames, the device may hold more.
func (p *Port) Waiting() int {
	n := p.rx.Len()
	if n == 0 && p.more {
		return 1
	}
	return n
}

// Transmit implements pmd.Port. It panics on descriptors that are not whole frames of at most Parts
// parts, each in one buffer: kernels handle such descriptors differently, and some never return the
// buffer.
func (p *Port) Transmit(burst []pmd.Desc) int {
	var bad uint64 // its sign bit is set if any difference is negative
	for i := range burst {
		d := &burst[i]
		bad |= d.Addr | (p.memoryBytes - 1 - d.Addr)
		bad |= p.offsetMask + 1 - (d.Addr&p.offsetMask + uint64(d.Len))
		bad |= uint64(d.Len) - minFrame
		bad |= -uint64(d.Options)
	}
	if bad>>63 != 0 {
		return p.transmitParts(burst)
	}
	if p.transmitter != nil {
		return p.transmitter.Transmit(burst)
	}
	return p.tx.Push(burst)
}

// transmitParts is Transmit for a burst with something else than frames in one buffer each.
func (p *Port) transmitParts(burst []pmd.Desc) int {
	room, whole := p.tx.Free(), 0 // descriptors: whole are those of the frames that fit
	parts, length := 0, uint64(0) // of the frame so far
	for i, d := range burst {
		parts, length = parts+1, length+uint64(d.Len)
		if d.Addr >= p.memoryBytes || d.Len == 0 || d.Addr&p.offsetMask+uint64(d.Len) > p.offsetMask+1 ||
			parts > p.parts || d.Options&^pmd.Continued != 0 {
			panic("afxdp: TX ring: a descriptor that is no part of a frame in one buffer")
		}
		if d.Options != 0 {
			continue
		}
		if length < minFrame {
			panic("afxdp: TX ring: a frame without a header")
		}
		if i < room {
			whole = i + 1
		}
		parts, length = 0, 0
	}
	if parts > 0 {
		panic("afxdp: TX ring: a frame without its end")
	}
	return p.tx.Push(burst[:whole])
}

// Complete implements pmd.Port. It must be called even if nothing is sent: a full completion ring
// stops transmission.
func (p *Port) Complete(addrs []uint64) int {
	if p.transmitter != nil {
		return p.transmitter.Complete(addrs, p.completion.Ring)
	}
	return p.completion.Pop(addrs)
}

// Flush implements pmd.Port. Handing over has already published everything, so Flush only wakes the
// kernel if needed. It calls once: the next Flush asks again for frames that the kernel leaves in
// the TX ring (EAGAIN).
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
	if transmit && p.tx.needsWakeup() && p.newToKernel() {
		p.wakeTX()
	}
	if p.fill.needsWakeup() && p.fill.Len() > 0 {
		p.wakeRX()
	}
}

// forgetful is how many times Flush relies on a driver in zero-copy mode to send what it was woken
// for. A driver that sets up its rings forgets; a Flush comes every few microseconds.
const forgetful = 64

// newToKernel reports whether to wake the kernel for frames in the TX ring. In zero-copy mode, many
// drivers ask for a wake-up all the time (those of Intel), but start sending only with the
// interrupt that it causes, which the device moderates, and send the rest as frames complete. So
// one wake-up is enough for the same frames.
func (p *Port) newToKernel() bool {
	produced := p.tx.Produced()
	if p.zeroCopy && produced == p.wokenFor && p.relied < forgetful {
		p.relied++
		return false
	}
	p.wokenFor, p.relied = produced, 0
	return true
}

func (p *Port) wakeTX() {
	p.txWakeups.Store(p.txWakeups.Load() + 1)
	errno := kick(unix.SYS_SENDTO, p.fd)
	if errno == unix.EBUSY && !p.zeroCopy { // in zero-copy mode the driver returns it, and it means: later
		p.txDropped.Store(p.txDropped.Load() + 1)
	}
	p.answered(errno)
	if errno != 0 { // a driver that sets up its rings has not been woken
		p.relied = forgetful
	}
}

func (p *Port) wakeRX() {
	p.rxWakeups.Store(p.rxWakeups.Load() + 1)
	p.answered(kick(unix.SYS_RECVFROM, p.fd))
}

// answered stores the state that an errno means. Flush keeps waking the kernel in every state:
// drivers report some of them only briefly, while they set up their rings.
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

// Stats implements pmd.Port. In copy mode, the kernel counts a frame without a buffer twice, in
// RXDropped and in RXFillEmpty. After Close, Stats returns the final counts.
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
		panic(fmt.Sprintf("afxdp: read the statistics of an open socket: %v", err)) // no such error exists
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

// Close detaches the program and closes the socket. The worker must no longer use the port. After
// success, further calls do nothing.
//
// After ErrHeld, the kernel may still read and write all buffers of the port: keep the memory
// mapped, use none of them, and call Close again, which then only checks whether the kernel has
// released them. Otherwise the kernel no longer writes to the memory for this port, but it may
// still read: drivers that send frames from their buffers in copy mode (virtio-net) do so until the
// frames have left. Buffers handed to Fill, and those behind Complete, belong to the caller at
// once. The others must not be used again in this process until their frames complete.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		if p.socket == nil {
			return nil
		}
		return p.socket.checkReleased(1)
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
