package traffic

import (
	"bytes"
	"math"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

// sender is the state of a flow.
type sender struct {
	next     line.Moment // when the next frame is due by the flow's rate
	ready    int64       // ns: PFC held the flow back until then
	at       place
	sent     uint64 // frames
	limit    uint64 // of sent
	priority uint8  // one bit, as in a PFC frame
	paced    bool   // has a rate of its own

	sizes   []size // taken by frames in turn
	streams uint32
	header  header
	flow    Flow
}

// place identifies the next frame of a flow.
type place struct {
	stream uint32
	seq    uint64 // in its stream
	size   int    // index of its size
}

// size describes frames of one size.
type size struct {
	bytes int       // without FCS
	step  line.Span // to the next frame at the flow's rate
	cost  line.Span // on the line
}

// staged is what to restore if the port does not take a frame of the burst.
type staged struct {
	parts int         // of the burst
	flow  int         // index of the sender, or injected or announced
	next  line.Moment // the sender's previous value
	at    place       // likewise
}

const (
	injected  = -1 // a PFC frame
	announced = -2 // a frame of LLDP
)

func newSender(f Flow, src frame.MAC, speed uint64) sender {
	s := sender{
		limit:    f.Count,
		priority: 1 << f.PCP,
		paced:    f.Rate != 0,
		streams:  uint32(max(f.Streams, 1)),
		header:   newHeader(&f, src),
		flow:     f,
		ready:    math.MinInt64,
	}
	if f.Count == 0 {
		s.limit = math.MaxUint64
	}
	for _, bytes := range f.sizes() {
		step, cost := line.WireTime(bytes, f.Rate), line.WireTime(bytes, speed)
		s.sizes = append(s.sizes, size{bytes: bytes, step: step, cost: cost})
	}
	return s
}

// advance moves on to the next frame, stream and size.
func (s *sender) advance() {
	s.sent++
	if s.at.size++; s.at.size == len(s.sizes) {
		s.at.size = 0
	}
	if s.at.stream++; s.at.stream == s.streams {
		s.at.stream = 0
		s.at.seq++
	}
}

// counts returns the frames sent by each stream. It allocates.
func (s *sender) counts() []Sent {
	all := make([]Sent, s.streams)
	for i := range all {
		all[i].ID = s.flow.ID + uint32(i)
	}
	// Streams and sizes repeat after this many frames, so whole rounds can be counted at once.
	round := uint64(s.streams) * uint64(len(s.sizes))
	for i := range round {
		stream, bytes := i%uint64(s.streams), uint64(s.sizes[i%uint64(len(s.sizes))].bytes)
		frames := s.sent / round
		if i < s.sent%round {
			frames++
		}
		all[stream].Frames += frames
		all[stream].Bytes += frames * bytes
	}
	return all
}

// never is later than any other time.
const never = math.MaxInt64

// begin returns when the flow's next frame could be sent on a free line. The result is exact if it
// is not in the future.
func (s *sender) begin(now int64, paused uint8) int64 {
	if s.sent == s.limit {
		return never
	}
	if s.priority&paused != 0 {
		s.ready = now
		return never
	}
	return max(s.next.NS, s.ready)
}

// bytes returns the length of the next frame.
func (s *sender) bytes() int { return s.sizes[s.at.size].bytes }

// injectReserve is how many of the send buffers are reserved for injected PFC frames.
const injectReserve = 1

// transmit hands over the frames that line, bytes in flight and pauses allow: PFC frames first,
// then LLDP, then the flows.
func (h *Host) transmit(now int64, paused uint8) int {
	h.line = h.line.NotBefore(now - h.catchUp)
	h.staged = h.staged[:0]
	n := h.stageInjected(now)
	n = h.stageAnnouncement(now, n)
	n = h.stageFlows(now, paused, n)
	if n == 0 {
		return 0
	}
	taken := h.port.Transmit(h.burst[:n])
	h.undo(taken, n)
	for i := range h.burst[:taken] {
		h.counters.TXBytes += uint64(h.burst[i].Len)
	}
	h.counters.TXPackets += uint64(len(h.staged))
	return taken
}

// full reports whether a burst of n descriptors has no room for a frame of so many parts.
func (h *Host) full(n, parts int) bool { return n > 0 && n+parts > h.most }

// stageInjected begins the burst with PFC frames. Neither pauses nor the bytes in flight delay
// them.
func (h *Host) stageInjected(now int64) int {
	n := 0
	for !h.full(n, 1) && h.injectHead != h.injectTail && h.line.NS <= now && h.buffers.Sendable() > 0 {
		h.staged = append(h.staged, staged{flow: injected, parts: 1})
		h.line = h.line.Add(h.injectCost)
		addr, b := h.buffers.Take(pfc.FrameLength)
		length := h.inject[h.injectHead%injectMost].Put(b, h.mac.Bytes())
		h.burst[n] = pmd.Desc{Addr: addr, Len: uint32(length)}
		h.inFlight += length
		h.injectHead++
		n++
	}
	return n
}

// stageAnnouncement appends the LLDP frame that is to be sent, if any, to the n frames of the
// burst, and returns its new length. No pause delays it.
func (h *Host) stageAnnouncement(now int64, n int) int {
	length := len(h.announcement)
	if length == 0 || h.full(n, 1) || h.line.NS > now || h.buffers.Sendable() == 0 {
		return n
	}
	h.staged = append(h.staged, staged{flow: announced, parts: 1})
	h.line = h.line.Add(line.WireTime(length, h.speed))
	addr, b := h.buffers.Take(length)
	copy(b, h.announcement)
	h.burst[n] = pmd.Desc{Addr: addr, Len: uint32(length)}
	h.inFlight += length
	h.announcement = nil
	return n + 1
}

// stageFlows appends frames of the flows to the burst, which has n descriptors, and returns its new
// length.
func (h *Host) stageFlows(now int64, paused uint8, n int) int {
	for !h.held && !h.full(n, 1) && h.line.NS <= now {
		i, begin := h.pick(now, paused)
		if begin > now {
			break
		}
		parts := h.buffers.Parts(h.flows[i].bytes())
		if h.full(n, parts) {
			break
		}
		if h.inFlight+h.flows[i].bytes() > h.mostOut || h.buffers.Sendable() < parts+injectReserve {
			h.line = h.line.NotBefore(now) // the flows are not waiting for the line
			break
		}
		n += h.stage(i, begin, now, n)
	}
	return n
}

// pick returns the next flow on the line, and when its frame could begin: the first flow in turn
// that could begin when the line became free, or else the one that can begin first.
func (h *Host) pick(now int64, paused uint8) (soonest int, begin int64) {
	begin = never
	i := h.turn
	for range h.flows {
		b := h.flows[i].begin(now, paused)
		if b <= h.line.NS {
			return i, b
		}
		if b < begin {
			soonest, begin = i, b
		}
		if i++; i == len(h.flows) {
			i = 0
		}
	}
	return soonest, begin
}

// stage writes the next frame of flow i, which could begin at begin, behind the n descriptors of
// the burst, and returns how many parts it has. The frame occupies the line from when the line was
// free, even if that was before this Step.
func (h *Host) stage(i int, begin, now int64, n int) (parts int) {
	s := &h.flows[i]
	size := &s.sizes[s.at.size]
	u := staged{flow: i, next: s.next, at: s.at}
	h.line = h.line.NotBefore(begin)
	scheduled := h.line.NS
	if s.paced {
		scheduled = s.next.NS
	}
	h.line = h.line.Add(size.cost)
	s.next = s.next.Add(size.step)
	if h.turn = i + 1; h.turn == len(h.flows) {
		h.turn = 0
	}

	data := line.Stamp{Flow: s.flow.ID + s.at.stream, Seq: s.at.seq, Scheduled: scheduled, Sent: now}
	if u.parts = h.buffers.Parts(size.bytes); u.parts == 1 {
		addr, b := h.buffers.Take(size.bytes)
		s.write(b, data)
		h.burst[n] = pmd.Desc{Addr: addr, Len: uint32(size.bytes)}
	} else {
		b := h.long[:size.bytes]
		s.write(b, data)
		h.buffers.Put(h.burst[n:], b)
	}
	h.staged = append(h.staged, u)
	h.inFlight += size.bytes
	s.advance()
	return u.parts
}

// write writes the next frame of a flow.
func (s *sender) write(b []byte, data line.Stamp) { data.Put(b[s.header.put(b, s.at.stream):]) }

// undo takes back the frames of descriptors from..to-1 of the burst, which the port did not take.
// Their time on the line stays used.
func (h *Host) undo(from, to int) {
	for end := to; end > from; {
		u := h.staged[len(h.staged)-1]
		h.staged = h.staged[:len(h.staged)-1]
		frame := h.burst[end-u.parts : end]
		end -= u.parts
		switch u.flow {
		case injected:
			h.injectHead--
		case announced:
			h.announcement = bytes.Clone(h.whole.Frame(frame))
		default:
			s := &h.flows[u.flow]
			s.next, s.at = u.next, u.at
			s.sent--
			h.turn = u.flow
		}
		for _, d := range frame {
			h.inFlight -= int(d.Len)
			h.buffers.PutBack(d.Addr)
		}
	}
}
