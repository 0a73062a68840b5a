package dataplane

import (
	"sluice/pmd"
)

// take receives a burst from a port and forwards its frames. If they make a group congested, take
// sends the port's peer a pause before any other work that can wait, so the reaction time does not
// depend on how many ports follow.
func (w *Worker) take(p *port, now int64) int {
	if !p.reads {
		return w.takeStalled(p, now)
	}
	if w.budget.Receive <= 0 { // flood copies have spent it: wait for the next iteration
		w.leaves(p)
		return 0
	}
	left := w.budget.Receive
	n := w.receive(p, w.burst[:p.burst], now)
	w.budget.Receive -= n
	cost := left - w.budget.Receive // with copies of flooded frames
	if p.unread = false; n+p.slack >= p.burst {
		w.leaves(p)
	}
	p.burst, p.stuck = w.quantum, p.stuck && n == 0
	if cost > w.quantum { // flooding: next time, only as many frames as cost one burst
		p.burst = max(p.most, n*w.quantum/cost)
	}
	if n > 0 {
		w.stopPeer(p, now)
		if w.finish(p) {
			w.stopPeer(p, now)
		}
	} else if p.burst < burstSize {
		p.widen()
	}
	return n
}

// widen makes the next burst long enough for any frame if the first one that waits did not fit the
// last two. Linux makes up to 44 parts of a frame that is beyond every MTU (generic mode, with
// segments that a device was to cut).
//
//go:noinline
func (p *port) widen() {
	waiting := p.driver.Waiting() > 0
	if p.stuck && waiting { // it has not just arrived
		p.burst = burstSize
	}
	p.stuck = waiting
}

// stopPeer sends the port's peer a pause at once if another class has become congested.
func (w *Worker) stopPeer(p *port, now int64) {
	if w.accounts.Congested(p.number)&^(p.flow.stopped()|p.discarded) != 0 {
		w.sendPauses(p, now)
		p.driver.Flush()
	}
}

// leaves records whether this pass leaves frames unread at a port with lossless classes.
//
//go:noinline
func (w *Worker) leaves(p *port) {
	p.unread = p.flow.lossless != 0 && p.driver.Waiting() > 0
	w.unread = w.unread || p.unread
}

// holdUnread stops all lossless priorities of the peers of ports where frames still wait after the
// iteration's budget is spent. It no longer stops those of other ports. Waiting frames are charged
// to no group, so no group can become congested by them. The peer sends no more than these until it
// has stopped, and the headroom has room for that.
func (w *Worker) holdUnread(now int64) {
	w.behind = false
	for _, p := range w.own {
		if p.behind = p.unread && p.driver != nil && p.flow.on() && p.up; p.behind {
			w.behind = true
			p.count.Behind++
			w.sendPauses(p, now)
			p.driver.Flush()
		}
	}
}

// receive receives a burst from a port, decides where its frames go and charges what it can charge
// as a whole; finish must follow. It returns the number of descriptors. Each step handles all
// frames before the next step begins, so its loop is short and the processor reads several headers
// in parallel instead of waiting for one after the other. Steps are go:noinline where a
// profile-guided build would otherwise merge them into one function that is too large to inline the
// calls in it.
func (w *Worker) receive(p *port, burst []pmd.Desc, now int64) int {
	n := p.driver.Receive(burst)
	if n == 0 {
		return 0
	}
	p.count.RXBursts++
	w.process(p, burst[:n], now)
	return n
}

// process is receive for a burst that has left the driver.
func (w *Worker) process(p *port, burst []pmd.Desc, now int64) {
	w.forward(p, w.arrived[:w.parse(p, w.linked(p, burst), now)], now)
	w.charge(p)
}

// finish ends a burst that receive began: it queues the frames or drops them. It reports whether it
// still had to charge some.
func (w *Worker) finish(p *port) (scarce bool) {
	scarce = w.queueBurst(p)
	if w.tap != nil {
		w.tap.settle()
	}
	return scarce
}
