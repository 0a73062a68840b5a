package afxdp

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

// residentPort is a port's slot of a Resident. Three indices run over one ring of descriptors: the worker's, up to which
// frames are handed over; the program's, up to which they have been copied; and that up to which the worker has taken their
// buffers back, up to which it may put in new ones. Each two of them are a ring.
//
//	   buffers are free          to be copied             room
//	├──── completion ─────┤├─────────────────────┤
//	├─────────────────── tx ─────────────────────┤
//	done              the program's         the worker's
//
// When the socket is to transmit, because the device takes no frames of programs, the worker takes the program's part: it moves
// descriptors to the socket's ring. So who transmits can change at any time, in both directions, and order is kept.
type residentPort struct {
	engine     *Resident
	number     int
	slot       []byte
	tx         *ring.Ring[pmd.Desc]
	completion *ring.Ring[pmd.Desc]
	meter      *xdprun.Meter
	vanished   uint64 // redirected, and taken by no device; guarded by the port's mutex

	turn       atomic.Uint32        // whose it is
	left       *ring.Ring[pmd.Desc] // the worker's: what the socket is to transmit; nil: nothing was since its turn came
	withSocket int                  // the worker's: frames that the socket has taken and not completed
}

// Whose turn it is to transmit.
const (
	turnProgram   = iota
	turnSocket    // set by the control plane, once the program has let go of the slot
	turnReturning // the program's, once the socket has sent what it has; set by the control plane
	turnReturned  // set by the worker for a moment, before it is the program's
)

// join gives a device a slot. Whether the device takes what is sent from there is for check to say.
func (r *Resident) join(d device) (p *residentPort, err error) {
	if longest := d.mtu + ethernetHeader + tag; longest > LongestResident {
		return nil, fmt.Errorf("with its MTU of %d frames have up to %d bytes, and a transmitter's %d", d.mtu, longest, LongestResident)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := slices.Index(r.taken, false)
	if n < 0 {
		return nil, fmt.Errorf("the transmitter has %d ports already", r.slots)
	}
	p = &residentPort{engine: r, number: n, slot: r.rings.Memory[r.residentLayout.slot(n):r.residentLayout.slot(n+1)]}
	clear(p.slot)
	p.store(slotNumber, uint64(n))
	if p.tx, err = p.ring(slotProducer, slotDone); err != nil {
		return nil, err
	}
	if p.completion, err = p.ring(slotConsumer, slotDone); err != nil {
		return nil, err
	}
	if p.meter, err = xdprun.NewMeter(d.name); err != nil {
		return nil, err
	}
	if err := r.devices.Put(uint32(n), uint32(d.index)); err != nil {
		p.meter.Close()
		return nil, fmt.Errorf("tell the transmitter of device %d: %w", d.index, err)
	}
	r.taken[n] = true
	r.arrange()
	return p, nil
}

// ring returns the ring between two of the indices, as they are.
func (p *residentPort) ring(producer, consumer uint64) (*ring.Ring[pmd.Desc], error) {
	return ring.Over[pmd.Desc](p.slot, ring.Layout{Producer: producer, Consumer: consumer, Slots: slotRing}, p.engine.ring)
}

// setLink has the program drop what it finds in the ring while the link is down.
func (p *residentPort) setLink(up bool) {
	var down uint64
	if !up {
		down = 1
	}
	p.store(slotDown, down)
}

// release has the program let go of the slot: it takes nothing out of it any more.
func (p *residentPort) release() error {
	p.store(slotAway, 1)
	return p.engine.settle()
}

// leave gives the slot back.
func (p *residentPort) leave() error {
	if err := p.release(); err != nil {
		return err // the slot stays taken
	}
	r := p.engine
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken[p.number] = false
	r.arrange()
	return r.devices.Delete(uint32(p.number))
}

// check returns why the device can't be sent to by the program, or nil. The calling thread must be in its namespace.
func (p *residentPort) check(device int) error {
	if err := p.engine.Failed(); err != nil {
		return err
	}
	if sent, known := p.meter.Read(); known && sent.Refused > 0 {
		return fmt.Errorf("%d frames found no room at the device's peer, which nothing but a socket waits for", sent.Refused)
	}
	switch takes, err := netdev.TakesRedirects(device); {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnknown, err)
	case !takes:
		return ErrRedirect
	}
	return nil
}

// errUnknown means that the kernel did not say whether a device takes frames of programs.
var errUnknown = errors.New("whether the device takes frames of programs is not known")

// transmit hands frames over: to the program, unless it is the socket's turn.
func (p *residentPort) transmit(burst []pmd.Desc) int {
	n := p.tx.Push(burst)
	if p.left == nil {
		p.engine.countHanded(n)
	}
	return n
}

// complete stores the addresses of up to len(addrs) frames that have been copied, or that the socket has completed.
func (p *residentPort) complete(addrs []uint64, socket *ring.Ring[uint64]) int {
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

// serve does the worker's part of whoever's turn it is.
func (p *residentPort) serve(socket *ring.Ring[pmd.Desc]) {
	switch p.turn.Load() {
	case turnSocket:
		p.moveTo(socket)
	case turnReturning:
		if p.withSocket == 0 && p.turn.CompareAndSwap(turnReturning, turnReturned) {
			p.left = nil
			p.completion, _ = p.ring(slotConsumer, slotDone) // as in the beginning
			p.engine.countHanded(p.tx.Len())                 // which had to wait
			p.store(slotAway, 0)
			p.turn.Store(turnProgram)
		}
	}
}

// giveToSocket has the socket transmit from now on, beginning with what waits for the program, in order.
func (p *residentPort) giveToSocket() error {
	if p.turn.CompareAndSwap(turnReturning, turnSocket) {
		return nil
	}
	for p.turn.Load() == turnReturned { // which takes the worker some ns
		runtime.Gosched()
	}
	if err := p.release(); err != nil {
		p.store(slotAway, 0)
		return err
	}
	p.turn.Store(turnSocket)
	return nil
}

// giveBack has the program transmit again.
func (p *residentPort) giveBack() { p.turn.Store(turnReturning) }

// moveTo hands what the program has left to the socket, in order. Those that the program has copied must be completed first.
func (p *residentPort) moveTo(socket *ring.Ring[pmd.Desc]) {
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
		p.store32(slotConsumer, p.load32(slotConsumer)+uint32(n))
		p.left.Release(n)
	}
}

// abandoned returns how many frames the program never copied.
func (p *residentPort) abandoned() uint64 {
	return uint64(p.load32(slotProducer) - p.load32(slotConsumer))
}

// count adds what the program and the device have counted to what the socket has.
func (p *residentPort) count(s *pmd.Stats) {
	redirected := p.load(slotFrames)
	s.TXInvalid += p.load(slotInvalid)
	s.TXDropped += p.load(slotGone) + p.load(slotUnsent)
	arrived := p.engine.flushed()
	sent, known := p.meter.Read()
	if !known {
		return
	}
	// What was redirected and no device has counted, the kernel has dropped: the device was down, or the frame longer than its
	// MTU, or its peer took none any more.
	if lost := int64(redirected - sent.Taken - sent.Refused); arrived && lost > 0 {
		p.vanished = max(p.vanished, uint64(lost))
	}
	s.TXRefused += sent.Refused
	s.TXDropped += p.vanished
}
