package dataplane

import "sluice/pfc"

// guard watches a port for pause storms and takes the watchdog's action.
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
		Paused: paused, Resumed: p.flow.receiver.Resumed(), Waiting: p.queues.Backlogged(),
	}))
}

// act applies the watchdog's action to the priorities in a storm: it drops their frames, queued
// ones included, or sends them in spite of the pause. It ends the action for all other priorities.
func (w *Worker) act(p *port, stormed uint8) {
	switch p.Watchdog.Action {
	case pfc.Forward:
		p.ignored = stormed
	case pfc.Drop:
		p.discarded = stormed
		p.gates()
	}
}

// override treats these priorities, and no others, as in a storm begun manually.
func (w *Worker) override(p *port, now int64, priorities uint8) {
	if dog := p.flow.watchdog; dog != nil {
		dog.Override(now, priorities)
		w.act(p, dog.Storming())
	}
}

// countForwarded counts the frames sent during a storm, paused or not.
func (w *Worker) countForwarded(p *port, ids []uint32) {
	for _, id := range ids {
		// a pause holds a queue, whatever the priority of its frames
		if f := w.frames[id]; p.ignored>>f.Queue()&1 != 0 {
			p.count.StormForwarded[f.Priority()]++
		}
	}
}
