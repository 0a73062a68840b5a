package dataplane

import (
	"fmt"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/ring"
)

const (
	// tapSlots is how many frames of a worker wait to be drained at the most: at a million a second, 16 ms without a drain.
	tapSlots = 1 << 14
	// A capture may copy tapRate bytes for each ns that passes, each frame counting tapOverhead more for what it costs whatever
	// its length; so it takes a bounded part of a worker's time. It may save up to tapBudget, which bounds by how much it makes
	// an iteration longer: that time is a part of the response that headroom is for. docs/capture.md has both measured.
	tapRate     = 1 // bytes a ns
	tapBudget   = 96 << 10
	tapOverhead = 192
	tapBurst    = tapBudget / tapOverhead // frames kept in an iteration at the most
	tapAlign    = 64                      // bytes: slots begin where cache lines do
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
	Forwarded  Verdict = iota // received: admitted for one port; sent: given to the driver
	Flooded                   // received: copied to the other members of its VLAN
	Dropped                   // under a name
	Consumed                  // a MAC control frame that the port obeys
	Ignored                   // a MAC control frame that it does not: malformed, unknown, or of another flow control
	Originated                // a MAC control frame of the switch's own
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
	Lost      uint32 // frames of this port that the worker has not captured, though they were asked for, since the record before
	Length    uint16 // bytes of the frame
	Kept      uint16 // bytes of it in the capture
	Port      uint16 // where it came in, or was to go out
	Other     int16  // port that a forwarded frame goes to, or that one sent came from; NoPort
	Direction Direction
	Verdict   Verdict
	Why       Drop // of a dropped frame
	Class     uint8
	Queue     uint8
	Control   pfc.Kind // of a MAC control frame

	slot, buffer uint32
}

// TapParams say which frames are captured.
type TapParams struct {
	Ports      []Direction // by port number
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

// Tap is a capture at one worker: a ring of records and a slab with a slot for each one's bytes. A worker whose plan has none
// pays for that possibility one comparison a burst; with one it never waits: what its budget or the ring
// has no room for is not captured. Peek, Frame and Release are for one goroutine, which drains it.
//
// What is sent is as it leaves. What is received is as it came; but where drops alone are captured, a frame that its priority
// group refuses has got the tag that its egress port would have sent it with.
type Tap struct {
	TapParams
	worker *Worker
	slab   *cells.Memory
	stride int // bytes from slot to slot
	ring   *ring.Ring[Record]

	// The worker's.
	ports   []tapPort // by number
	pending []Record  // of this iteration
	burst   int       // of pending: from here on, received frames of which it is not decided that they are admitted
	of      []uint16  // by buffer id: where in pending the received frame in it is, if it is there
	room    int       // for pending
	budget  int       // bytes that may be copied now
	last    int64     // ns, when that was last added to
	met     bool      // the ports have their names
	next    uint32    // slot of the first of pending
}

// tapPort is a port as a capture sees it.
type tapPort struct {
	TapCount
	name   string
	wanted Direction
	lost   uint32 // since the last record
}

// NewTaps returns a tap for each worker, to be published in a plan. They must be closed when no worker runs that plan any more.
func (s *Switch) NewTaps(p TapParams) ([]*Tap, error) {
	if most := s.params.Memory.BufferSize(); p.SnapLength <= 0 || p.SnapLength > most {
		p.SnapLength = most
	}
	var taps []*Tap
	for _, w := range s.Workers {
		t, err := newTap(w, p)
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

func newTap(w *Worker, p TapParams) (t *Tap, err error) {
	t = &Tap{TapParams: p, worker: w, stride: (p.SnapLength + tapAlign - 1) &^ (tapAlign - 1), budget: tapBudget, room: tapBurst}
	t.ports, t.pending, t.of = make([]tapPort, len(p.Ports)), make([]Record, 0, tapBurst), make([]uint16, len(w.frames))
	if t.ring, err = ring.New[Record](tapSlots); err != nil {
		return nil, err
	}
	const page = 2048 // the smallest buffer; a multiple of tapSlots * tapAlign has no rest
	t.slab, err = cells.Map(tapSlots*t.stride/page, page)
	return t, err
}

// Peek returns the oldest record, nil if there is none. It changes nothing: until Release, it returns the same one.
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

// Count returns what was counted at a port, when no worker runs a plan with the tap any more.
func (t *Tap) Count(port int) TapCount { return t.ports[port].TapCount }

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
		w.tap.meet(w.ports)
	}
}

// meet notes which ports have the numbers that are captured, when the capture begins. Later it leaves out a number that
// another port has, or none, until the first has it again.
func (t *Tap) meet(ports []*port) {
	for i := range t.ports {
		of, p := &t.ports[i], ports[i]
		if !t.met { // a number may have become vacant since the capture was asked for: it has no name then
			of.name = p.Name
		}
		if of.wanted = 0; of.name == p.Name && !p.Vacant {
			of.wanted = t.Ports[i]
		}
	}
	t.met = true
}

// turn ends an iteration: what was kept in it is handed over, and there is new budget for the time that it took.
func (t *Tap) turn() {
	t.next += uint32(t.ring.Push(t.pending))
	t.pending, t.burst = t.pending[:0], 0
	t.room = min(t.ring.Free(), tapBurst)
	now := t.worker.gap.last
	t.budget, t.last = int(min(tapBudget, int64(t.budget)+(now-t.last)*tapRate)), now
}

// arrived captures the frames of a burst for which the bridge has found a way. Until settle, each may still be refused.
func (t *Tap) arrived(p *port, frames []bridge.Frame) {
	t.settle()
	of := t.port(p, RX)
	if of == nil || t.DropsOnly {
		return
	}
	for i := range frames {
		f, d := &frames[i], &t.worker.burst[i&(burstSize-1)]
		if f.Out < 0 && f.Out != bridge.Flood || t.Classes>>f.Class&1 == 0 || !t.spend(of, d.Len) { // the first is about to be refused
			continue
		}
		id := t.worker.buffer(d)
		t.of[id] = uint16(len(t.pending))
		r := t.keep(of, d.Addr, d.Len)
		r.Port, r.Direction, r.Class, r.buffer = uint16(p.number), RX, f.Class, id
		if f.Out == bridge.Flood {
			r.Verdict, r.Other, r.Queue = Flooded, NoPort, NoQueue
		} else {
			r.Verdict, r.Other, r.Queue = Forwarded, int16(f.Out), f.Class
		}
	}
}

// settle ends a burst: what was received has been admitted or refused.
func (t *Tap) settle() { t.burst = len(t.pending) }

// undecided returns the record of a received frame of the burst in hand, nil if there is none.
func (t *Tap) undecided(id uint32) *Record {
	if i := int(t.of[id]); i >= t.burst && i < len(t.pending) && t.pending[i].buffer == id && t.pending[i].Direction == RX {
		return &t.pending[i]
	}
	return nil
}

// refused captures that a received frame was not admitted. If there is a record of it, that says so from now on. A flooded frame
// has been flooded all the same; what was refused is one of its copies.
func (t *Tap) refused(p *port, d *pmd.Desc, why Drop, class uint8) {
	r := t.undecided(t.worker.buffer(d))
	if r != nil && (r.Verdict == Forwarded || r.Verdict == Flooded && why == DropNoDestination) {
		r.Verdict, r.Why = Dropped, why
		return
	}
	t.discarded(p, d, why, class)
}

// discarded captures a received frame that was dropped, or of which a copy was.
func (t *Tap) discarded(p *port, d *pmd.Desc, why Drop, class uint8) {
	if of := t.port(p, RX); of != nil && t.Classes>>class&1 != 0 && t.spend(of, d.Len) {
		r := t.keep(of, d.Addr, d.Len)
		r.Port, r.Direction, r.Verdict, r.Why, r.Class = uint16(p.number), RX, Dropped, why, class
		r.Queue, r.Other = NoQueue, NoPort
	}
}

// dropped captures a frame that was admitted and is dropped at the port that it was bound for.
func (t *Tap) dropped(out *port, id uint32, why Drop) {
	if r := t.undecided(id); r != nil {
		r.buffer = ^r.buffer // it was admitted; whatever is in that buffer next is another frame
	}
	if of := t.port(out, TX); of != nil {
		t.leaving(of, out, id, Dropped, why)
	}
}

// sent captures the frames that the driver of a port has taken. Inlined, it would add to transmit what there is without a capture.
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
	f := &t.worker.frames[id]
	class := f.priority()
	if t.Classes>>class&1 == 0 || !t.spend(of, uint32(f.length)) {
		return
	}
	d := t.worker.descriptor(id)
	r := t.keep(of, d.Addr, d.Len)
	r.Port, r.Direction, r.Verdict, r.Why = uint16(out.number), TX, verdict, why
	r.Class, r.Queue, r.Other = class, f.queue, int16(f.in())
}

// control captures a MAC control frame, received or of the switch's own. For the filter it has the classes that it stops or
// resumes; all, if it does not say.
func (t *Tap) control(p *port, d *pmd.Desc, direction Direction) {
	var f pfc.Frame
	kind, _ := pfc.Decode(t.worker.memory.Frame(d.Addr, d.Len), &f)
	classes, verdict := f.Enable, Originated
	if kind != pfc.PFC {
		classes = allPriorities
	}
	if direction == RX {
		if verdict = Consumed; kind != p.signals.obeys || kind == pfc.Malformed {
			verdict = Ignored
		}
	}
	of := t.port(p, direction)
	if of == nil || t.Classes&classes == 0 || t.DropsOnly && verdict != Ignored || !t.spend(of, d.Len) {
		return
	}
	r := t.keep(of, d.Addr, d.Len)
	r.Port, r.Direction, r.Verdict, r.Control = uint16(p.number), direction, verdict, kind
	r.Class, r.Queue, r.Other = NoClass, NoQueue, NoPort
}

// port returns what is counted at a port, nil if it is not captured in that direction, or joined the switch later than the tap.
func (t *Tap) port(p *port, direction Direction) *tapPort {
	if p.number >= len(t.ports) || t.ports[p.number].wanted&direction == 0 {
		return nil
	}
	return &t.ports[p.number]
}

// spend counts a frame that was asked for. It tells whether there is room for it, and takes what it costs from the budget.
func (t *Tap) spend(of *tapPort, length uint32) bool {
	of.Seen++
	cost := tapOverhead + min(int(length), t.SnapLength)
	switch {
	case len(t.pending) >= t.room:
		of.Full++
	case cost > t.budget:
		of.Beyond++
	default:
		t.budget -= cost
		return true
	}
	of.lost++
	return false
}

// keep copies a frame for which spend has found room and returns its record, which is to be filled in.
func (t *Tap) keep(of *tapPort, addr uint64, length uint32) *Record {
	n := len(t.pending)
	t.pending = t.pending[:n+1]
	r := &t.pending[n]
	*r = Record{
		At: t.worker.gap.last, Lost: of.lost, Length: uint16(length), Kept: uint16(min(int(length), t.SnapLength)),
		slot: (t.next + uint32(n)) & (tapSlots - 1),
	}
	of.lost = 0
	copy(t.Frame(r), t.worker.memory.Frame(addr, uint32(r.Kept)))
	return r
}
