// Package tap carries captured frames to the goroutine that makes a file of them. The writer of a
// Tap is a worker of the dataplane or the control plane. It never waits: frames for which the
// budget or the ring has no room are counted, and not captured.
package tap

import (
	"fmt"
	"reflect"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/ring"
)

const (
	// Slots is the most frames of a worker that wait to be drained: at a million frames a second,
	// 16 ms of them.
	Slots = 1 << 14
	// A writer copies at most rate bytes per ns. Each frame counts Overhead bytes more, for its
	// cost at any length. So a capture takes a bounded part of a worker's time. It may save up to
	// MaxBudget, which bounds by how much it extends an iteration: that time is part of the
	// response that the headroom covers. docs/capture.md has measurements of both.
	rate      = 1 // bytes per ns
	MaxBudget = 96 << 10
	Overhead  = 192
	Burst     = MaxBudget / Overhead // most frames kept between two Turns
	align     = 64                   // bytes: slots begin at cache lines
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
	Dropped                  // for the reason in Record.Why, or in Record.Refusal
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
	At        int64  // ns, time of the writer
	Beyond    uint32 // frames of this port not captured since its last record, as in Count
	Full      uint32
	Length    uint32        // bytes of the frame
	Kept      uint16        // bytes of it in the capture
	Port      bridge.PortID // that received it, or was to send it
	Other     bridge.PortID // the egress port of a frame received, the ingress port of one sent; or NoPort
	Direction Direction
	Verdict   Verdict
	Why       drop.Reason // of a dropped frame
	Class     uint8
	Queue     uint8
	Control   pfc.Kind // of a MAC control frame
	// Refusal is why the control plane did not forward a frame that it had received; it then
	// replaces Why.
	Refusal string

	slot uint32
}

// Reason returns the stable name of the reason for which a frame was dropped.
func (r *Record) Reason() string {
	if r.Refusal != "" {
		return r.Refusal
	}
	return r.Why.String()
}

// Params select the frames to capture.
type Params struct {
	Ports      []Direction // by place of a port's id; other ports in the same place must not come
	Classes    uint8       // bit n: class n; of MAC control frames, the priorities that they name
	DropsOnly  bool        // only dropped frames, and MAC control frames that are ignored
	SnapLength int         // most bytes kept of a frame
}

// Count counts the frames of a port that match a capture.
type Count struct {
	Seen   uint64 // all of them; each has a record but for
	Beyond uint64 // those beyond what a capture may copy, and
	Full   uint64 // those that found the ring full
}

// Tap is a ring of records, and a slab with a slot for the bytes of each. Only the goroutine that
// drains the tap may call Peek, Frame and Release, and only the writer Turn, Port, Spend, Keep,
// Kept and Refuse.
type Tap struct {
	Params
	slab   *umem.Memory
	stride int // bytes from slot to slot
	ring   *ring.Ring[Record]

	// The writer's.
	ports   []Port   // like Params.Ports
	pending []Record // since the last Turn
	room    int      // most records in pending
	next    uint32   // slot of the first of pending
	// Budget is how many bytes may be copied now, as of the time Last, in ns.
	Budget int
	Last   int64
}

// Port is a port as a capture sees it.
type Port struct {
	Count
	beyond, full uint32 // since the last record
}

// Memory returns how many bytes a tap maps for the bytes of frames, and how many it takes for its
// records.
func Memory(p *Params, slots int) (slab, records int) {
	return slots * stride(p), slots * int(reflect.TypeFor[Record]().Size())
}

func stride(p *Params) int { return (p.SnapLength + align - 1) &^ (align - 1) }

// New returns a tap for up to so many records: a power of two, at least 32. Close it when it is
// drained and has no writer any more.
func New(p Params, slots int) (t *Tap, err error) {
	t = &Tap{Params: p, stride: stride(&p), Budget: MaxBudget, room: min(slots, Burst)}
	t.ports, t.pending = make([]Port, len(p.Ports)), make([]Record, 0, t.room)
	if t.ring, err = ring.New[Record](slots); err == nil {
		const page = 2048 // the smallest buffer; divides every multiple of 32 * align
		t.slab, err = umem.Map(slots*t.stride/page, page)
	}
	if err != nil {
		return nil, fmt.Errorf("tap: memory for a capture: %w", err)
	}
	return t, nil
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

// CountOf returns the counts of the port with an id. Call it when the tap has no writer any more.
func (t *Tap) CountOf(id bridge.PortID) Count { return t.ports[id.Place()].Count }

// Close unmaps the slab. Call it when the tap has no writer any more and is drained.
func (t *Tap) Close() error { return t.slab.Close() }

// Turn hands over the records kept since the last one, and adds to the budget for the time that has
// passed. now, in ns, never goes back.
func (t *Tap) Turn(now int64) {
	t.next += uint32(t.ring.Push(t.pending))
	t.pending = t.pending[:0]
	t.room = min(t.ring.Free(), Burst)
	t.Budget, t.Last = int(min(MaxBudget, int64(t.Budget)+(now-t.Last)*rate)), now
}

// Port returns the counts of a port, or nil if the port is not captured in that direction or joined
// the switch after the tap.
func (t *Tap) Port(id bridge.PortID, direction Direction) *Port {
	at := id.Place()
	if at >= len(t.Ports) || t.Ports[at]&direction == 0 {
		return nil
	}
	return &t.ports[at]
}

// Spend counts a frame that matches. It reports whether there is room for it, and takes its cost
// from the budget.
func (t *Tap) Spend(of *Port, length uint32) bool {
	of.Seen++
	cost := Overhead + min(int(length), t.SnapLength)
	switch {
	case len(t.pending) >= t.room:
		of.Full++
		of.full++
	case cost > t.Budget:
		of.Beyond++
		of.beyond++
	default:
		t.Budget -= cost
		return true
	}
	return false
}

// Keep copies a frame that Spend has found room for, and returns its record for the caller to fill
// in, until the next Turn.
func (t *Tap) Keep(of *Port, now int64, frame []byte) *Record {
	r := t.Begin(of, now, len(frame))
	copy(t.Frame(r), frame)
	return r
}

// Begin is Keep without the bytes: the caller copies them to Frame, as many as that has room for.
func (t *Tap) Begin(of *Port, now int64, length int) *Record {
	n := len(t.pending)
	t.pending = t.pending[:n+1]
	r := &t.pending[n]
	*r = Record{
		At: now, Beyond: of.beyond, Full: of.full, Length: uint32(length), Kept: uint16(min(length, t.SnapLength)),
		slot: (t.next + uint32(n)) & uint32(t.ring.Cap()-1),
	}
	of.beyond, of.full = 0, 0
	return r
}

// Kept returns the records since the last Turn.
func (t *Tap) Kept() []Record { return t.pending }

// Refuse captures that the control plane does not forward a frame, and hands the record over. id is
// that of the port that received the frame.
func (t *Tap) Refuse(now int64, id bridge.PortID, class uint8, refusal string, frame []byte) {
	t.Turn(now)
	of := t.Port(id, RX)
	if of == nil || t.Classes>>class&1 == 0 || !t.Spend(of, uint32(len(frame))) {
		return
	}
	r := t.Keep(of, now, frame)
	r.Port, r.Direction, r.Verdict, r.Refusal = id, RX, Dropped, refusal
	r.Class, r.Other, r.Queue = class, NoPort, NoQueue
	t.Turn(now)
}
