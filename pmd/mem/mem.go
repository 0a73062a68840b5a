// Package mem connects ports by wires in memory, in virtual time. A wire has a rate, a length and
// an MTU, so switches and hosts in a test, simulation or benchmark behave as on real links.
//
// A Wire moves frames only when Advance sets the time. A frame occupies its direction of the wire
// for its serialisation time (including preamble, gap and FCS) and arrives as a whole one
// propagation delay later. As with a NIC, the sender's buffer completes when the last bit has left,
// and a frame that finds no empty buffer at the receiver is lost and counted. Params.Fault loses or
// damages single frames. With Params.Part, longer frames arrive in several buffers, as from AF_XDP.
//
// Null is a port without cost: it always has frames to receive and sends at once, like DPDK's
// net_null.
package mem

import (
	"cmp"
	"errors"
	"fmt"

	"sluice/internal/frame"
	"sluice/pmd"
)

// room is the space in bytes that a port leaves free in front of a received frame, as drivers do,
// for pushing a tag.
const room = 32

// maxTagged is the number of bytes by which a frame may exceed the MTU: an Ethernet header and one
// 802.1Q tag.
const maxTagged = 18

// preamble is the number of bytes on the wire in front of a frame.
const preamble = 8

// Params describe a wire.
type Params struct {
	Rate  uint64 // bit/s, each direction
	Delay int64  // one-way propagation delay, ns; Length computes it for a cable
	MTU   int    // bytes of payload; longer frames are lost on arrival (RXDropped). 0: 1500
	Ring  int    // buffers that each end takes for reception, and for sending. 0: 1024

	// Part is how many bytes of a frame arrive in one buffer; a longer frame has several parts.
	// 0: a whole buffer must hold the longest frame.
	Part int
	// RXRing is how many parts can wait for Receive; a frame that finds less room is lost
	// (RXRingFull). 0: Ring, so that buffers run out first.
	RXRing int

	// Fault, if set, decides the fate of each frame at the far end. at is in ns; toB is the
	// direction. b belongs to the wire and must not be changed.
	Fault func(at int64, toB bool, b []byte) Fault

	// Tap, if set, sees each frame that arrives undamaged, before it is received or lost because
	// there is no buffer. Its arguments are those of Fault.
	Tap func(at int64, toB bool, b []byte)
}

// Fault is the effect of a wire on a frame.
type Fault uint8

const (
	// Deliver does no harm.
	Deliver Fault = iota
	// Lose drops the frame; the receiver counts it in RXDropped, like frames on an unplugged wire.
	Lose
	// Corrupt damages the frame: it arrives with a wrong FCS, so the receiver drops it and counts
	// it in RXCorrupt.
	Corrupt
)

// Length returns the propagation delay in ns of a fibre of this many metres: 5.13 ns/m, 65 % of the
// speed of light in vacuum.
func Length(metres float64) int64 { return int64(metres * 5.13) }

// End is the memory at one end of a wire.
type End struct {
	Memory []byte
	Buffer int // bytes per buffer, a power of two
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
	if p.RXRing == 0 {
		p.RXRing = p.Ring
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
	if longest := p.MTU + maxTagged; room+cmp.Or(p.Part, longest) > min(a.Buffer, b.Buffer) ||
		p.Part < 0 || p.parts(longest) > pmd.MaxParts {
		return nil, errors.New("mem: MTU or Part does not fit the buffers: choose a smaller one or larger buffers")
	}
	w := &Wire{A: newPort(p, a), B: newPort(p, b)}
	w.A.peer, w.B.peer, w.A.isA = w.B, w.A, true
	return w, nil
}

// parts returns the number of buffers that a frame arrives in.
func (p *Params) parts(length int) int {
	if length <= p.Part || p.Part == 0 {
		return 1
	}
	return (length + p.Part - 1) / p.Part
}

// Advance moves the wire to time now (ns): frames that have left complete, and frames that have
// arrived are received. Time must not go backwards.
func (w *Wire) Advance(now int64) {
	w.A.advance(now)
	w.B.advance(now)
}

// SetUp plugs the wire in or pulls it out. An unplugged wire loses the frames on it and all that
// are sent.
func (w *Wire) SetUp(up bool) {
	w.A.down, w.B.down = !up, !up
}

// InFlight returns the number of frames in the wire, in both directions: handed over and not yet
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

	lineFree int64           // ps: when the last frame handed over will have left
	sending  fifo[departure] // parts that have not left this end, in order
	flying   fifo[flight]    // frames sent by this end, in order of arrival at the other
	bytes    []byte          // the bytes of flying, a ring of whole frames
	nextByte int             // of bytes: where the next frame goes
	empty    fifo[uint64]    // buffers to receive into
	received fifo[pmd.Desc]  // parts for Receive, of whole frames
	done     fifo[uint64]    // buffers for Complete
	stats    pmd.Stats
}

// departure is one part that is leaving its end.
type departure struct {
	addr uint64 // sender's buffer
	left int64  // ps: when its last bit leaves
}

// flight is one frame in flight.
type flight struct {
	length int
	first  int   // its first byte in bytes
	left   int64 // ps: when its last bit leaves
}

func newPort(p Params, e End) *Port {
	// Frames: a ring and all that fit on the wire. Bytes: a buffer
	// per part of the ring and the wire's length in bytes, plus
	// the longest frame once for one that is partly on the wire,
	// and once for the unused space where the ring of bytes wraps.
	onWire := int(float64(p.Delay) * float64(p.Rate) / 8e9)
	return &Port{
		p: p, end: e,
		flying:   newFIFO[flight](p.Ring + onWire/(60+frame.WireOverhead) + 2),
		sending:  newFIFO[departure](p.Ring),
		bytes:    make([]byte, onWire+(p.Ring+2*pmd.MaxParts)*e.Buffer),
		empty:    newFIFO[uint64](p.Ring),
		received: newFIFO[pmd.Desc](p.RXRing),
		done:     newFIFO[uint64](p.Ring),
	}
}

// Fill implements pmd.Port. As in a NIC, buffers of frames that wait for Receive count against the
// ring.
func (p *Port) Fill(addrs []uint64) int {
	n := min(len(addrs), p.p.Ring-p.empty.len()-p.received.len())
	for _, a := range addrs[:n] {
		p.empty.push(a &^ uint64(p.end.Buffer-1))
	}
	return n
}

// Receive implements pmd.Port.
func (p *Port) Receive(burst []pmd.Desc) int {
	n := min(len(burst), p.received.len())
	for n > 0 && p.received.at(n-1).Options&pmd.Continued != 0 {
		n--
	}
	return p.received.popInto(burst[:n])
}

// Waiting implements pmd.Port.
func (p *Port) Waiting() int { return p.received.len() }

// Complete implements pmd.Port.
func (p *Port) Complete(addrs []uint64) int { return p.done.popInto(addrs) }

// Flush implements pmd.Port. A wire in memory needs no wake-up.
func (p *Port) Flush() {}

// Stats implements pmd.Port.
func (p *Port) Stats() pmd.Stats { return p.stats }

// Transmit implements pmd.Port. It copies the bytes at once; each buffer completes when its last
// bit has left.
func (p *Port) Transmit(burst []pmd.Desc) int {
	n := min(len(burst), p.p.Ring-p.sending.len()-p.done.len(), p.flying.free())
	for n > 0 && burst[n-1].Options&pmd.Continued != 0 {
		n--
	}
	for i := 0; i < n; {
		end := i + 1
		for burst[end-1].Options&pmd.Continued != 0 {
			end++
		}
		p.send(burst[i:end])
		i = end
	}
	return n
}

// send starts to send one frame. Like Linux it drops a frame that has too many parts or an empty
// one.
func (p *Port) send(parts []pmd.Desc) {
	length, valid := 0, len(parts) <= pmd.MaxParts
	for _, d := range parts {
		length += int(d.Len)
		valid = valid && d.Len > 0
	}
	if !valid {
		p.stats.TXInvalid++
		for _, d := range parts {
			p.done.push(d.Addr)
		}
		return
	}
	start := max(p.now*1000, p.lineFree)
	p.lineFree = start + p.duration(length+frame.WireOverhead)
	first := p.reserve(length)
	p.flying.push(flight{length: length, first: first, left: p.lineFree})
	last, sent := len(parts)-1, first
	for _, d := range parts[:last] {
		sent += copy(p.bytes[sent:], p.end.Memory[d.Addr:d.Addr+uint64(d.Len)])
		p.sending.push(departure{addr: d.Addr, left: start + p.duration(preamble+sent-first)})
	}
	d := parts[last]
	copy(p.bytes[sent:], p.end.Memory[d.Addr:d.Addr+uint64(d.Len)])
	p.sending.push(departure{addr: d.Addr, left: p.lineFree})
}

// duration returns how long this many bytes take on the wire, in ps.
func (p *Port) duration(bytes int) int64 { return int64(uint64(bytes) * 8 * 1e12 / p.p.Rate) }

// reserve returns the index of the first byte of a frame's place in the ring of bytes, which is in
// one piece.
func (p *Port) reserve(length int) (first int) {
	if first = p.nextByte; first+length > len(p.bytes) {
		first = 0
	}
	p.nextByte = first + length
	return first
}

// advance completes parts that have left this end and delivers frames that have arrived at the
// peer.
func (p *Port) advance(now int64) {
	p.now = now
	for p.sending.len() > 0 && p.sending.at(0).left <= now*1000 {
		p.done.push(p.sending.pop().addr)
	}
	for p.flying.len() > 0 && p.flying.at(0).left+p.p.Delay*1000 <= now*1000 {
		f := p.flying.pop()
		p.arrive((f.left+p.p.Delay*1000+999)/1000, p.bytes[f.first:f.first+f.length])
	}
}

// arrive delivers a frame to the other end of the wire, unless it has a fault.
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

// deliver receives one frame at this end, or drops and counts it.
func (p *Port) deliver(b []byte) {
	parts := p.p.parts(len(b))
	switch {
	case p.down, len(b) > p.p.MTU+maxTagged:
		p.stats.RXDropped++
	case p.empty.len() < parts:
		p.stats.RXDropped++
		if p.empty.len() == 0 {
			p.stats.RXFillEmpty++
		}
	case p.received.free() < parts:
		p.stats.RXRingFull++
	default:
		for ; parts > 1; parts-- {
			p.receive(b[:p.p.Part], pmd.Continued)
			b = b[p.p.Part:]
		}
		p.receive(b, 0)
	}
}

// receive stores one part of a frame in an empty buffer.
func (p *Port) receive(b []byte, options uint32) {
	addr := p.empty.pop() + room
	copy(p.end.Memory[addr:], b)
	p.received.push(pmd.Desc{Addr: addr, Len: uint32(len(b)), Options: options})
}

// Next returns the time (ns) of the wire's next event if no more frames are sent; false if the wire
// is empty.
func (w *Wire) Next() (int64, bool) {
	at, any := int64(0), false
	for _, p := range []*Port{w.A, w.B} {
		if p.flying.len() == 0 {
			continue
		}
		t := p.flying.at(0).left + p.p.Delay*1000
		if p.sending.len() > 0 {
			t = min(t, p.sending.at(0).left)
		}
		t = (t + 999) / 1000
		if !any || t < at {
			at, any = t, true
		}
	}
	return at, any
}
