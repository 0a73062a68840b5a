package host

import (
	"bytes"
	"math"

	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

// sender is the state of a flow.
type sender struct {
	next     moment // when the next frame is due by the flow's rate
	ready    int64  // ns: PFC held the flow back until then
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
	bytes int  // without FCS
	step  span // to the next frame at the flow's rate
	cost  span // on the line
}

// staged is what to restore if the port does not take a frame of the burst.
type staged struct {
	flow int    // index of the sender, or injected or announced
	next moment // the sender's previous value
	at   place  // likewise
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
		s.sizes = append(s.sizes, size{bytes: bytes, step: wireTime(bytes, f.Rate), cost: wireTime(bytes, speed)})
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
	return max(s.next.ns, s.ready)
}

// bytes returns the length of the next frame.
func (s *sender) bytes() int { return s.sizes[s.at.size].bytes }

// transmit hands over the frames that line, bytes in flight and pauses allow: PFC frames first,
// then LLDP, then the flows.
func (h *Host) transmit(now int64, paused uint8) int {
	h.line = h.line.notBefore(now - h.catchUp)
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
	h.counters.TXPackets += uint64(taken)
	return taken
}

// stageInjected begins the burst with PFC frames. Neither pauses nor the bytes in flight delay
// them.
func (h *Host) stageInjected(now int64) int {
	n := 0
	for n < len(h.burst) && h.injectHead != h.injectTail && h.line.ns <= now && h.buffers.sendable() > 0 {
		h.staged[n] = staged{flow: injected}
		h.line = h.line.add(h.injectCost)
		addr, b := h.buffers.take(pfc.FrameLength)
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
	if length == 0 || n == len(h.burst) || h.line.ns > now || h.buffers.sendable() == 0 {
		return n
	}
	h.staged[n] = staged{flow: announced}
	h.line = h.line.add(wireTime(length, h.speed))
	addr, b := h.buffers.take(length)
	copy(b, h.announcement)
	h.burst[n] = pmd.Desc{Addr: addr, Len: uint32(length)}
	h.inFlight += length
	h.announcement = nil
	return n + 1
}

// stageFlows appends frames of the flows to the n frames of the burst and returns its new length.
func (h *Host) stageFlows(now int64, paused uint8, n int) int {
	for !h.held && n < len(h.burst) && h.line.ns <= now {
		i, begin := h.pick(now, paused)
		if begin > now {
			break
		}
		if h.inFlight+h.flows[i].bytes() > h.mostOut || h.buffers.sendable() <= injectReserve {
			h.line = h.line.notBefore(now) // the flows are not waiting for the line
			break
		}
		h.stage(i, begin, now, n)
		n++
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
		if b <= h.line.ns {
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

// stage writes the next frame of flow i, which could begin at begin, as frame n of the burst. The
// frame occupies the line from when the line was free, even if that was before this Step.
func (h *Host) stage(i int, begin, now int64, n int) {
	s := &h.flows[i]
	size := &s.sizes[s.at.size]
	h.staged[n] = staged{flow: i, next: s.next, at: s.at}
	h.line = h.line.notBefore(begin)
	scheduled := h.line.ns
	if s.paced {
		scheduled = s.next.ns
	}
	h.line = h.line.add(size.cost)
	s.next = s.next.add(size.step)
	if h.turn = i + 1; h.turn == len(h.flows) {
		h.turn = 0
	}

	addr, b := h.buffers.take(size.bytes)
	payload := b[s.header.put(b, s.at.stream):]
	putStamp(payload, stamp{flow: s.flow.ID + s.at.stream, seq: s.at.seq, scheduled: scheduled, sent: now})
	h.burst[n] = pmd.Desc{Addr: addr, Len: uint32(size.bytes)}
	h.inFlight += size.bytes
	s.advance()
}

// undo takes back frames from..to-1 of the burst, which the port did not take. Their time on the
// line stays used.
func (h *Host) undo(from, to int) {
	for i := to - 1; i >= from; i-- {
		switch u := h.staged[i]; u.flow {
		case injected:
			h.injectHead--
		case announced:
			h.announcement = bytes.Clone(frameAt(h.buffers.memory, h.burst[i]))
		default:
			s := &h.flows[u.flow]
			s.next, s.at = u.next, u.at
			s.sent--
			h.turn = u.flow
		}
		h.inFlight -= int(h.burst[i].Len)
		h.buffers.putBack(h.burst[i].Addr)
	}
}
