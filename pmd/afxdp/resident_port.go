package afxdp

import (
	"errors"
	"fmt"
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
type residentPort struct {
	engine     *Resident
	number     int
	slot       []byte
	tx         *ring.Ring[pmd.Desc]
	completion *ring.Ring[pmd.Desc]
	meter      *xdprun.Meter
	vanished   uint64               // redirected, and taken by no device; guarded by the port's mutex
	left       *ring.Ring[pmd.Desc] // what is not copied, once the program copies no more; nil: not yet
	retreat    atomic.Bool          // the program has let go of the slot: the socket is to transmit what is left
}

// join gives a device a slot.
func (r *Resident) join(d device) (p *residentPort, err error) {
	takes, err := netdev.TakesRedirects(d.index)
	switch {
	case err != nil:
		return nil, err
	case !takes:
		return nil, ErrRedirect
	case d.mtu+ethernetHeader+tag > LongestResident:
		return nil, fmt.Errorf("its MTU of %d makes frames longer than the %d bytes that the transmitter can send", d.mtu, LongestResident)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := slices.Index(r.taken, false)
	if n < 0 {
		return nil, fmt.Errorf("it has %d ports already", r.slots)
	}
	p = &residentPort{engine: r, number: n, slot: r.rings.Memory[r.residentLayout.slot(n):r.residentLayout.slot(n+1)]}
	clear(p.slot)
	p.store(slotNumber, uint64(n))
	if p.meter, err = xdprun.NewMeter(d.name); err != nil {
		return nil, err
	}
	at := ring.Layout{Producer: slotProducer, Consumer: slotDone, Slots: slotRing}
	if p.tx, err = ring.Over[pmd.Desc](p.slot, at, r.ring); err != nil {
		return nil, err
	}
	at.Producer = slotConsumer
	if p.completion, err = ring.Over[pmd.Desc](p.slot, at, r.ring); err != nil {
		return nil, err
	}
	if err := r.devices.Put(uint32(n), uint32(d.index)); err != nil {
		p.meter.Close()
		return nil, fmt.Errorf("tell its program of the device: %w", err)
	}
	r.taken[n] = true
	r.arrange()
	return p, nil
}

// shut makes frames wait in the ring, or no longer.
func (p *residentPort) shut(yes bool) {
	var v uint64
	if yes {
		v = 1
	}
	p.store(slotShut, v)
}

// leave has the program let go of the slot.
func (p *residentPort) leave() error {
	p.shut(true)
	r := p.engine
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.settle(); err != nil {
		return err // the slot stays taken
	}
	r.taken[p.number] = false
	r.arrange()
	return r.devices.Delete(uint32(p.number))
}

// complete stores the addresses of up to len(addrs) frames that have been copied.
func (p *residentPort) complete(addrs []uint64) int {
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

// moveTo hands what the program has left to another ring, in order, and reports whether that is all. Those that the program
// has copied must be completed first. The program must have let go of the slot.
func (p *residentPort) moveTo(other *ring.Ring[pmd.Desc]) bool {
	if p.completion.Len() > 0 {
		return false
	}
	if p.left == nil {
		at := ring.Layout{Producer: slotProducer, Consumer: slotDone, Slots: slotRing}
		p.left, _ = ring.Over[pmd.Desc](p.slot, at, p.engine.ring) // as for tx
	}
	for p.left.Len() > 0 {
		a, _ := p.left.Peek(p.left.Len())
		n := other.Push(a)
		if n == 0 {
			return false
		}
		p.store32(slotConsumer, p.load32(slotConsumer)+uint32(n))
		p.left.Release(n)
	}
	return true
}

// abandoned returns how many frames the program never copied.
func (p *residentPort) abandoned() uint64 {
	return uint64(p.load32(slotProducer) - p.load32(slotConsumer))
}

// count adds what the program and the device have counted to what the socket has.
func (p *residentPort) count(s *pmd.Stats) {
	redirected := p.load(slotFrames)
	s.TXInvalid += p.load(slotInvalid)
	s.TXDropped += p.load(slotGone)
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

// ErrRedirect means that a device does not take frames that programs redirect to it.
var ErrRedirect = errors.New("the device takes no frames of programs: of veth, the peer must have GRO on, `ethtool -K <peer> gro on` " +
	"in its namespace, or run an XDP program")
