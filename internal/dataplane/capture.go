package dataplane

import (
	"fmt"
	"reflect"

	"sluice/internal/bridge"
	"sluice/internal/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/ring"
)

const (
	// tapSlots is how many frames of a worker wait to be drained at the most: at a million a
	// second, 16 ms without a drain.
	tapSlots = 1 << 14
	// A capture may copy tapRate bytes for each ns that passes, each frame counting tapOverhead
	// more for what it costs whatever its length; so it takes a bounded part of a worker's time. It
	// may save up to tapBudget, which bounds by how much it makes an iteration longer: that time is
	// a part of the response that headroom is for. docs/capture.md has both measured.
	tapRate     = 1 // bytes a ns
	tapBudget   = 96 << 10
	tapOverhead = 192
	tapBurst    = tapBudget / tapOverhead // frames kept in an iteration at the most
	tapAlign    = 64                      // bytes: slots begin where cache lines do

	// tapPlaces tells a place in Tap.pending from the number of a burst, of which it is a multiple.
	// The last two places are those of received frames that were not kept: forwarded ones, and
	// flooded ones.
	tapPlaces = 1 << 10
	tapMissed = tapPlaces - 2
)

// Direction is a set of ways that frames go at a port.
type Direction uint8

// The directions. A frame that is dropped on its way to an egress queue or in one was to go out.
const (
	RX Direction = 1 << iota
	TX
)

// String returns the name of one direction.
func (d Direction) String() string {
	if d == RX {
		return "rx"
	}
	return "tx"
}

// Verdict is what became of a frame at a port.
type Verdict uint8

// The verdicts.
const (
	Forwarded Verdict = iota // received: admitted for one port; sent: given to the driver
	Flooded                  // received: copied to the other members of its VLAN
	Dropped                  // under a name
	Consumed                 // a MAC control frame that the port obeys
	// a MAC control frame that it does not: malformed, unknown, of another flow control, or to
	// another station
	Ignored
	Originated // a MAC control frame of the switch's own
	verdicts
)

var verdictNames = [verdicts]string{"forwarded", "flooded", "dropped", "consumed", "ignored", "originated"}

// String returns the stable name.
func (v Verdict) String() string { return verdictNames[v] }

// What is absent from a Record.
const (
	NoPort  = -1
	NoClass = 0xff // so of MAC control frames
	NoQueue = 0xff // so of frames that were to get into none, or, flooded, into several
)

// Record is what a capture says of a frame beside its bytes.
type Record struct {
	At        int64  // ns, the time of the worker's iteration
	Beyond    uint32 // frames of this port that were not captured since the record before, as in TapCount
	Full      uint32
	Length    uint16 // bytes of the frame
	Kept      uint16 // bytes of it in the capture
	Port      int32  // id (Switch.Names) of the port where it came in, or was to go out
	Other     int32  // id of the port that a forwarded frame goes to, or that one sent came from; NoPort
	Direction Direction
	Verdict   Verdict
	Why       Drop // of a dropped frame
	Class     uint8
	Queue     uint8
	Control   pfc.Kind // of a MAC control frame

	slot uint32
}

// TapParams say which frames are captured.
type TapParams struct {
	Ports      []Direction // by port id (Switch.Names)
	Classes    uint8       // bit n: class n; of MAC control frames, the priorities that they name
	DropsOnly  bool        // dropped frames, and MAC control frames that are ignored
	SnapLength int         // bytes kept of a frame; 0: all
}

// TapCount counts the frames of a port that were asked for.
type TapCount struct {
	Seen   uint64 // of which a record was kept, but for
	Beyond uint64 // those beyond what a capture may copy, and
	Full   uint64 // those that found nobody draining
}

// Tap is a capture at one worker: a ring of records and a slab with a slot for each one's bytes. A
// worker whose plan has none pays for that possibility with comparisons, a few for a burst and one
// for a drop; with one it never waits: what its budget or the ring has no room for is not captured.
// Peek, Frame and Release are for one goroutine, which drains it.
//
// What is sent is as it leaves. What is received is as it came; but a copy of a flooded frame that
// the priority group refuses, and where drops alone are captured any frame that it refuses, has got
// the tag that its egress port would have sent it with.
type Tap struct {
	TapParams
	worker *Worker
	slab   *umem.Memory
	stride int // bytes from slot to slot
	ring   *ring.Ring[Record]

	// The worker's.
	ports   []tapPort // by port id
	pending []Record  // of this iteration
	burst   uint32    // number of the burst in hand, a multiple of tapPlaces and not 0
	// by buffer id: number of the burst with which a received frame came in it, plus the place of
	// its record in pending
	of     []uint32
	missed Record // stands for a record that was not kept
	room   int    // for pending
	budget int    // bytes that may be copied now
	last   int64  // ns, when that was last added to
	next   uint32 // slot of the first of pending
}

// tapPort is a port as a capture sees it.
type tapPort struct {
	TapCount
	beyond, full uint32 // since the last record
}

// TapMemory returns what a worker's tap maps for bytes of frames, and what else it takes; in bytes.
func (s *Switch) TapMemory(p TapParams) (slab, rest int) {
	return tapSlots * s.tapStride(p), tapSlots*int(reflect.TypeFor[Record]().Size()) + len(s.frames)*4
}

// tapStride returns how far the slots of a slab are apart, in bytes.
func (s *Switch) tapStride(p TapParams) int {
	return (s.snapLength(p) + tapAlign - 1) &^ (tapAlign - 1)
}

// snapLength returns how many bytes are kept of a frame.
func (s *Switch) snapLength(p TapParams) int {
	if most := s.params.Memory.BufferSize(); p.SnapLength <= 0 || p.SnapLength > most {
		return most
	}
	return p.SnapLength
}

// NewTaps returns a tap for each worker, to be published in a plan. They must be closed when no
// worker runs that plan any more. Any goroutine may call it.
func (s *Switch) NewTaps(p TapParams) ([]*Tap, error) {
	p.SnapLength = s.snapLength(p)
	stride := s.tapStride(p)
	var taps []*Tap
	for _, w := range s.Workers {
		t, err := newTap(w, p, stride)
		if err != nil {
			for _, t := range taps {
				_ = t.Close() // of no more interest than the error
			}
			return nil, fmt.Errorf("dataplane: memory for a capture: %w", err)
		}
		taps = append(taps, t)
	}
	return taps, nil
}

func newTap(w *Worker, p TapParams, stride int) (t *Tap, err error) {
	t = &Tap{TapParams: p, worker: w, stride: stride, budget: tapBudget, room: tapBurst, burst: tapPlaces}
	t.ports, t.pending, t.of = make([]tapPort, len(p.Ports)), make([]Record, 0, tapBurst), make([]uint32, len(w.frames))
	if t.ring, err = ring.New[Record](tapSlots); err != nil {
		return nil, err
	}
	const page = 2048 // the smallest buffer; a multiple of tapSlots * tapAlign has no rest
	t.slab, err = umem.Map(tapSlots*t.stride/page, page)
	return t, err
}

// Peek returns the oldest record, nil if there is none. It changes nothing: until Release, it
// returns the same one.
func (t *Tap) Peek() *Record {
	a, _ := t.ring.Peek(1)
	if len(a) == 0 {
		return nil
	}
	return &a[0]
}

// Frame returns the bytes that were kept of a frame, until its record is released.
func (t *Tap) Frame(r *Record) []byte {
	return t.slab.Frame(uint64(r.slot)*uint64(t.stride), uint32(r.Kept))
}

// Release gives the oldest record's slot back.
func (t *Tap) Release() { t.ring.Release(1) }

// Count returns what was counted at the port with an id, when no worker runs a plan with the tap
// any more.
func (t *Tap) Count(id int) TapCount { return t.ports[id].TapCount }

// Close gives the slab back, when no worker runs a plan with the tap any more and it was drained.
func (t *Tap) Close() error { return t.slab.Close() }

// watch changes over to the tap of a plan. What the one before has kept is handed over.
func (w *Worker) watch(plan *Plan) {
	if w.tap != nil {
		w.tap.turn()
	}
	w.tap = nil
	if plan.Taps != nil {
		w.tap = plan.Taps[w.index]
	}
}

// turn ends an iteration: what was kept in it is handed over, and there is new budget for the time
// that it took.
func (t *Tap) turn() {
	t.next += uint32(t.ring.Push(t.pending))
	t.pending = t.pending[:0]
	t.room = min(t.ring.Free(), tapBurst)
	now := t.worker.gap.last
	t.budget, t.last = int(min(tapBudget, int64(t.budget)+(now-t.last)*tapRate)), now
}

// arrived captures the frames of a burst for which the bridge has found a way. Until settle, each
// may still be refused.
func (t *Tap) arrived(p *port, frames []bridge.Frame) {
	of := t.port(p, RX)
	if of == nil || t.DropsOnly {
		return
	}
	for i := range frames {
		f, d := &frames[i], &t.worker.burst[i&(burstSize-1)]
		if f.Out < 0 && f.Out != bridge.Flood || t.Classes>>f.Class&1 == 0 { // the first is about to be refused
			continue
		}
		verdict, place := Forwarded, &t.of[t.worker.buffer(d)]
		if f.Out == bridge.Flood {
			verdict = Flooded
		}
		if !t.spend(of, d.Len) {
			*place = t.burst + tapMissed + uint32(verdict)
			continue
		}
		*place = t.burst + uint32(len(t.pending))
		r := t.keep(of, d.Addr, d.Len)
		r.Port, r.Direction, r.Verdict, r.Class = int32(p.id), RX, verdict, f.Class
		r.Other, r.Queue = NoPort, NoQueue
		if verdict == Forwarded {
			r.Other, r.Queue = int32(t.worker.ports[f.Out].id), f.Class
		}
	}
}

// settle ends a burst: what was received has been admitted or refused.
func (t *Tap) settle() {
	if t.burst += tapPlaces; t.burst == 0 { // the numbers begin anew: those of earlier bursts must not be met again
		clear(t.of)
		t.burst = tapPlaces
	}
}

// decided returns the record of a received frame of the burst in hand, nil if it was not to be
// captured when it arrived. It does so once: from now on the frame's buffer may hold another.
func (t *Tap) decided(id uint32) *Record {
	place := t.of[id] - t.burst
	t.of[id] = 0
	switch {
	case place >= tapPlaces: // of an earlier burst
		return nil
	case place >= tapMissed: // its record was not kept, but is counted
		t.missed.Verdict = Verdict(place - tapMissed)
		return &t.missed
	}
	return &t.pending[place]
}

// refused captures that a received frame was not admitted. If there is a record of it, that says so
// from now on. A flooded frame has been flooded all the same; what was refused is one of its
// copies.
func (t *Tap) refused(p *port, d *pmd.Desc, why Drop, class uint8) {
	r := t.decided(t.worker.buffer(d))
	if r == nil || r.Verdict == Flooded && why != DropNoDestination {
		t.discarded(p, d, why, class)
		return
	}
	r.Verdict, r.Why, r.Other, r.Queue = Dropped, why, NoPort, NoQueue
}

// discarded captures a received frame that was dropped, or of which a copy was.
func (t *Tap) discarded(p *port, d *pmd.Desc, why Drop, class uint8) {
	if of := t.port(p, RX); of != nil && t.Classes>>class&1 != 0 && t.spend(of, d.Len) {
		r := t.keep(of, d.Addr, d.Len)
		r.Port, r.Direction, r.Verdict, r.Why, r.Class = int32(p.id), RX, Dropped, why, class
		r.Other, r.Queue = NoPort, NoQueue
	}
}

// dropped captures a frame that was admitted and is dropped at the port that it was bound for.
func (t *Tap) dropped(out *port, id uint32, why Drop) {
	t.decided(id)
	if of := t.port(out, TX); of != nil {
		t.leaving(of, out, id, Dropped, why)
	}
}

// sent captures the frames that the driver of a port has taken. Inlined, it would add to transmit
// what there is without a capture.
//
//go:noinline
func (t *Tap) sent(p *port, n int) {
	of := t.port(p, TX)
	if of == nil || t.DropsOnly {
		return
	}
	for _, id := range t.worker.ids[:n] {
		t.leaving(of, p, id, Forwarded, 0)
	}
}

// leaving captures an admitted frame at its egress port.
func (t *Tap) leaving(of *tapPort, out *port, id uint32, verdict Verdict, why Drop) {
	f := t.worker.frames[id]
	class := f.priority()
	if t.Classes>>class&1 == 0 || !t.spend(of, uint32(f.length())) {
		return
	}
	d := t.worker.descriptor(id)
	r := t.keep(of, d.Addr, d.Len)
	r.Port, r.Direction, r.Verdict, r.Why = int32(out.id), TX, verdict, why
	r.Class, r.Queue, r.Other = class, f.queue(), int32(t.worker.ports[f.in()].id)
}

// control captures a MAC control frame, received or of the switch's own. For the filter it has the
// classes that it stops or resumes; all, if it names none.
func (t *Tap) control(p *port, d *pmd.Desc, direction Direction) {
	var f pfc.Frame
	b := t.worker.memory.Frame(d.Addr, d.Len)
	kind, _ := pfc.Decode(b, &f)
	classes, verdict := f.Enable, Originated
	if kind != pfc.PFC || classes == 0 {
		classes = allPriorities
	}
	if direction == RX {
		if verdict = Consumed; kind != p.flow.obeys || kind == pfc.Malformed || !p.flow.meant(b) {
			verdict = Ignored
		}
	}
	of := t.port(p, direction)
	if of == nil || t.Classes&classes == 0 || t.DropsOnly && verdict != Ignored || !t.spend(of, d.Len) {
		return
	}
	r := t.keep(of, d.Addr, d.Len)
	r.Port, r.Direction, r.Verdict, r.Control = int32(p.id), direction, verdict, kind
	r.Class, r.Queue, r.Other = NoClass, NoQueue, NoPort
}

// port returns what is counted at a port, nil if it is not captured in that direction, or joined
// the switch later than the tap.
func (t *Tap) port(p *port, direction Direction) *tapPort {
	if uint(p.id) >= uint(len(t.Ports)) || t.Ports[p.id]&direction == 0 {
		return nil
	}
	return &t.ports[p.id]
}

// spend counts a frame that was asked for. It tells whether there is room for it, and takes what it
// costs from the budget.
func (t *Tap) spend(of *tapPort, length uint32) bool {
	of.Seen++
	cost := tapOverhead + min(int(length), t.SnapLength)
	switch {
	case len(t.pending) >= t.room:
		of.Full++
		of.full++
	case cost > t.budget:
		of.Beyond++
		of.beyond++
	default:
		t.budget -= cost
		return true
	}
	return false
}

// keep copies a frame for which spend has found room and returns its record, which is to be filled
// in.
func (t *Tap) keep(of *tapPort, addr uint64, length uint32) *Record {
	n := len(t.pending)
	t.pending = t.pending[:n+1]
	r := &t.pending[n]
	*r = Record{
		At: t.worker.gap.last, Beyond: of.beyond, Full: of.full, Length: uint16(length),
		Kept: uint16(min(int(length), t.SnapLength)),
		slot: (t.next + uint32(n)) & (tapSlots - 1),
	}
	of.beyond, of.full = 0, 0
	copy(t.Frame(r), t.worker.memory.Frame(addr, uint32(r.Kept)))
	return r
}
