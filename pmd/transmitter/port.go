package transmitter

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"sluice/internal/linux/netdev"
	"sluice/pmd"
	"sluice/pmd/xdprun"
	"sluice/ring"
)

// Port is a port's slot of a transmitter. Three indices run over one ring of descriptors: the
// worker's, up to which frames are handed over; the program's, up to which frames have been copied;
// and done, up to which the worker has taken buffers back. Room for new frames ends one ring length
// past done. Each pair of indices forms a ring.
//
//	   buffers are free          to be copied             room
//	├──── completion ─────┤├─────────────────────┤
//	├─────────────────── tx ─────────────────────┤
//	done              the program's         the worker's
//
// When the socket is the sender, the worker takes the program's role and moves descriptors to the
// socket's ring. So the sender can change at any time, in both directions, without reordering.
//
// Transmit, Complete and Flush belong to the worker that owns the port. Any goroutine may call
// Declined, Capacity and SetLink. Reconsider, Decline and Accept are called by one goroutine at a
// time, as are Count and Close.
type Port struct {
	transmitter *Transmitter
	device      Device
	number      int
	slot        []uint64
	memory      []byte // the same memory
	tx          *ring.Ring[pmd.Desc]
	completion  *ring.Ring[pmd.Desc]
	meter       *xdprun.Meter
	vanished    uint64 // redirected frames that no device took; belongs to Count

	declined   atomic.Pointer[error] // why the socket sends; nil: it does not
	turn       atomic.Uint32         // whose turn it is
	left       *ring.Ring[pmd.Desc]  // the worker's: frames for the socket to send; nil: none yet in its turn
	withSocket int                   // the worker's: frames that the socket has taken and not completed
}

// Whose turn it is to send.
const (
	turnProgram   = iota
	turnSocket    // set by the control plane after the program has let go of the slot
	turnReturning // the program's after the socket has sent all its frames; set by the control plane
	turnReturned  // set by the worker briefly, before turnProgram
)

// Device is a network device of the calling thread's network namespace.
type Device struct {
	Name   string
	Index  int
	MTU    int // bytes
	Buffer int // bytes of a frame that a buffer holds
}

// CheckMTU returns why the transmitter can't send the frames of a device with this MTU, in buffers
// that hold this many bytes of a frame: it sends no frames of several parts.
func CheckMTU(mtu, buffer int) error {
	most, longest := min(LongestFrame, buffer), mtu+ethernetHeader+tag
	switch {
	case longest <= most:
		return nil
	case most < LongestFrame:
		return fmt.Errorf("with its MTU of %d, frames have up to %d bytes, and the transmitter sends only those that "+
			"fit one buffer, which holds %d: lower the MTU to %d, use larger buffers, or set tx: xsk", mtu, longest,
			most, most-ethernetHeader-tag)
	}
	return fmt.Errorf("with its MTU of %d, frames have up to %d bytes, more than the transmitter's maximum of %d: "+
		"lower the MTU to %d, or set tx: xsk", mtu, longest, most, most-ethernetHeader-tag)
}

// A frame may be longer than the MTU by these, in bytes.
const ethernetHeader, tag = 14, 4

// ErrRedirect means that a device does not accept frames that programs redirect to it.
var ErrRedirect = errors.New("the device accepts no frames from XDP programs: on veth, the peer must have GRO on " +
	"(`ethtool -K <peer> gro on` in its namespace) or run an XDP program")

// Join gives a device a slot. If the device does not accept the program's frames yet, the socket
// sends at first: see Declined. Join fails if the program can never send to the device.
func (t *Transmitter) Join(d Device) (*Port, error) {
	p, err := t.join(d)
	if err != nil {
		return nil, err
	}
	if why := p.check(); why != nil {
		p.declined.Store(&why)
		p.store(slotAway, 1)
		p.turn.Store(turnSocket)
	}
	return p, nil
}

func (t *Transmitter) join(d Device) (p *Port, err error) {
	if err := CheckMTU(d.MTU, d.Buffer); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := slices.Index(t.taken, false)
	if n < 0 {
		return nil, fmt.Errorf("the transmitter has %d ports already", t.slots)
	}
	first, end := t.slot(n), t.slot(n+1)
	p = &Port{transmitter: t, device: d, number: n, slot: t.rings.Words[first:end],
		memory: t.rings.Memory[first*xdprun.WordSize : end*xdprun.WordSize]}
	clear(p.slot)
	p.store(slotNumber, uint64(n))
	if p.tx, err = p.ring(slotProducer, slotDone); err != nil {
		return nil, err
	}
	if p.completion, err = p.ring(slotConsumer, slotDone); err != nil {
		return nil, err
	}
	if p.meter, err = xdprun.NewMeter(d.Name); err != nil {
		return nil, err
	}
	if err := t.devices.Put(uint32(n), uint32(d.Index)); err != nil {
		p.meter.Close()
		return nil, fmt.Errorf("add device %d to the transmitter: %w", d.Index, err)
	}
	t.taken[n] = true
	t.arrange()
	return p, nil
}

// load and store access a word of the slot that others access at the same time.
func (p *Port) load(word int) uint64     { return atomic.LoadUint64(&p.slot[word]) }
func (p *Port) store(word int, v uint64) { atomic.StoreUint64(&p.slot[word], v) }

// ring returns the ring between two of the indices, with their present values.
func (p *Port) ring(producer, consumer int) (*ring.Ring[pmd.Desc], error) {
	at := ring.Layout{Producer: uint64(producer * xdprun.WordSize), Consumer: uint64(consumer * xdprun.WordSize),
		Slots: slotRing * xdprun.WordSize}
	return ring.Over[pmd.Desc](p.memory, at, p.transmitter.ring)
}

// Capacity returns the number of frames that the port accepts before the first completes.
func (p *Port) Capacity() int { return p.tx.Cap() }

// SetLink tells the program whether the port's link is up. A new port's link is taken to be up.
// While it is down, the program drops the frames in the ring, as the kernel drops a socket's: they
// complete and count as TXDropped. Otherwise the driver would keep their buffers while the cable is
// out, and their cells would hold the peers of other ports in XOFF.
func (p *Port) SetLink(up bool) {
	var down uint64
	if !up {
		down = 1
	}
	p.store(slotDown, down)
}

// Declined returns why the socket sends, or nil if the program sends.
func (p *Port) Declined() error {
	if why := p.declined.Load(); why != nil {
		return *why
	}
	return nil
}

// Reconsider switches to the socket if the program can't serve the device any more, and back to the
// program once the device accepts its frames again. After a peer had no room for frames, the
// program stays away. While the state of the device is unknown, nothing changes. Call it
// periodically on a thread in the device's network namespace.
func (p *Port) Reconsider() error {
	was, why := p.Declined(), p.check()
	switch {
	case errors.Is(why, errUnknown):
	case was == nil && why != nil:
		return p.Decline(why)
	case was != nil && why == nil:
		p.Accept()
	}
	return nil
}

// errUnknown means that the kernel did not say whether a device accepts redirected frames.
var errUnknown = errors.New("can't determine whether the device accepts frames from XDP programs")

// check returns why the program can't send to the device, or nil. The calling thread must be in the
// device's namespace.
func (p *Port) check() error {
	if err := p.transmitter.failed(); err != nil {
		return err
	}
	if sent, known := p.meter.Read(); known && sent.Refused > 0 {
		return fmt.Errorf("%d frames were lost because the device's peer had no room for them, and only a "+
			"socket waits "+
			"for room", sent.Refused)
	}
	switch takes, err := netdev.TakesRedirects(p.device.Index); {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnknown, err)
	case !takes:
		return ErrRedirect
	}
	return nil
}

// Decline makes the socket the sender, starting with the frames that wait for the program, in
// order.
func (p *Port) Decline(why error) error {
	if !p.turn.CompareAndSwap(turnReturning, turnSocket) {
		for p.turn.Load() == turnReturned { // lasts some ns in the worker
			runtime.Gosched()
		}
		if err := p.release(); err != nil {
			p.store(slotAway, 0)
			return err
		}
		p.turn.Store(turnSocket)
	}
	p.declined.Store(&why)
	return nil
}

// Accept makes the program the sender again after the socket has sent all its frames.
func (p *Port) Accept() {
	p.turn.Store(turnReturning)
	p.declined.Store(nil)
}

// release makes the program let go of the slot: it takes no more frames out of it.
func (p *Port) release() error {
	p.store(slotAway, 1)
	return p.transmitter.settle()
}

// Transmit hands over frames in order. It returns how many of burst were taken, starting with the
// first.
func (p *Port) Transmit(burst []pmd.Desc) int {
	n := p.tx.Push(burst)
	if p.left == nil {
		p.transmitter.countHanded(n)
	}
	return n
}

// Complete stores the addresses of up to len(addrs) frames that have been copied, or that the
// socket has completed, and returns their number.
func (p *Port) Complete(addrs []uint64, socket *ring.Ring[uint64]) int {
	if p.left != nil {
		n := socket.Pop(addrs)
		p.withSocket -= n
		return n
	}
	a, b := p.completion.Peek(len(addrs))
	for i := range a {
		addrs[i] = a[i].Addr
	}
	for i := range b {
		addrs[len(a)+i] = b[i].Addr
	}
	p.completion.Release(len(a) + len(b))
	return len(a) + len(b)
}

// Flush does the worker's part of a change of sender: it moves the socket's frames to the socket,
// or returns the turn to the program.
func (p *Port) Flush(socket *ring.Ring[pmd.Desc]) {
	switch p.turn.Load() {
	case turnSocket:
		p.moveTo(socket)
	case turnReturning:
		if p.withSocket == 0 && p.turn.CompareAndSwap(turnReturning, turnReturned) {
			p.left = nil
			p.completion, _ = p.ring(slotConsumer, slotDone) // as after Join
			p.transmitter.countHanded(p.tx.Len())            // these had to wait
			p.store(slotAway, 0)                             // the program reads this, and then the present indices
			p.turn.Store(turnProgram)
		}
	}
}

// moveTo moves the frames that the program has left to the socket, in order. Frames that the
// program has copied must complete first.
func (p *Port) moveTo(socket *ring.Ring[pmd.Desc]) {
	if p.left == nil {
		if p.completion.Len() > 0 {
			return
		}
		p.left, _ = p.ring(slotProducer, slotDone) // can't fail: earlier ones did not
	}
	for p.left.Len() > 0 {
		a, _ := p.left.Peek(p.left.Len())
		n := socket.Push(a)
		if n == 0 {
			return
		}
		p.withSocket += n
		consumer := p.index(slotConsumer)
		consumer.Store(consumer.Load() + uint32(n))
		p.left.Release(n)
	}
}

// Count adds the counts of the program and the device to those of the socket.
func (p *Port) Count(s *pmd.Stats) {
	redirected := p.load(slotFrames)
	s.TXInvalid += p.load(slotInvalid)
	s.TXDropped += p.load(slotGone) + p.load(slotUnsent)
	arrived := p.transmitter.flushed()
	sent, known := p.meter.Read()
	if !known {
		return
	}
	// The kernel dropped frames that were redirected and that no device counted: the device was
	// down, a frame was longer than its MTU, or its peer stopped accepting frames.
	if lost := int64(redirected - sent.Taken - sent.Refused); arrived && lost > 0 {
		p.vanished = max(p.vanished, uint64(lost))
	}
	s.TXRefused += sent.Refused
	s.TXDropped += p.vanished
}

// Close frees the slot and updates the counts a last time: frames that the program never copied
// count as dropped. The worker must no longer use the port.
func (p *Port) Close(s *pmd.Stats) error {
	err := p.leave()
	p.Count(s)
	s.TXDropped += uint64(p.index(slotProducer).Load() - p.index(slotConsumer).Load())
	p.meter.Close()
	return err
}

// leave frees the slot. If it fails, the slot stays taken.
func (p *Port) leave() error {
	if err := p.release(); err != nil {
		return err
	}
	t := p.transmitter
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken[p.number] = false
	t.arrange()
	return t.devices.Delete(uint32(p.number))
}
