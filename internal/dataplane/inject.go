package dataplane

import (
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/punt"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pmd"
)

const (
	// InjectBuffers is the number of buffers that a port keeps for frames of the control plane.
	InjectBuffers = 4
	// OwnBuffers is the number of buffers that a port keeps, beside PortParams.Buffers, for the
	// switch's own frames. They depend on no parameter, so a reload can't need more.
	OwnBuffers = ControlBuffers + InjectBuffers
	// injectSlots is how many frames of the control plane may wait at a port: enough that FIP,
	// which the control plane forwards every 2 ms, leaves a port as fast as it may come in
	// (punt.SubscribeFIP).
	injectSlots = 64
)

// injection is what a port has for frames of the control plane. Like PFC frames, they are charged
// to no group and wait in no queue.
type injection struct {
	waiting *punt.Injector // of Switch.Inject; nil: no port has the number; never changes
	pausing *punt.Injector // likewise, of Switch.Forward: PFC holds its frames
	spare   umem.Spares    // buffers for them
}

// openGates leads the control plane, and virtual links, to the ports of a generation. Its ports
// keep the injectors that they had; a port that leaves takes its injector with it, and what waits
// there is dropped. So no port can send frames that were meant for another one with its number.
func (s *Switch) openGates(g *Generation) {
	gates, pausing := make(map[bridge.PortID]punt.Gate), make(map[bridge.PortID]punt.Gate)
	for i, part := range g.parts {
		for _, p := range part.own {
			if !p.Vacant {
				gate := punt.Gate{Injector: p.injection.waiting, Wanted: &s.Workers[i].injected,
					Longest: min(p.MaxFrame, s.params.Memory.BufferSize())}
				gates[p.id], gate.Injector = gate, p.injection.pausing
				pausing[p.id] = gate
			}
		}
	}
	s.gates.Set(gates)
	s.pausing.Set(pausing)
	_ = s.link(s.linked, g) // links that were valid still are
}

// Inject sends a frame of the control plane at the port with an id: as it is, before all frames in
// the port's queues, and even if they are paused or limited by a shaper. Only PFC frames go first,
// and only PAUSE (LinkPause) holds it. It reports false if there is no such port, if the frame is
// longer than PortParams.MaxFrame or shorter than an Ethernet header, or if 64 frames wait there. A
// frame for a port without a link is dropped. PortCounters counts what became of the others. Any
// goroutine may call Inject.
func (s *Switch) Inject(port bridge.PortID, frame []byte) bool {
	return s.gates.Inject(port, frame) == nil
}

// inject sends a frame of the control plane at each port where one waits and has room.
func (w *Worker) inject(now int64) int {
	if !w.injected.Load() {
		return 0
	}
	return w.injectWaiting(now)
}

// injectWaiting asks all ports. A frame that comes meanwhile sets the flag again.
func (w *Worker) injectWaiting(now int64) (frames int) {
	w.injected.Store(false)
	for _, p := range w.own {
		for _, waiting := range [2]*punt.Injector{p.injection.waiting, p.injection.pausing} {
			if waiting == nil {
				continue
			}
			if b := waiting.Peek(); b != nil && w.injectAt(p, b, waiting == p.injection.pausing, now) {
				waiting.Release()
				frames++
			}
			if waiting.Len() > 0 {
				w.injected.Store(true)
			}
		}
	}
	return frames
}

// holds reports whether the port's peer holds a frame of the control plane: with PAUSE any frame,
// with PFC one that pauses and has a paused priority in its tag.
func (p *port) holds(b []byte, pauses bool, now int64) bool {
	paused := p.flow.paused(now) &^ p.ignored
	if p.FlowControl == LinkPause {
		return paused != 0
	}
	return pauses && frame.Tagged(b) && paused>>(b[14]>>5)&1 != 0
}

// injectAt sends a frame at a port, or drops it. It returns false if the frame is to wait. It waits
// where data would have to wait, too, so data can't keep it waiting, and an XOFF finds no more in
// front of it than PortParams.InFlight and the slots for PFC frames allow.
func (w *Worker) injectAt(p *port, b []byte, pauses bool, now int64) bool {
	if p.driver == nil || !p.up || len(b) > p.MaxFrame {
		p.count.InjectDropped++
		return true
	}
	w.sendPauses(p, now)
	spare := &p.injection.spare
	if p.holds(b, pauses, now) || spare.N == 0 {
		return false
	}
	if p.sending >= p.txRing-ControlBuffers || p.inFlight >= p.InFlight {
		w.turns.Urgent = true
		return false
	}
	id := spare.IDs[spare.N-1]
	d := &w.burst[0]
	*d = pmd.Desc{Addr: uint64(id) << (w.shift & 63), Len: uint32(len(b))}
	copy(w.memory.Frame(d.Addr, d.Len), b)
	if p.driver.Transmit(w.burst[:1]) == 0 { // although its ring has room: the driver is failing
		p.count.InjectDropped++
		return true
	}
	spare.N--
	w.frames[id] = newWord(0, len(b), 0, 0)
	p.held[id] = holdingInjected
	p.sending++
	p.inFlight += onWire(len(b))
	p.queues.Spend(now, onWire(len(b)))
	if w.tap != nil {
		w.tap.injected(p, d)
	}
	return true
}

// endInjection takes back the buffer of a frame of the control plane, and returns the frame's
// length. It is not inlined, to keep complete small.
//
//go:noinline
func (w *Worker) endInjection(p *port, id uint32) (length int) {
	length = w.frames[id].Length()
	p.held[id] = holdingNothing
	p.sending--
	p.inFlight -= onWire(length)
	p.injection.spare.Put(id)
	return length
}

// newInjection prepares a port of this worker for frames of the control plane. A port that was in
// the generation before, after, keeps its injector.
func (w *Worker) newInjection(p *port, after *Generation) (i injection, err error) {
	switch i.spare.Lacking = InjectBuffers; {
	case p.Vacant:
	case after != nil && p.number < len(after.params.Ports) && samePort(&p.PortParams, &after.params.Ports[p.number]):
		before := &after.parts[w.index].ports[p.number].injection
		i.waiting, i.pausing = before.waiting, before.pausing
	default:
		if i.waiting, err = punt.NewInjector(injectSlots); err == nil {
			i.pausing, err = punt.NewInjector(injectSlots)
		}
	}
	return i, err
}
