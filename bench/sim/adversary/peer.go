package adversary

import (
	"math"
	"math/bits"
	"slices"

	"sluice/internal/dataplane"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// peer is a port's link partner. It keeps to the standard and otherwise does its worst: it sends at
// line rate and stops as late as it may.
type peer struct {
	*world
	port    int
	host    int   // its number
	greeted int64 // ns: it says hello again no earlier
	wire    *mem.Wire
	driver  *driver // of the switch, at the other end of the wire
	memory  []byte  // of its end of the wire: receive buffers and a send buffer for any frame
	speed   int64   // bit/s
	txRing  int     // buffers that the driver takes for sending, whatever it is connected to
	parts   int     // most parts of a frame that it sends

	lineFree int64       // ps: when the line is free for the next frame
	stops    [8]int64    // ns, by priority: when the latest pause from the switch takes effect
	resumes  [8]int64    // ns, by priority: when it ends
	down     bool        // its link
	cut      int64       // ns: until then its link may be down for a worker
	deaf     bool        // the switch need not do what the peer asks
	until    [8]int64    // ns, by priority: end of the pauses that the peer asked for
	silent   [8]int64    // ns, by priority: when these must have taken effect
	outbox   []pfc.Frame // PFC frames to send next
	traffic

	least [8]int // bytes, by priority: of the longest frame that was allowed so far, the least
	late  uint64 // frames received of a priority that the switch should have stopped
}

// traffic is what a peer sends: frames of the listed priorities to the listed ports in turn,
// without priorities that are paused.
type traffic struct {
	priorities []uint8
	to         []int // ports
	size       size
	share      float64 // of the line; 0: all of it
	left       int     // frames; below 0: any number
	turn       int
	first      bool            // the first frame is the longest
	onPause    func(pfc.Frame) // called with each PFC frame that the switch hands to its driver
}

// size is how a peer chooses frame lengths.
type size uint8

const (
	shortestFrames size = iota
	densestFrames       // that fill the most cells in a given time; a longest one just before it must stop
	longestFrames
	mixedFrames
	sizes
)

const (
	shortest = 60 // bytes without FCS

	receiveBuffers = 64
	sendBuffer     = 16 << 10 // bytes
	jumboMTU       = 10_000   // no frame is longer
	never          = math.MaxInt64
)

// advance advances time for the peer and its wire.
func (p *peer) advance(to int64) {
	at := p.now
	for !p.down && (len(p.outbox) > 0 || len(p.priorities) > 0 && p.left != 0) {
		if at = max(at, p.lineFree/1000); at > to {
			break
		}
		p.wire.Advance(at)
		p.collect()
		if !p.act(at) {
			at = p.changes(at)
		}
	}
	p.wire.Advance(to)
	p.collect()
}

// changes returns the next time at which a blocked frame may become sendable.
func (p *peer) changes(at int64) int64 {
	next := int64(never)
	if t, any := p.wire.Next(); any {
		next = t
	}
	for _, t := range p.resumes {
		if t > at {
			next = min(next, t)
		}
	}
	return next
}

// act sends a frame if one may be sent, and reports whether it did.
func (p *peer) act(at int64) bool {
	if len(p.outbox) > 0 {
		f := p.outbox[0]
		p.outbox = p.outbox[1:]
		if p.putPause(&f) {
			p.ask(at, &f)
			p.transmit(at, pfc.FrameLength)
			return true
		}
	}
	if p.hello(at) {
		return true
	}
	for range p.priorities {
		priority, to := p.priorities[p.turn%len(p.priorities)], p.to[p.turn%len(p.to)]
		p.turn++
		if !p.halted(at, priority) && p.reaches(priority, to) {
			p.left--
			p.data(at, priority, to, p.length(at, priority))
			return true
		}
	}
	return false
}

// putPause writes a pause of the kind that the switch honours at this port, and reports whether
// there is one. PAUSE stops all priorities for the longest of the times.
func (p *peer) putPause(f *pfc.Frame) bool {
	switch p.params.Ports[p.port].FlowControl {
	case dataplane.PriorityFlowControl:
		f.Put(p.buffer(), hostOf(p.port).Bytes())
	case dataplane.LinkPause:
		most := slices.Max(f.Quanta[:])
		f.Enable, f.Quanta = 0xff, [8]uint16{most, most, most, most, most, most, most, most}
		f.PutPause(p.buffer(), hostOf(p.port).Bytes())
	default:
		return false
	}
	return true
}

// data sends a frame to the host at a port, or to everyone.
func (p *peer) data(at int64, priority uint8, to, length int) {
	f := passage{sent: at, from: uint8(p.port), source: uint8(p.host), to: everyone, class: priority, pcp: priority,
		tagged: true, vid: 1}
	if to != everyone {
		f.to, f.due = uint8(p.peers[to].host), 1<<to
	}
	code, s := uint8(0), &p.settings.ports[p.port]
	if s.link == "access" {
		f.vid = 0 // it takes no other tag
	}
	if s.trust == "ip" {
		code, f.pcp = dscp[priority], uint8(p.rng.IntN(8))
		f.tagged = s.link == taggedTrunk || p.rng.IntN(2) == 0
	}
	if !f.tagged {
		length = max(shortest, length-frame.TagLength) // the switch may add one
	}
	f.length = uint16(length)
	p.oracle.put(p.buffer(), f, code)
	p.transmit(at, length)
	if p.share > 0 {
		p.lineFree += int64(float64(p.slot(length)) * (1/p.share - 1))
	}
}

// length chooses the length of the next frame.
func (p *peer) length(at int64, priority uint8) int {
	most := p.longest(priority)
	if p.first {
		p.first = false
		return most
	}
	switch p.size {
	case shortestFrames:
		return shortest
	case longestFrames:
		return most
	case mixedFrames:
		return shortest + p.rng.IntN(most-shortest+1)
	}
	dense := min(most, p.dense[p.port])
	end := max(at*1000, p.lineFree) + p.slot(dense)
	if at < p.resumes[priority] && end/1000 >= p.stops[priority] {
		return most
	}
	return dense
}

// longest returns the longest frame that the peer sends in a priority.
func (p *peer) longest(priority uint8) int {
	most := longest(&p.params, p.port, priority)
	if p.next != nil {
		most = min(most, longest(&p.next.params, p.port, priority))
	}
	if p.now < p.adopted {
		most = min(most, longest(&p.before, p.port, priority))
	}
	return most
}

// shorten records the longest frames of new parameters.
func (p *peer) shorten() {
	for class := range p.least {
		if most := longest(&p.params, p.port, uint8(class)); p.least[class] == 0 || most < p.least[class] {
			p.least[class] = most
		}
	}
}

// slot returns how long a frame of length bytes without FCS takes on the wire, ps.
func (p *peer) slot(length int) int64 { return int64(length+frame.WireOverhead) * 8e12 / p.speed }

func (p *peer) buffer() []byte { return p.memory[len(p.memory)-sendBuffer:] }

// transmit sends the frame in the buffer. The wire copies it at once.
func (p *peer) transmit(at int64, length int) {
	d := [1]pmd.Desc{{Addr: uint64(len(p.memory) - sendBuffer), Len: uint32(length)}}
	if p.wire.B.Transmit(d[:]) != 1 {
		panic("sim: the wire takes no frame, although its line is free")
	}
	p.found.Frames++
	p.lineFree = max(at*1000, p.lineFree) + p.slot(length)
}

// collect returns the buffers of received and of sent frames.
func (p *peer) collect() {
	var d [32]pmd.Desc
	var addrs [32]uint64
	for p.wire.B.Complete(addrs[:]) > 0 {
	}
	for {
		n := p.wire.B.Receive(d[:])
		for i, d := range d[:n] {
			addrs[i] = d.Addr
		}
		p.wire.B.Fill(addrs[:n])
		if n < len(d) {
			return
		}
	}
}

// arrived handles a frame from the switch at the time of its arrival.
func (p *peer) arrived(at int64, b []byte) {
	var h frame.Header
	var f pfc.Frame
	parsed := frame.Parse(b, &h) == frame.OK
	if parsed && h.Type == frame.TypeLLDP {
		return // not subject to pauses
	}
	if parsed && h.Type != frame.TypeMACControl {
		p.judge(p.port, b)
		if serial, _, found := p.oracle.find(b); found {
			if class := p.oracle.passages[serial].class; at > p.silent[class] && at < p.until[class] {
				p.late++
			}
		}
		return
	}
	if kind, _ := pfc.Decode(b, &f); kind != pfc.PFC && kind != pfc.Pause {
		panic("sim: the switch sent a control frame that is neither PFC nor PAUSE, or an invalid frame")
	}
	for meant := f.Enable; meant != 0; meant &= meant - 1 {
		p.heed(at, bits.TrailingZeros8(meant), f.Quanta[bits.TrailingZeros8(meant)])
	}
}

// heed handles a PFC frame for one priority: an XON takes effect at once, as does an XOFF that
// prolongs a pause, and another XOFF after the peer's reaction time.
func (p *peer) heed(at int64, priority int, quanta uint16) {
	if at >= p.resumes[priority] {
		p.stops[priority] = at + p.reaction[p.port]
	}
	p.resumes[priority] = at + p.pause(quanta)
}

// halted reports whether the switch has stopped a priority.
func (p *peer) halted(at int64, priority uint8) bool {
	return p.stops[priority] <= at && at < p.resumes[priority]
}

// pause returns the duration of quanta, ns.
func (p *peer) pause(quanta uint16) int64 { return int64(quanta) * pfc.QuantumBits * 1e9 / p.speed }

// say queues a PFC frame: XOFF for quanta, or XON.
func (p *peer) say(priorities uint8, quanta uint16) {
	f := pfc.Frame{Enable: priorities}
	for n := range f.Quanta {
		f.Quanta[n] = quanta
	}
	p.outbox = append(p.outbox, f)
}

// ask records what the peer asks of the switch. The switch must have done it when it has polled and
// its TX ring has drained.
func (p *peer) ask(at int64, f *pfc.Frame) {
	if at < p.adopted || p.deaf {
		return
	}
	for meant := f.Enable & p.honours(p.port); meant != 0; meant &= meant - 1 {
		n := bits.TrailingZeros8(meant)
		p.until[n] = at + p.pause(f.Quanta[n])
		p.silent[n] = at + p.silence(p.port)
	}
}

// reset forgets the pauses on a link that went down.
func (p *peer) reset() {
	p.outbox, p.resumes, p.until = nil, [8]int64{}, [8]int64{}
}
