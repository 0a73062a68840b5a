package dataplane

import (
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
	"sluice/pmd"
)

// ready reports whether a plan can be adopted. Drivers that the plan removes must be empty first;
// iterations empty them as usual. ready waits only for as many iterations as that takes when no
// more frames arrive.
func (w *Worker) ready(plan *Plan) bool {
	for i, p := range w.ports {
		if p.driver == nil || p.driver == plan.Links[i].Driver {
			continue
		}
		if !p.mayRead() {
			p.stalledSince = longAgo // what it has not taken until now, it never will
		}
		// a burst may end early, before a frame that it has no room for, but two take more than one
		if p.driver.Waiting()+len(p.stalled) > 0 && w.awaited <= 2*p.Buffers/w.quantum {
			w.awaited++
			return false
		}
	}
	w.awaited = 0
	return true
}

// adopt changes over to a new plan, between two iterations.
func (w *Worker) adopt(plan *Plan, now int64) {
	if g := plan.Generation; g != nil && g != w.generation.Load() {
		w.changeOver(g, now)
	}
	for i, p := range w.ports {
		link := plan.Links[i]
		if p.driver != nil && p.driver != link.Driver {
			w.takeLast(p, now)
		}
		w.bridge.SetOwn(i, frame.MACFrom(link.MAC[:]))
		w.changeLink(p, &link, now)
		if p.worker == w.index {
			p.drain = link.Drain
			p.gates() // before other ports going down in this plan send it their last frames
			w.attach(p, link, now)
		}
	}
	for _, o := range w.out {
		o.Flush()
	}
	if plan.Cleared != w.clears {
		w.clears = plan.Cleared
		w.accounts.ClearWatermarks()
	}
	if f := &plan.Flush; f.Serial != w.flushes {
		w.flushes = f.Serial
		w.flush(f, now)
	}
	w.watch(plan)
	w.current = plan
	w.adopted.Store(plan)
}

// changeLink notes that a link went down or came up. Addresses from before are forgotten.
func (w *Worker) changeLink(p *port, link *Link, now int64) {
	own := p.worker == w.index
	switch {
	case p.up && (!link.Up || link.epoch != p.epoch): // it was down meanwhile
		if w.forget(p, now); own {
			p.flow.forget(now, link.Up)
			p.stall(now)
		}
	case link.Up && !p.up:
		if p.stalledSince = now; own && p.driver != nil {
			p.excess = max(0, len(p.stalled)+p.driver.Waiting()-cap(p.stalled)/2)
		}
	}
	p.epoch, p.up = link.epoch, link.Up
}

// forget forgets the addresses behind a port. The bridge can't tell them from those of the same
// tick, so what the port receives in this one is dated later.
func (w *Worker) forget(p *port, now int64) {
	now = max(now, p.learnsFrom)
	w.bridge.Forget(now, p.number)
	p.learnsFrom = now + bridge.Tick
}

// takeLast takes what a departing driver has received and sent since it was found empty, so that
// all of it is counted.
func (w *Worker) takeLast(p *port, now int64) {
	switch {
	case !p.reads:
		for w.collect(p, now); len(p.stalled) > 0; {
			w.refuseStalled(p, 0, len(p.stalled), now)
		}
	case w.receive(p, w.burst[:], now) > 0:
		w.finish(p)
	}
	for p.sending > 0 && w.reapBurst(p) == w.quantum {
	}
}

// attach gives a port of this worker the driver of its link, or takes it away.
func (w *Worker) attach(p *port, link Link, now int64) {
	w.override(p, now, link.Storm) // after a link went down, only these are in a storm
	p.flow.mac = link.MAC          // a device's address may change while it is open
	p.subscriber.Favour(frame.MACFrom(link.Peer[:]))
	if p.spread = min(p.most, max(1, link.Parts)); link.Parts > 1 {
		p.slack = pmd.MaxParts - 1
	}
	if link.Driver == p.driver && !link.Closed {
		return
	}
	if link.Driver != nil && !p.parked {
		panic("dataplane: port " + p.Name + " got a driver before the buffers of the last one were reclaimed")
	}
	p.driver, p.txRing, p.parked = link.Driver, link.TXRing, link.Closed
	p.before, p.excess, p.stalledSince = 0, 0, now
	p.reads = p.mayRead()
	p.gates()
	if p.parked {
		w.reclaim(p)
		w.equip(p)
	}
}

// reclaim takes back the buffers that a closed driver held. Empty ones stay with the port for its
// next driver. Frames that had not left are dropped as drop.PortGone. A device that still sends
// from one of these buffers, as virtio-net may in copy mode, sends whatever the buffer holds by
// then, on a link that was taken away.
func (w *Worker) reclaim(p *port) {
	for id, holding := range p.held {
		if p.sending == 0 {
			return // so with each further plan, and for vacant numbers
		}
		switch holding {
		case holdingFrame:
			w.unsend(p, uint32(id), drop.PortGone)
		case holdingPart:
			w.unsend(p, w.parts.Head(uint32(id)), drop.PortGone)
		case holdingControl:
			w.complete(p, uint32(id))
		case holdingInjected:
			p.count.InjectDropped++
			w.endInjection(p, uint32(id))
		}
	}
}
