package dataplane

import (
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/tap"
	"sluice/pfc"
	"sluice/pmd"
)

const (
	// tapPlaces separates the number of a burst, which is a multiple of it, from a place in
	// Tap.Kept. The last two places stand for received frames that were not kept: forwarded ones
	// and flooded ones.
	tapPlaces = 1 << 10
	tapMissed = tapPlaces - 2
)

// Tap is a capture at one worker, which is its writer. A worker without one pays for the
// possibility with a few comparisons per burst and one per drop.
//
// Sent frames are captured as they leave, received frames as they came. There are exceptions: a
// copy of a flooded frame that the priority group refuses, and with DropsOnly any frame that it
// refuses, already has the tag of its egress port.
type Tap struct {
	*tap.Tap
	worker *Worker
	burst  uint32 // number of the current burst, a multiple of tapPlaces and not 0
	// by buffer id: number of the burst that brought a received frame in it, plus the place of its
	// record in Kept
	of     []uint32
	missed tap.Record // stands for a record that was not kept
}

// TapMemory returns how many bytes a worker's tap maps for the bytes of frames, and how many it
// takes for everything else.
func (s *Switch) TapMemory(p tap.Params) (slab, rest int) {
	p.SnapLength = s.snapLength(p)
	slab, rest = tap.Memory(&p, tap.Slots)
	return slab, rest + len(s.frames)*4
}

// snapLength returns how many bytes are kept of a frame.
func (s *Switch) snapLength(p tap.Params) int {
	if most := int(s.longest.Load()); p.SnapLength <= 0 || p.SnapLength > most {
		return most
	}
	return p.SnapLength
}

// NewTaps returns a tap for each worker, to be published in a plan. With a SnapLength of 0 they
// keep frames whole. Close them when no worker runs that plan any more. Any goroutine may call it.
func (s *Switch) NewTaps(p tap.Params) ([]*Tap, error) {
	p.SnapLength = s.snapLength(p)
	var taps []*Tap
	for _, w := range s.Workers {
		t, err := tap.New(p, tap.Slots)
		if err != nil {
			for _, t := range taps {
				_ = t.Close() // err matters more
			}
			return nil, err
		}
		taps = append(taps, &Tap{Tap: t, worker: w, burst: tapPlaces, of: make([]uint32, len(w.frames))})
	}
	return taps, nil
}

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

// turn ends an iteration.
func (t *Tap) turn() { t.Turn(t.worker.gap.Last) }

// arrived captures the frames of a burst that the bridge has a destination for. Until settle, each
// may still be refused.
func (t *Tap) arrived(p *port, frames []bridge.Frame) {
	of := t.port(p, tap.RX)
	if of == nil || t.DropsOnly {
		return
	}
	for i := range frames {
		f, d := &frames[i], &t.worker.burst[i&(burstSize-1)]
		if f.Out < 0 && f.Out != bridge.Flood || t.Classes>>f.Class&1 == 0 { // no destination: about to be refused
			continue
		}
		verdict, place := tap.Forwarded, &t.of[t.worker.buffer(d)]
		if f.Out == bridge.Flood {
			verdict = tap.Flooded
		}
		if !t.Spend(of, d.Len) {
			*place = t.burst + tapMissed + uint32(verdict)
			continue
		}
		*place = t.burst + uint32(len(t.Kept()))
		r := t.keep(of, d)
		r.Port, r.Direction, r.Verdict, r.Class = p.id, tap.RX, verdict, f.Class
		r.Other, r.Queue = tap.NoPort, tap.NoQueue
		if verdict == tap.Forwarded {
			r.Other, r.Queue = t.worker.ports[f.Out].id, f.Class
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
func (t *Tap) decided(id uint32) *tap.Record {
	place := t.of[id] - t.burst
	t.of[id] = 0
	switch {
	case place >= tapPlaces: // of an earlier burst
		return nil
	case place >= tapMissed: // counted, but its record was not kept
		t.missed.Verdict = tap.Verdict(place - tapMissed)
		return &t.missed
	}
	return &t.Kept()[place]
}

// refused captures that a received frame was not admitted. If the frame has a record, that record
// says so from now on. A flooded frame keeps its verdict, because only a copy of it was refused,
// and the copy gets a record of its own.
func (t *Tap) refused(p *port, d *pmd.Desc, why drop.Reason, class uint8) {
	r := t.decided(t.worker.buffer(d))
	if r == nil || r.Verdict == tap.Flooded && why != drop.NoDestination {
		t.discarded(p, d, why, class)
		return
	}
	r.Verdict, r.Why, r.Other, r.Queue = tap.Dropped, why, tap.NoPort, tap.NoQueue
}

// discarded captures a received frame of which the switch dropped all or a copy.
func (t *Tap) discarded(p *port, d *pmd.Desc, why drop.Reason, class uint8) {
	t.ended(p, d, tap.Dropped, why, class)
}

// punted captures a received frame for the control plane.
func (t *Tap) punted(p *port, d *pmd.Desc, class uint8) {
	if !t.DropsOnly {
		t.ended(p, d, tap.Punted, 0, class)
	}
}

// ended captures a received frame that goes to no port.
func (t *Tap) ended(p *port, d *pmd.Desc, verdict tap.Verdict, why drop.Reason, class uint8) {
	if of := t.port(p, tap.RX); of != nil && t.Classes>>class&1 != 0 && t.Spend(of, d.Len) {
		r := t.keep(of, d)
		r.Port, r.Direction, r.Verdict, r.Why, r.Class = p.id, tap.RX, verdict, why, class
		r.Other, r.Queue = tap.NoPort, tap.NoQueue
	}
}

// dropped captures an admitted frame that is dropped at its egress port.
func (t *Tap) dropped(out *port, id uint32, why drop.Reason) {
	t.decided(id)
	if of := t.port(out, tap.TX); of != nil {
		t.leaving(of, out, id, tap.Dropped, why)
	}
}

// sent captures the frames that a port's driver has taken. It is not inlined, since that would
// burden transmit without a capture too.
//
//go:noinline
func (t *Tap) sent(p *port, n int) {
	of := t.port(p, tap.TX)
	if of == nil || t.DropsOnly {
		return
	}
	for _, id := range t.worker.ids[:n] {
		t.leaving(of, p, id, tap.Forwarded, 0)
	}
}

// leaving captures an admitted frame at its egress port.
func (t *Tap) leaving(of *tap.Port, out *port, id uint32, verdict tap.Verdict, why drop.Reason) {
	f := t.worker.frames[id]
	class := f.Priority()
	if t.Classes>>class&1 == 0 || !t.Spend(of, uint32(f.Length())) {
		return
	}
	d := t.worker.descriptor(id)
	r := t.keep(of, &d)
	r.Port, r.Direction, r.Verdict, r.Why = out.id, tap.TX, verdict, why
	r.Class, r.Queue, r.Other = class, f.Queue(), t.worker.ports[f.In()].id
}

// control captures a MAC control frame, received or of the switch's own. Its classes, for the
// filter, are those that it stops or resumes, or all if it names none.
func (t *Tap) control(p *port, d *pmd.Desc, direction tap.Direction) {
	var f pfc.Frame
	b := t.worker.bytes(d)
	kind, _ := pfc.Decode(b, &f)
	classes, verdict := f.Enable, tap.Originated
	if kind != pfc.PFC || classes == 0 {
		classes = allPriorities
	}
	if direction == tap.RX {
		if verdict = tap.Consumed; kind != p.flow.obeys || kind == pfc.Malformed {
			verdict = tap.Ignored
		}
	}
	of := t.port(p, direction)
	if of == nil || t.Classes&classes == 0 || t.DropsOnly && verdict != tap.Ignored || !t.Spend(of, d.Len) {
		return
	}
	r := t.keep(of, d)
	r.Port, r.Direction, r.Verdict, r.Control = p.id, direction, verdict, kind
	r.Class, r.Queue, r.Other = tap.NoClass, tap.NoQueue, tap.NoPort
}

// injected captures a frame of the control plane. It has no class, so no choice of classes excludes
// it.
func (t *Tap) injected(p *port, d *pmd.Desc) {
	if of := t.port(p, tap.TX); of != nil && !t.DropsOnly && t.Spend(of, d.Len) {
		r := t.keep(of, d)
		r.Port, r.Direction, r.Verdict, r.Control = p.id, tap.TX, tap.Originated, tap.NoControl
		r.Class, r.Queue, r.Other = tap.NoClass, tap.NoQueue, tap.NoPort
	}
}

// port returns the counts of a port, or nil if it is not captured in that direction.
func (t *Tap) port(p *port, direction tap.Direction) *tap.Port { return t.Port(p.id, direction) }

// keep copies a frame that Spend has found room for, and returns its record for the caller to fill
// in.
func (t *Tap) keep(of *tap.Port, d *pmd.Desc) *tap.Record {
	if d.Options == 0 {
		return t.Keep(of, t.worker.gap.Last, t.worker.memory.Frame(d.Addr, d.Len))
	}
	r := t.Begin(of, t.worker.gap.Last, int(d.Len))
	t.worker.parts.Gather(t.Frame(r), d)
	return r
}
