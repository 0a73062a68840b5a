package dataplane

import "sluice/pfc"

// guard watches a port for pause storms and does what the watchdog is there for.
func (w *Worker) guard(p *port, now int64) {
	dog := p.flow.watchdog
	if dog == nil {
		return
	}
	paused := p.flow.paused(now)
	if paused|p.ignored|p.discarded == 0 && dog.Idle() {
		return
	}
	w.act(p, dog.Observe(now, pfc.Sight{
		Paused: paused, Changed: p.flow.receiver.Changed(), Waiting: p.queues.Backlogged(), Sent: p.queues.TakeSent(),
	}))
}

// act does with the priorities in a storm what the watchdog's action demands: it begins to drop
// them, what waits included, or to send them in spite of the pause; and it ends that for all
// others.
func (w *Worker) act(p *port, stormed uint8) {
	switch p.Watchdog.Action {
	case pfc.Forward:
		p.ignored = stormed
	case pfc.Drop:
		p.discarded = stormed
		p.gates()
	}
}

// override holds priorities in a storm by hand, or no longer.
func (w *Worker) override(p *port, now int64, priorities uint8) {
	if dog := p.flow.watchdog; dog != nil {
		dog.Override(now, priorities)
		w.act(p, dog.Storming())
	}
}

// countForwarded counts the frames that were sent in a storm, paused or not.
func (w *Worker) countForwarded(p *port, ids []uint32) {
	for _, id := range ids {
		// a pause holds a queue, of whatever priority its frames are
		if f := w.frames[id]; p.ignored>>f.queue()&1 != 0 {
			p.count.StormForwarded[f.priority()]++
		}
	}
}
