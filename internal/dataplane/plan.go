package dataplane

import "sluice/internal/frame"

// adopt changes over to a new plan, between two iterations.
func (w *Worker) adopt(plan *Plan, now int64) {
	if g := plan.Generation; g != nil && g != w.generation.Load() {
		w.changeOver(g, now)
	}
	for i, p := range w.ports {
		link := plan.Links[i]
		if p.driver != nil && (p.up && !link.Up || p.driver != link.Driver) {
			w.takeLast(p, now)
		}
		wasUp := p.up
		p.up = link.Up
		w.bridge.SetOwn(i, frame.MACFrom(link.MAC[:]))
		if wasUp && !p.up {
			w.bridge.Forget(now, i)
		}
		if p.worker == w.index {
			p.drain = link.Drain
			p.doors() // before the last frames of ports that go down with this one look for a queue
			w.attach(p, link, now)
		}
	}
	for _, o := range w.out {
		o.flush()
	}
	if plan.Cleared != w.cleared() {
		w.accounts.ClearWatermarks()
	}
	w.watch(plan)
	w.current = plan
	w.adopted.Store(plan)
}

// cleared returns how often the watermarks were cleared by the current plan.
func (w *Worker) cleared() uint64 {
	if w.current == nil {
		return 0
	}
	return w.current.Cleared
}

// takeLast receives what has arrived on a link that goes away, and takes back what has left, so that neither is lost
// without a name. No more can be there than the port had buffers.
func (w *Worker) takeLast(p *port, now int64) {
	for range p.Buffers/burstSize + 1 {
		if w.reap(p)+w.receive(p, now) == 0 {
			return
		}
	}
}

// attach gives a port of this worker the driver of its link, or takes it away.
func (w *Worker) attach(p *port, link Link, now int64) {
	if !p.up {
		w.abandon(p, now)
	}
	w.override(p, now, link.Storm) // after a link went down, the only storm
	p.signals.mac = link.MAC
	if link.Driver == p.driver && !link.Closed {
		return
	}
	if link.Driver != nil && !p.parked {
		panic("dataplane: port " + p.Name + " got a driver before the buffers of the last one were reclaimed")
	}
	p.driver, p.txRing, p.parked = link.Driver, link.TXRing, link.Closed
	if p.parked {
		w.reclaim(p)
		w.equip(p)
	}
}

// abandon drops what waits for a port that has gone down, and forgets what its peer had asked for.
func (w *Worker) abandon(p *port, now int64) {
	for q := range Priorities {
		w.discard(p, q, DropPortDown)
	}
	p.signals.forget(now)
}

// discard drops what waits in a queue.
func (w *Worker) discard(p *port, queue int, why Drop) {
	for {
		n := p.queues.Drain(queue, w.ids[:])
		for _, id := range w.ids[:n] {
			f := &w.frames[id]
			w.accounts.Dequeue(p.number, int(f.queue), int(f.cells))
			w.dropAdmitted(p, id, why)
		}
		if n < len(w.ids) {
			return
		}
	}
}

// reclaim takes back what a closed driver held. Its empty buffers stay with the port, parked for the next driver. Frames
// that had not left are lost, under a name. A device that still sends out of one of these buffers, as virtio-net may in
// copy mode, sends what the buffer holds by then, on a link that was taken away.
func (w *Worker) reclaim(p *port) {
	for id, holding := range p.held {
		if p.sending == 0 {
			return // as with each further plan, and for a number that no port has
		}
		switch holding {
		case holdingFrame:
			w.unsend(p, uint32(id), DropPortGone)
		case holdingControl:
			w.complete(p, uint32(id))
		}
	}
}
