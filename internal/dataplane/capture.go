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
	// its length; so it takes a bounded part of a worker's time. It may save up to tapBudget: what a burst of full frames needs that
	// comes in and leaves in one iteration, and so the bound on what a capture makes one longer. Frames beyond that are not captured.
	tapRate     = 1 // bytes a ns
	tapBudget   = 192 << 10
	tapOverhead = 64
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
	next    uint32    // slot of the first of pending
}

// tapPort is a port as a capture sees it.
type tapPort struct {
	TapCount
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
	for i := range t.ports {
		t.ports[i].wanted = p.Ports[i]
	}
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
	}
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
	if t.DropsOnly {
		return
	}
	for i := range frames {
		f, d := &frames[i], &t.worker.burst[i]
		r := Record{Port: uint16(p.number), Direction: RX, Class: f.Class, Queue: NoQueue, Other: NoPort, buffer: t.worker.buffer(d)}
		switch {
		case f.Out >= 0:
			r.Verdict, r.Other, r.Queue = Forwarded, int16(f.Out), f.Class
		case f.Out == bridge.Flood:
			r.Verdict = Flooded
		default:
			continue // about to be refused
		}
		if i := len(t.pending); t.keep(r, 1<<f.Class, d.Addr, d.Len) {
			t.of[r.buffer] = uint16(i)
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
	id := t.worker.buffer(d)
	if r := t.undecided(id); r != nil && (r.Verdict == Forwarded || r.Verdict == Flooded && why == DropNoDestination) {
		r.Verdict, r.Why = Dropped, why
		return
	}
	t.keep(Record{
		Port: uint16(p.number), Direction: RX, Verdict: Dropped, Why: why, Class: class, Queue: NoQueue, Other: NoPort,
	}, 1<<class, d.Addr, d.Len)
}

// uncopied captures a flooded frame of which a copy found no buffer.
func (t *Tap) uncopied(p *port, d *pmd.Desc, class uint8) {
	t.keep(Record{
		Port: uint16(p.number), Direction: RX, Verdict: Dropped, Why: DropNoBuffer, Class: class, Queue: NoQueue, Other: NoPort,
	}, 1<<class, d.Addr, d.Len)
}

// dropped captures a frame that was admitted and is dropped at the port that it was bound for.
func (t *Tap) dropped(out *port, id uint32, why Drop) {
	if r := t.undecided(id); r != nil {
		r.buffer = ^r.buffer // it was admitted; whatever is in that buffer next is another frame
	}
	t.leaving(out, id, Dropped, why)
}

// sent captures the frames that the driver of a port has taken. Inlined, it would add to transmit what there is without a capture.
//
//go:noinline
func (t *Tap) sent(p *port, n int) {
	if t.DropsOnly {
		return
	}
	for _, id := range t.worker.ids[:n] {
		t.leaving(p, id, Forwarded, 0)
	}
}

// leaving captures an admitted frame at its egress port.
func (t *Tap) leaving(out *port, id uint32, verdict Verdict, why Drop) {
	f := &t.worker.frames[id]
	class := f.priority()
	t.keep(Record{
		Port: uint16(out.number), Direction: TX, Verdict: verdict, Why: why, Class: class, Queue: f.queue, Other: int16(f.in()),
	}, 1<<class, uint64(id)<<t.worker.shift+uint64(f.offset), uint32(f.length))
}

// control captures a MAC control frame, received or of the switch's own. For the filter it has the classes that it stops or
// resumes; all, if it does not say.
func (t *Tap) control(p *port, d *pmd.Desc, direction Direction) {
	var f pfc.Frame
	kind, _ := pfc.Decode(t.worker.memory.Frame(d.Addr, d.Len), &f)
	classes := f.Enable
	if kind != pfc.PFC {
		classes = allPriorities
	}
	verdict := Originated
	if direction == RX {
		if verdict = Consumed; kind != p.signals.obeys || kind == pfc.Malformed {
			verdict = Ignored
		}
	}
	t.keep(Record{
		Port: uint16(p.number), Direction: direction, Verdict: verdict, Class: NoClass, Queue: NoQueue, Other: NoPort, Control: kind,
	}, classes, d.Addr, d.Len)
}

// keep keeps a record, and of its frame what is asked for, if that is asked for and there is room.
func (t *Tap) keep(r Record, classes uint8, addr uint64, length uint32) bool {
	if int(r.Port) >= len(t.ports) { // joined the switch after the capture began
		return false
	}
	p := &t.ports[r.Port]
	if p.wanted&r.Direction == 0 || t.Classes&classes == 0 || t.DropsOnly && r.Verdict != Dropped && r.Verdict != Ignored {
		return false
	}
	p.Seen++
	kept := min(int(length), t.SnapLength)
	if len(t.pending) >= t.room {
		p.Full++
		p.lost++
		return false
	}
	if t.budget < tapOverhead+kept {
		p.Beyond++
		p.lost++
		return false
	}
	t.budget -= tapOverhead + kept
	r.At, r.Length, r.Kept, r.Lost = t.worker.gap.last, uint16(length), uint16(kept), p.lost
	r.slot = (t.next + uint32(len(t.pending))) & (tapSlots - 1)
	p.lost = 0
	t.pending = append(t.pending, r)
	copy(t.Frame(&r), t.worker.memory.Frame(addr, uint32(kept)))
	return true
}
