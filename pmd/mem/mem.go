// Package mem joins ports by wires that exist in memory only, in virtual time: with a rate, a
// length and an MTU, so that switches and hosts can be wired up in a test, a simulation or a
// benchmark and behave as on real links.
//
// A Wire moves frames only when Advance tells it the time. A frame occupies its direction of the
// wire for its serialisation time (preamble, gap and FCS counted) and arrives, whole, one
// propagation delay later. Its buffer completes at the sender when the last bit has left, as with a
// NIC. A frame that arrives while the receiver has no empty buffer is lost and counted, as with a
// NIC. Params.Fault loses or damages single frames.
//
// Null is the port that costs nothing: it receives for ever and sends at once, as DPDK's net_null
// does.
package mem

import (
	"errors"
	"fmt"

	"sluice/internal/frame"
	"sluice/pmd"
)

// room is what a port leaves free in front of a received frame, bytes: as drivers do, so that a tag
// may be pushed.
const room = 32

// maxTagged is what a frame may be longer than the MTU: an Ethernet header and one 802.1Q tag.
const maxTagged = 18

// Params describe a wire.
type Params struct {
	Rate  uint64 // bit/s, each direction
	Delay int64  // propagation delay one way, ns; Length gives it for a cable
	MTU   int    // bytes of payload; longer frames are lost on arrival (RXDropped). 0: 1500
	Ring  int    // buffers that each end takes for reception, and frames for sending. 0: 1024

	// Fault, if set, decides what becomes of every frame at the far end: at is in ns, toB tells the
	// direction. The bytes are the wire's own and must not be changed.
	Fault func(at int64, toB bool, b []byte) Fault

	// Tap, if set, sees every frame that arrives unharmed, before it is received or lost for want
	// of a buffer; its arguments are those of Fault.
	Tap func(at int64, toB bool, b []byte)
}

// Fault is what a wire does to a frame.
type Fault uint8

const (
	// Deliver does no harm.
	Deliver Fault = iota
	// Lose makes the frame vanish; the receiver counts it in RXDropped, as it does one from a wire
	// that is out.
	Lose
	// Corrupt flips bits: the frame arrives with a wrong FCS, so the receiver drops it and counts
	// it in RXCorrupt.
	Corrupt
)

// Length returns the propagation delay in ns of a fibre of so many metres: 5.13 ns/m, light at 65 %
// of its speed in vacuum.
func Length(metres float64) int64 { return int64(metres * 5.13) }

// End says whose memory one end of a wire works on.
type End struct {
	Memory []byte
	Buffer int // bytes a buffer, a power of two
}

// Wire is a full-duplex link between two ports. It belongs to one goroutine, as do its ports.
type Wire struct {
	A, B *Port
}

// NewWire returns a wire between two memories.
func NewWire(p Params, a, b End) (*Wire, error) {
	if p.MTU == 0 {
		p.MTU = 1500
	}
	if p.Ring == 0 {
		p.Ring = 1024
	}
	if p.Rate == 0 || p.Delay < 0 {
		return nil, fmt.Errorf("mem: rate %d bit/s, delay %d ns: a wire needs a rate above 0 and a delay of 0 or more",
			p.Rate, p.Delay)
	}
	for _, e := range []End{a, b} {
		if e.Buffer <= 0 || e.Buffer&(e.Buffer-1) != 0 || len(e.Memory)%e.Buffer != 0 {
			return nil, fmt.Errorf("mem: buffers of %d bytes in a memory of %d: use a power of two that divides it",
				e.Buffer, len(e.Memory))
		}
	}
	if room+p.MTU+maxTagged > min(a.Buffer, b.Buffer) {
		return nil, errors.New("mem: MTU does not fit the buffers: choose a smaller MTU or larger buffers")
	}
	w := &Wire{A: newPort(p, a), B: newPort(p, b)}
	w.A.peer, w.B.peer, w.A.isA = w.B, w.A, true
	return w, nil
}

// Advance moves the wire to time now (ns): frames that have left complete, frames that have arrived
// are received. Time must not go backwards.
func (w *Wire) Advance(now int64) {
	w.A.advance(now)
	w.B.advance(now)
}

// SetUp plugs the wire in or pulls it out. A wire that is out loses what is on it and what is sent
// into it.
func (w *Wire) SetUp(up bool) {
	w.A.down, w.B.down = !up, !up
}

// InFlight returns how many frames the wire holds, both directions: handed to it and not yet
// received or lost.
func (w *Wire) InFlight() int { return w.A.flying.len() + w.B.flying.len() }

// Port is one end of a Wire.
type Port struct {
	p    Params
	end  End
	peer *Port
	isA  bool
	now  int64 // ns
	down bool

	lineFree  int64          // ps: when the last frame handed over will have left
	flying    fifo[flight]   // frames sent by this end, in order of arrival at the other
	completed int            // how many of flying, from the first on, have left this end
	bytes     []byte         // the bytes of flying, a ring of whole frames
	nextByte  int            // of bytes: where the next frame goes
	empty     fifo[uint64]   // buffers to receive into
	received  fifo[pmd.Desc] // frames for Receive
	done      fifo[uint64]   // buffers for Complete
	stats     pmd.Stats
}

// flight is one frame on its way.
type flight struct {
	addr   uint64 // sender's buffer
	length uint32
	first  int   // its first byte in bytes
	left   int64 // ps: when its last bit leaves
}

func newPort(p Params, e End) *Port {
	// As many frames as the ring holds plus those that fit into the length of the wire. In bytes
	// that is a buffer for each of the former and the length in bytes for the latter; one buffer
	// more for the frame that is partly on the wire, one for what stays unused where the ring of
	// bytes wraps.
	onWire := int(float64(p.Delay) * float64(p.Rate) / 8e9)
	return &Port{
		p: p, end: e,
		flying:   newFIFO[flight](p.Ring + onWire/(60+frame.WireOverhead) + 2),
		bytes:    make([]byte, onWire+(p.Ring+2)*e.Buffer),
		empty:    newFIFO[uint64](p.Ring),
		received: newFIFO[pmd.Desc](p.Ring),
		done:     newFIFO[uint64](p.Ring),
	}
}

// Fill implements pmd.Port. Buffers received but not yet fetched count against the ring, as in a
// NIC.
func (p *Port) Fill(addrs []uint64) int {
	n := min(len(addrs), p.p.Ring-p.empty.len()-p.received.len())
	for _, a := range addrs[:n] {
		p.empty.push(a &^ uint64(p.end.Buffer-1))
	}
	return n
}

// Receive implements pmd.Port.
func (p *Port) Receive(burst []pmd.Desc) int { return p.received.popInto(burst) }

// Waiting implements pmd.Port.
func (p *Port) Waiting() int { return p.received.len() }

// Complete implements pmd.Port.
func (p *Port) Complete(addrs []uint64) int { return p.done.popInto(addrs) }

// Flush implements pmd.Port; a wire in memory needs no waking.
func (p *Port) Flush() {}

// Stats implements pmd.Port.
func (p *Port) Stats() pmd.Stats { return p.stats }

// Transmit implements pmd.Port. The bytes are taken at once; the buffer completes when the last bit
// has left.
func (p *Port) Transmit(burst []pmd.Desc) int {
	n := min(len(burst), p.p.Ring-(p.flying.len()-p.completed)-p.done.len(), p.flying.free())
	for _, d := range burst[:n] {
		start := max(p.now*1000, p.lineFree)
		p.lineFree = start + int64((uint64(d.Len)+frame.WireOverhead)*8*1e12/p.p.Rate)
		first := p.store(p.end.Memory[d.Addr : d.Addr+uint64(d.Len)])
		p.flying.push(flight{addr: d.Addr, length: d.Len, first: first, left: p.lineFree})
	}
	return n
}

// store copies a frame to the ring of bytes, where it stays in one piece, and returns where its
// first byte is.
func (p *Port) store(b []byte) (first int) {
	if first = p.nextByte; first+len(b) > len(p.bytes) {
		first = 0
	}
	copy(p.bytes[first:], b)
	p.nextByte = first + len(b)
	return first
}

// advance completes what has left this end and delivers to the peer what has arrived there.
func (p *Port) advance(now int64) {
	p.now = now
	for p.completed < p.flying.len() && p.flying.at(p.completed).left <= now*1000 {
		p.done.push(p.flying.at(p.completed).addr)
		p.completed++
	}
	for p.completed > 0 && p.flying.at(0).left+p.p.Delay*1000 <= now*1000 {
		f := p.flying.pop()
		p.completed--
		p.arrive((f.left+p.p.Delay*1000+999)/1000, p.bytes[f.first:f.first+int(f.length)])
	}
}

// arrive brings a frame to the other end of the wire, unless a fault befalls it.
func (p *Port) arrive(at int64, b []byte) {
	fault := Deliver
	if p.p.Fault != nil {
		fault = p.p.Fault(at, p.isA, b)
	}
	switch fault {
	case Lose:
		p.peer.stats.RXDropped++
	case Corrupt:
		p.peer.stats.RXCorrupt++
	default:
		if p.p.Tap != nil {
			p.p.Tap(at, p.isA, b)
		}
		p.peer.deliver(b)
	}
}

// deliver receives one frame at this end, or loses it under a name.
func (p *Port) deliver(b []byte) {
	switch {
	case p.down, len(b) > p.p.MTU+maxTagged:
		p.stats.RXDropped++
	case p.empty.len() == 0:
		p.stats.RXDropped++
		p.stats.RXFillEmpty++
	default:
		addr := p.empty.pop() + room
		copy(p.end.Memory[addr:], b)
		p.received.push(pmd.Desc{Addr: addr, Len: uint32(len(b))})
	}
}

// Next returns when (ns) the wire will do something by itself, if nothing more is sent; false when
// it is empty.
func (w *Wire) Next() (int64, bool) {
	at, any := int64(0), false
	for _, p := range []*Port{w.A, w.B} {
		if p.flying.len() == 0 {
			continue
		}
		t := p.flying.at(0).left + p.p.Delay*1000
		if p.completed < p.flying.len() {
			t = min(t, p.flying.at(p.completed).left)
		}
		t = (t + 999) / 1000
		if !any || t < at {
			at, any = t, true
		}
	}
	return at, any
}
