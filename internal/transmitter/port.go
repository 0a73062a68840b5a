package transmitter

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"sluice/internal/netdev"
	"sluice/internal/xdprun"
	"sluice/pmd"
	"sluice/ring"
)

// Port is a port's slot of a transmitter. Three indices run over one ring of descriptors: the
// worker's, up to which frames are handed over; the program's, up to which they have been copied;
// and that up to which the worker has taken their buffers back, up to which it may put in new ones.
// Each two of them are a ring.
//
//	   buffers are free          to be copied             room
//	├──── completion ─────┤├─────────────────────┤
//	├─────────────────── tx ─────────────────────┤
//	done              the program's         the worker's
//
// When the socket is to send, the worker takes the program's part: it moves descriptors to the
// socket's ring. So the sender can change at any time, in both directions, and order is kept.
//
// Transmit, Complete and Flush belong to the worker that owns the port. Any goroutine may call
// Declined, Capacity and SetLink. Of the others, Reconsider, Decline and Accept are called by one
// goroutine at a time, and so are Count and Close.
type Port struct {
	transmitter *Transmitter
	device      Device
	number      int
	slot        []uint64
	memory      []byte // the same
	tx          *ring.Ring[pmd.Desc]
	completion  *ring.Ring[pmd.Desc]
	meter       *xdprun.Meter
	vanished    uint64 // redirected, and taken by no device; Count's

	declined   atomic.Pointer[error] // why the socket sends; nil: it does not
	turn       atomic.Uint32         // whose it is
	left       *ring.Ring[pmd.Desc]  // the worker's: what the socket is to send; nil: nothing was since its turn came
	withSocket int                   // the worker's: frames that the socket has taken and not completed
}

// Whose turn it is to send.
const (
	turnProgram   = iota
	turnSocket    // set by the control plane, once the program has let go of the slot
	turnReturning // the program's, once the socket has sent what it has; set by the control plane
	turnReturned  // set by the worker for a moment, before it is the program's
)

// Device is a network device of the calling thread's network namespace.
type Device struct {
	Name  string
	Index int
	MTU   int // bytes
}

// What a frame is longer by than its MTU says, in bytes.
const ethernetHeader, tag = 14, 4

// ErrRedirect means that a device does not take frames that programs redirect to it.
var ErrRedirect = errors.New("the device takes no frames of programs: of veth, the peer must have GRO on, `ethtool -K <peer> gro on` " +
	"in its namespace, or run an XDP program")

// Join gives a device a slot. If the device does not take what the program sends, its socket sends
// to begin with: see Declined. It fails if the program can never send to it.
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
	if longest := d.MTU + ethernetHeader + tag; longest > LongestFrame {
		return nil, fmt.Errorf("with its MTU of %d frames have up to %d bytes, and a transmitter's %d", d.MTU, longest, LongestFrame)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := slices.Index(t.taken, false)
	if n < 0 {
		return nil, fmt.Errorf("the transmitter has %d ports already", t.slots)
	}
	first, end := t.slot(n), t.slot(n+1)
	p = &Port{transmitter: t, device: d, number: n, slot: t.rings.Words[first:end], memory: t.rings.Memory[first*xdprun.WordSize : end*xdprun.WordSize]}
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
		return nil, fmt.Errorf("tell the transmitter of device %d: %w", d.Index, err)
	}
	t.taken[n] = true
	t.arrange()
	return p, nil
}

// load and store are of a word of the slot that others write or read at the same time.
func (p *Port) load(word int) uint64     { return atomic.LoadUint64(&p.slot[word]) }
func (p *Port) store(word int, v uint64) { atomic.StoreUint64(&p.slot[word], v) }

// ring returns the ring between two of the indices, as they are.
func (p *Port) ring(producer, consumer int) (*ring.Ring[pmd.Desc], error) {
	at := ring.Layout{Producer: uint64(producer * xdprun.WordSize), Consumer: uint64(consumer * xdprun.WordSize), Slots: slotRing * xdprun.WordSize}
	return ring.Over[pmd.Desc](p.memory, at, p.transmitter.ring)
}

// Capacity returns how many frames the port takes to send before the first completes.
func (p *Port) Capacity() int { return p.tx.Cap() }

// SetLink tells the program whether the port's link is up, as it is in the beginning. While it is
// down, the program drops what it finds in the ring, as the kernel drops a socket's frames: they
// complete, and count as TXDropped. Else their buffers would be the driver's for as long as the
// cable is out, and their cells would keep the peers of other ports in XOFF.
func (p *Port) SetLink(up bool) {
	var down uint64
	if !up {
		down = 1
	}
	p.store(slotDown, down)
}

// Declined returns why the socket sends, or nil if the program does.
func (p *Port) Declined() error {
	if why := p.declined.Load(); why != nil {
		return *why
	}
	return nil
}

// Reconsider leaves sending to the socket if the program can't go on with it, and gives it back to
// the program once the device takes its frames again. From a peer that had no room for frames the
// program stays away. While nothing is known of the device, nothing changes. It is to be called
// from time to time, on a thread in the device's network namespace.
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

// errUnknown means that the kernel did not say whether a device takes frames of programs.
var errUnknown = errors.New("whether the device takes frames of programs is not known")

// check returns why the program can't send to the device, or nil. The calling thread must be in its
// namespace.
func (p *Port) check() error {
	if err := p.transmitter.failed(); err != nil {
		return err
	}
	if sent, known := p.meter.Read(); known && sent.Refused > 0 {
		return fmt.Errorf("%d frames found no room at the device's peer, which nothing but a socket waits for", sent.Refused)
	}
	switch takes, err := netdev.TakesRedirects(p.device.Index); {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnknown, err)
	case !takes:
		return ErrRedirect
	}
	return nil
}

// Decline has the socket send from now on, beginning with what waits for the program, in order.
func (p *Port) Decline(why error) error {
	if !p.turn.CompareAndSwap(turnReturning, turnSocket) {
		for p.turn.Load() == turnReturned { // which takes the worker some ns
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

// Accept has the program send again, once the socket has sent what it has.
func (p *Port) Accept() {
	p.turn.Store(turnReturning)
	p.declined.Store(nil)
}

// release has the program let go of the slot: it takes nothing out of it any more.
func (p *Port) release() error {
	p.store(slotAway, 1)
	return p.transmitter.settle()
}

// Transmit hands frames over and returns how many, from the first on, were taken.
func (p *Port) Transmit(burst []pmd.Desc) int {
	n := p.tx.Push(burst)
	if p.left == nil {
		p.transmitter.countHanded(n)
	}
	return n
}

// Complete stores the addresses of up to len(addrs) frames that have been copied, or that the
// socket has completed, and returns how many.
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

// Flush does the worker's part of a change of the sender: it gives the socket what is the socket's
// to send, and its turn back to the program.
func (p *Port) Flush(socket *ring.Ring[pmd.Desc]) {
	switch p.turn.Load() {
	case turnSocket:
		p.moveTo(socket)
	case turnReturning:
		if p.withSocket == 0 && p.turn.CompareAndSwap(turnReturning, turnReturned) {
			p.left = nil
			p.completion, _ = p.ring(slotConsumer, slotDone) // as in the beginning
			p.transmitter.countHanded(p.tx.Len())            // which had to wait
			p.store(slotAway, 0)                             // whoever reads this, as the program does, sees the indices as they are now
			p.turn.Store(turnProgram)
		}
	}
}

// moveTo hands what the program has left to the socket, in order. Those that the program has copied
// must be completed first.
func (p *Port) moveTo(socket *ring.Ring[pmd.Desc]) {
	if p.left == nil {
		if p.completion.Len() > 0 {
			return
		}
		p.left, _ = p.ring(slotProducer, slotDone) // like others before
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

// Count adds what program and device have counted to what the socket has.
func (p *Port) Count(s *pmd.Stats) {
	redirected := p.load(slotFrames)
	s.TXInvalid += p.load(slotInvalid)
	s.TXDropped += p.load(slotGone) + p.load(slotUnsent)
	arrived := p.transmitter.flushed()
	sent, known := p.meter.Read()
	if !known {
		return
	}
	// What was redirected and no device has counted, the kernel has dropped: the device was down,
	// or the frame longer than its MTU, or its peer took none any more.
	if lost := int64(redirected - sent.Taken - sent.Refused); arrived && lost > 0 {
		p.vanished = max(p.vanished, uint64(lost))
	}
	s.TXRefused += sent.Refused
	s.TXDropped += p.vanished
}

// Close gives the slot back and counts for the last time: frames that the program never copied are
// dropped. The worker must have let go of the port.
func (p *Port) Close(s *pmd.Stats) error {
	err := p.leave()
	p.Count(s)
	s.TXDropped += uint64(p.index(slotProducer).Load() - p.index(slotConsumer).Load())
	p.meter.Close()
	return err
}

// leave gives the slot back. If it fails, the slot stays taken.
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
