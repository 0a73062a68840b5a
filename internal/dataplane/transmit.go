package dataplane

import (
	"math/bits"

	"sluice/internal/drop"
)

// transmit sends the frames that the scheduler picks, up to what may be in flight: a burst, and
// more while the budget lasts.
func (w *Worker) transmit(p *port, now int64) (frames int) {
	for more := p.queues.Backlogged() != 0 && w.budget.grants(w.budget.send); more; {
		n := w.transmitBurst(p, now)
		frames += n
		w.budget.send -= n
		more = n == w.quantum && p.queues.Backlogged() != 0 && w.budget.send > 0
	}
	return frames
}

// discard drops frames of queues that are shut: a burst, and more while the budget lasts.
func (w *Worker) discard(p *port) (frames int) {
	for w.budget.send > frames || w.budget.first && frames == 0 {
		dead := p.queues.Backlogged() & p.shut
		if dead == 0 {
			break
		}
		n := p.queues.Drain(bits.TrailingZeros8(dead), w.ids[:w.quantum])
		for _, id := range w.ids[:n] {
			f := w.frames[id]
			w.accounts.Dequeue(p.number, int(f.queue()), f.in(), f.cells())
			w.dropAdmitted(p, id, p.whyShut())
		}
		frames += n
	}
	w.budget.send -= frames
	return frames
}

// transmitBurst sends one burst.
//
//go:noinline
func (w *Worker) transmitBurst(p *port, now int64) int {
	// ControlBuffers slots of the ring are reserved for PFC frames, which never wait for room.
	room := min(w.quantum, burstSize, p.txRing-ControlBuffers-p.sending)
	budget := p.InFlight - p.inFlight
	if room <= 0 || budget < p.longestOut {
		w.turns.Urgent = true
	}
	if room <= 0 || budget <= 0 {
		return 0
	}
	n := p.queues.Dequeue(now, p.flow.paused(now)&^p.ignored|p.shut, budget, w.ids[:room])
	held, frames, shift, bytes, inFlight := p.held, w.frames, w.shift&63, 0, 0
	for i, id := range w.ids[:n] {
		f, d := frames[id], &w.burst[i]
		d.Addr = uint64(id)<<shift + f.offset()
		d.Len = uint32(f.length())
		d.Options = 0
		held[id] = holdingFrame
		bytes += f.length()
		inFlight += onWire(f.length())
		class := f.priority()
		p.count.TX[class]++
		p.count.TXClassBytes[class] += uint64(f.length())
	}
	p.sending += n
	p.inFlight += inFlight
	took := p.driver.Transmit(w.burst[:n])
	p.count.TXBytes += uint64(bytes)
	p.count.TXFrames += uint64(n)
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
	return n
}

// unsend drops a frame that was counted as sent but was not.
func (w *Worker) unsend(p *port, id uint32, why drop.Reason) {
	f := w.frames[id]
	p.count.Recalled++
	p.count.Drops[why][f.priority()]++
	if w.tap != nil {
		w.tap.dropped(p, id, why)
	}
	w.complete(p, id)
}
