package dataplane

import (
	"math/bits"

	"sluice/pfc"
)

// guard watches a port for pause storms and does what the watchdog is there for.
func (w *Worker) guard(p *port, now int64) {
	dog := p.signals.watchdog
	if dog == nil {
		return
	}
	paused := p.signals.paused(now)
	if paused|p.ignored|p.discarded == 0 && dog.Idle() {
		return
	}
	stormed := dog.Observe(now, paused, p.queues.Backlogged(), p.sentSince())
	switch dog.Action() {
	case pfc.Forward:
		p.ignored = stormed
	case pfc.Drop:
		if stormed != p.discarded {
			w.setDiscarded(p, stormed)
		}
	}
}

// setDiscarded begins to drop priorities, what waits first, and ends it for others.
func (w *Worker) setDiscarded(p *port, priorities uint8) {
	begin := priorities &^ p.discarded
	p.discarded = priorities
	p.doors(w.drain)
	for ; begin != 0; begin &= begin - 1 {
		w.discard(p, bits.TrailingZeros8(begin), DropStorm)
	}
}

// override holds priorities in a storm by hand, or no longer.
func (s *signals) override(now int64, priorities uint8) {
	if s.watchdog != nil {
		s.watchdog.Override(now, priorities)
	}
}

// sentSince returns the priorities that have sent since it was last asked.
func (p *port) sentSince() (sent uint8) {
	for priority, n := range p.count.TX {
		if n != p.sent[priority] {
			sent |= 1 << priority
		}
	}
	p.sent = p.count.TX
	return sent
}

// countForwarded counts the frames that were sent in spite of a pause.
func (w *Worker) countForwarded(p *port, ids []uint32) {
	for _, id := range ids {
		if priority := w.frames[id].priority; p.ignored>>priority&1 != 0 {
			p.count.StormForwarded[priority]++
		}
	}
}
