package dataplane

import (
	"math/bits"

	"sluice/internal/dataplane/drop"
)

// transmit sends the frames that the scheduler picks, up to what may be in flight: a burst, and
// more while the budget lasts.
func (w *Worker) transmit(p *port, now int64) (frames int) {
	for more := p.queues.Backlogged() != 0 && w.budget.Grants(w.budget.Send); more; {
		n := w.transmitBurst(p, now)
		frames += n
		w.budget.Send -= n
		more = n == w.quantum && p.queues.Backlogged() != 0 && w.budget.Send > 0
	}
	return frames
}

// discard drops frames of queues that are shut: a burst, and more while the budget lasts.
func (w *Worker) discard(p *port) (buffers int) {
	for w.budget.Send > buffers || w.budget.First && buffers == 0 {
		dead := p.queues.Backlogged() & p.shut
		if dead == 0 {
			break
		}
		n := p.queues.Drain(bits.TrailingZeros8(dead), w.ids[:w.quantum])
		for _, id := range w.ids[:n] {
			f := w.frames[id]
			w.accounts.Dequeue(p.number, int(f.Queue()), f.In(), f.Cells())
			later := w.later(id, f)
			p.later -= later
			buffers += 1 + later
			w.dropAdmitted(p, id, p.whyShut())
		}
	}
	w.budget.Send -= buffers
	return buffers
}

// transmitBurst sends one burst.
//
//go:noinline
func (w *Worker) transmitBurst(p *port, now int64) int {
	// ControlBuffers slots of the ring are reserved for PFC frames, which never wait for room.
	room := p.txRing - ControlBuffers - p.sending
	if p.spread > 1 {
		room /= p.spread
	}
	room = min(w.quantum, burstSize, room)
	budget := p.InFlight - p.inFlight
	if room <= 0 || budget < p.longestOut {
		w.turns.Urgent = true
	}
	if room <= 0 || budget <= 0 {
		return 0
	}
	n := p.queues.Dequeue(now, p.flow.paused(now)&^p.ignored|p.shut, budget, w.ids[:room])
	held, frames, shift, bytes, inFlight, any := p.held, w.frames, w.shift&63, 0, 0, uint16(0)
	for i, id := range w.ids[:n] {
		f, d := frames[id], &w.burst[i]
		any |= uint16(f)
		d.Addr = uint64(id)<<shift + f.Offset()
		d.Len = uint32(f.Length())
		d.Options = 0
		held[id] = holdingFrame
		bytes += f.Length()
		inFlight += onWire(f.Length())
		class := f.Priority()
		p.count.TX[class]++
		p.count.TXClassBytes[class] += uint64(f.Length())
	}
	p.sending += n
	p.inFlight += inFlight
	p.count.TXBytes += uint64(bytes)
	p.count.TXFrames += uint64(n)
	if any&severalParts != 0 {
		w.transmitParts(p, n)
		return n
	}
	w.sent(p, n, p.driver.Transmit(w.burst[:n]))
	return n
}

// sent ends the sending of a burst: the driver has taken some of n frames.
func (w *Worker) sent(p *port, n, took int) {
	if p.ignored != 0 {
		w.countForwarded(p, w.ids[:n])
	}
	if w.tap != nil {
		w.tap.sent(p, took)
	}
	if took < n {
		for _, id := range w.ids[took:n] { // although its ring had room: the driver is failing
			w.unsend(p, id, drop.RefusedByDriver)
		}
	}
}

// unsend drops a frame that was counted as sent but was not.
func (w *Worker) unsend(p *port, id uint32, why drop.Reason) {
	f := w.frames[id]
	p.count.Recalled++
	p.count.Drop(why, f.Priority(), f&cameLossless != 0, 1)
	if w.tap != nil {
		w.tap.dropped(p, id, why)
	}
	if f&severalParts != 0 {
		w.recall(p, id)
		return
	}
	w.complete(p, id)
}
