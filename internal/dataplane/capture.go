package dataplane

import (
	"fmt"
	"reflect"

	"sluice/internal/bridge"
	"sluice/internal/drop"
	"sluice/internal/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/ring"
)

const (
	// tapSlots is the most frames of a worker that wait to be drained: at a million frames a
	// second, 16 ms of them.
	tapSlots = 1 << 14
	// A capture copies at most tapRate bytes per ns. Each frame counts tapOverhead bytes more, for
	// its cost at any length. So a capture takes a bounded part of a worker's time. It may save up
	// to tapBudget, which bounds by how much it extends an iteration: that time is part of the
	// response that the headroom covers. docs/capture.md has measurements of both.
	tapRate     = 1 // bytes per ns
	tapBudget   = 96 << 10
	tapOverhead = 192
	tapBurst    = tapBudget / tapOverhead // most frames kept in an iteration
	tapAlign    = 64                      // bytes: slots begin at cache lines

	// tapPlaces separates the number of a burst, which is a multiple of it, from a place in
	// Tap.pending. The last two places stand for received frames that were not kept: forwarded ones
	// and flooded ones.
	tapPlaces = 1 << 10
	tapMissed = tapPlaces - 2
)

// Direction is a set of directions in which frames pass a port.
type Direction uint8

// The directions. A frame that is dropped on its way to an egress queue, or in one, counts as TX.
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

// Verdict is what happened to a frame at a port.
type Verdict uint8

// The verdicts.
const (
	Forwarded Verdict = iota // received: admitted for one port; sent: given to the driver
	Flooded                  // received: copied to the other members of its VLAN
	Dropped                  // for the reason in Record.Why
	Consumed                 // a MAC control frame that the port honours
	// a MAC control frame that it does not: malformed, unknown, of another flow control, or to
	// another station
	Ignored
	Originated // sent: a MAC control frame of the switch's own, or a frame of its control plane
	Punted     // received: for the control plane
	verdicts
)

var verdictNames = [verdicts]string{"forwarded", "flooded", "dropped", "consumed", "ignored", "originated", "punted"}

// String returns the stable name.
func (v Verdict) String() string { return verdictNames[v] }

// Values of the fields that a Record does not have.
const (
	NoPort  = -1
	NoClass = 0xff // for the switch's own frames, and MAC control frames
	NoQueue = 0xff // for frames that were to enter no queue, or, flooded, several
	// NoControl is for frames without a class that are no MAC control frames.
	NoControl pfc.Kind = 0xff
)

// Record is what a capture says of a frame, beside its bytes.
type Record struct {
	At        int64  // ns, time of the worker's iteration
	Beyond    uint32 // frames of this port not captured since its last record, as in TapCount
	Full      uint32
	Length    uint16 // bytes of the frame
	Kept      uint16 // bytes of it in the capture
	Port      int32  // id (Switch.Names) of the port that received it, or was to send it
	Other     int32  // id of the egress port of a frame received, the ingress port of one sent; or NoPort
	Direction Direction
	Verdict   Verdict
	Why       drop.Reason // of a dropped frame
	Class     uint8
	Queue     uint8
	Control   pfc.Kind // of a MAC control frame

	slot uint32
}

// TapParams select the frames to capture.
type TapParams struct {
	Ports      []Direction // by port id (Switch.Names)
	Classes    uint8       // bit n: class n; of MAC control frames, the priorities that they name
	DropsOnly  bool        // only dropped frames, and MAC control frames that are ignored
	SnapLength int         // most bytes kept of a frame; 0: all
}

// TapCount counts the frames of a port that match a capture.
type TapCount struct {
	Seen   uint64 // all of them; each has a record but for
	Beyond uint64 // those beyond what a capture may copy, and
	Full   uint64 // those that found the ring full
}

// Tap is a capture at one worker: a ring of records, and a slab with a slot for the bytes of each.
// A worker without one pays for the possibility with a few comparisons per burst and one per drop.
// A worker with one never waits: frames for which the budget or the ring has no room are not
// captured. Only the goroutine that drains the tap may call Peek, Frame and Release.
//
// Sent frames are captured as they leave, received frames as they came. There are exceptions: a
// copy of a flooded frame that the priority group refuses, and with DropsOnly any frame that it
// refuses, already has the tag of its egress port.
type Tap struct {
	TapParams
	worker *Worker
	slab   *umem.Memory
	stride int // bytes from slot to slot
	ring   *ring.Ring[Record]

	// The worker's.
	ports   []tapPort // by port id
	pending []Record  // of this iteration
	burst   uint32    // number of the current burst, a multiple of tapPlaces and not 0
	// by buffer id: number of the burst that brought a received frame in it, plus the place of its
	// record in pending
	of     []uint32
	missed Record // stands for a record that was not kept
	room   int    // most records in pending
	budget int    // bytes that it may copy now
	last   int64  // ns, when budget was last added to
	next   uint32 // slot of the first of pending
}

// tapPort is a port as a capture sees it.
type tapPort struct {
	TapCount
	beyond, full uint32 // since the last record
}

// TapMemory returns how many bytes a worker's tap maps for the bytes of frames, and how many it
// takes for everything else.
func (s *Switch) TapMemory(p TapParams) (slab, rest int) {
	return tapSlots * s.tapStride(p), tapSlots*int(reflect.TypeFor[Record]().Size()) + len(s.frames)*4
}

// tapStride returns the distance from slot to slot of a slab, in bytes.
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

// NewTaps returns a tap for each worker, to be published in a plan. Close them when no worker runs
// that plan any more. Any goroutine may call it.
func (s *Switch) NewTaps(p TapParams) ([]*Tap, error) {
	p.SnapLength = s.snapLength(p)
	stride := s.tapStride(p)
	var taps []*Tap
	for _, w := range s.Workers {
		t, err := newTap(w, p, stride)
		if err != nil {
			for _, t := range taps {
				_ = t.Close() // err matters more
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
	const page = 2048 // the smallest buffer; divides every multiple of tapSlots * tapAlign
	t.slab, err = umem.Map(tapSlots*t.stride/page, page)
	return t, err
}

// Peek returns the oldest record, or nil if there is none. It consumes nothing: until Release, it
// returns the same record.
func (t *Tap) Peek() *Record {
	a, _ := t.ring.Peek(1)
	if len(a) == 0 {
		return nil
	}
	return &a[0]
}

// Frame returns the bytes that were kept of a frame. They are valid until its record is released.
func (t *Tap) Frame(r *Record) []byte {
	return t.slab.Frame(uint64(r.slot)*uint64(t.stride), uint32(r.Kept))
}

// Release frees the oldest record and its slot.
func (t *Tap) Release() { t.ring.Release(1) }

// Count returns the counts of the port with an id. Call it when no worker runs a plan with the tap
// any more.
func (t *Tap) Count(id int) TapCount { return t.ports[id].TapCount }

// Close unmaps the slab. Call it when no worker runs a plan with the tap any more and the tap is
// drained.
func (t *Tap) Close() error { return t.slab.Close() }

// watch changes over to the tap of a plan, after handing over what the one before has kept.
func (w *Worker) watch(plan *Plan) {
	if w.tap != nil {
		w.tap.turn()
	}
	w.tap = nil
	if plan.Taps != nil {
		w.tap = plan.Taps[w.index]
	}
}

// turn ends an iteration: it hands over the iteration's records, and adds to the budget for the
// time that has passed.
func (t *Tap) turn() {
	t.next += uint32(t.ring.Push(t.pending))
	t.pending = t.pending[:0]
	t.room = min(t.ring.Free(), tapBurst)
	now := t.worker.gap.Last
	t.budget, t.last = int(min(tapBudget, int64(t.budget)+(now-t.last)*tapRate)), now
}

// arrived captures the frames of a burst that the bridge has a destination for. Until settle, each
// may still be refused.
func (t *Tap) arrived(p *port, frames []bridge.Frame) {
	of := t.port(p, RX)
	if of == nil || t.DropsOnly {
		return
	}
	for i := range frames {
		f, d := &frames[i], &t.worker.burst[i&(burstSize-1)]
		if f.Out < 0 && f.Out != bridge.Flood || t.Classes>>f.Class&1 == 0 { // no destination: about to be refused
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

// settle ends a burst: its frames have been admitted or refused.
func (t *Tap) settle() {
	if t.burst += tapPlaces; t.burst == 0 { // the numbers start over: forget those of earlier bursts
		clear(t.of)
		t.burst = tapPlaces
	}
}

// decided returns the record of a received frame of the current burst, or nil if the frame did not
// match on arrival. It does so only once, because the buffer may hold another frame from now on.
func (t *Tap) decided(id uint32) *Record {
	place := t.of[id] - t.burst
	t.of[id] = 0
	switch {
	case place >= tapPlaces: // of an earlier burst
		return nil
	case place >= tapMissed: // counted, but its record was not kept
		t.missed.Verdict = Verdict(place - tapMissed)
		return &t.missed
	}
	return &t.pending[place]
}

// refused captures that a received frame was not admitted. If the frame has a record, that record
// says so from now on. A flooded frame keeps its verdict, because only a copy of it was refused,
// and the copy gets a record of its own.
func (t *Tap) refused(p *port, d *pmd.Desc, why drop.Reason, class uint8) {
	r := t.decided(t.worker.buffer(d))
	if r == nil || r.Verdict == Flooded && why != drop.NoDestination {
		t.discarded(p, d, why, class)
		return
	}
	r.Verdict, r.Why, r.Other, r.Queue = Dropped, why, NoPort, NoQueue
}

// discarded captures a received frame of which the switch dropped all or a copy.
func (t *Tap) discarded(p *port, d *pmd.Desc, why drop.Reason, class uint8) {
	t.ended(p, d, Dropped, why, class)
}

// punted captures a received frame for the control plane.
func (t *Tap) punted(p *port, d *pmd.Desc, class uint8) {
	if !t.DropsOnly {
		t.ended(p, d, Punted, 0, class)
	}
}

// ended captures a received frame that goes to no port.
func (t *Tap) ended(p *port, d *pmd.Desc, verdict Verdict, why drop.Reason, class uint8) {
	if of := t.port(p, RX); of != nil && t.Classes>>class&1 != 0 && t.spend(of, d.Len) {
		r := t.keep(of, d.Addr, d.Len)
		r.Port, r.Direction, r.Verdict, r.Why, r.Class = int32(p.id), RX, verdict, why, class
		r.Other, r.Queue = NoPort, NoQueue
	}
}

// dropped captures an admitted frame that is dropped at its egress port.
func (t *Tap) dropped(out *port, id uint32, why drop.Reason) {
	t.decided(id)
	if of := t.port(out, TX); of != nil {
		t.leaving(of, out, id, Dropped, why)
	}
}

// sent captures the frames that a port's driver has taken. It is not inlined, since that would
// burden transmit without a capture too.
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
func (t *Tap) leaving(of *tapPort, out *port, id uint32, verdict Verdict, why drop.Reason) {
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

// control captures a MAC control frame, received or of the switch's own. Its classes, for the
// filter, are those that it stops or resumes, or all if it names none.
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

// injected captures a frame of the control plane. It has no class, so no choice of classes excludes
// it.
func (t *Tap) injected(p *port, d *pmd.Desc) {
	if of := t.port(p, TX); of != nil && !t.DropsOnly && t.spend(of, d.Len) {
		r := t.keep(of, d.Addr, d.Len)
		r.Port, r.Direction, r.Verdict, r.Control = int32(p.id), TX, Originated, NoControl
		r.Class, r.Queue, r.Other = NoClass, NoQueue, NoPort
	}
}

// port returns the counts of a port, or nil if the port is not captured in that direction or joined
// the switch after the tap.
func (t *Tap) port(p *port, direction Direction) *tapPort {
	if uint(p.id) >= uint(len(t.Ports)) || t.Ports[p.id]&direction == 0 {
		return nil
	}
	return &t.ports[p.id]
}

// spend counts a frame that matches. It reports whether there is room for it, and takes its cost
// from the budget.
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

// keep copies a frame that spend has found room for, and returns its record for the caller to fill
// in.
func (t *Tap) keep(of *tapPort, addr uint64, length uint32) *Record {
	n := len(t.pending)
	t.pending = t.pending[:n+1]
	r := &t.pending[n]
	*r = Record{
		At: t.worker.gap.Last, Beyond: of.beyond, Full: of.full, Length: uint16(length),
		Kept: uint16(min(int(length), t.SnapLength)),
		slot: (t.next + uint32(n)) & (tapSlots - 1),
	}
	of.beyond, of.full = 0, 0
	copy(t.Frame(r), t.worker.memory.Frame(addr, uint32(r.Kept)))
	return r
}
