package adversary

import (
	"fmt"
	"slices"

	"sluice/internal/dataplane"
)

// flap unplugs a port's cable and plugs it in again. The peer sends again when the switch has
// noticed the link and had time to pause the peer.
func (w *world) flap(port int) {
	p := w.peers[port]
	w.oracle.downed |= 1 << port
	kept := p.traffic
	p.traffic, p.down = traffic{}, true
	p.reset()
	w.run(w.rng.Int64N(20_000))
	w.setLink(port, func(l *dataplane.Link) { l.Up = false })
	w.run(2*w.gap + w.rng.Int64N(20_000))
	p.down = false
	w.setLink(port, func(l *dataplane.Link) { l.Up = true })
	w.run(w.stopping(port))
	p.traffic = kept
}

// holdDown has the switch hold a port down, for example because it does not fit the rate of its
// link. Its peer does not notice, and sends on to a port where frames can't leave.
func (w *world) holdDown(port int) {
	p, stuck := w.peers[port], w.peers[(port+1+w.rng.IntN(len(w.peers)-1))%len(w.peers)]
	set := w.config.Ports[port].PFC
	if set == 0 {
		return
	}
	w.oracle.downed |= 1 << port
	kept, q := p.traffic, w.anyOf(set)
	p.traffic, p.deaf = traffic{priorities: []uint8{q}, to: []int{stuck.port}, left: 4000}, true
	p.until = [8]int64{}
	stuck.say(0xff, 65535)
	w.setLink(port, func(l *dataplane.Link) { l.Up = false })
	w.run(2*w.gap + w.rng.Int64N(1+min(4000*p.slot(shortest)/1000, w.duration/2)))
	w.setLink(port, func(l *dataplane.Link) { l.Up = true })
	p.traffic = traffic{} // until the switch has stopped the peer
	w.run(w.stopping(port))
	stuck.say(0xff, 0)
	p.traffic, p.deaf = kept, false
}

// setLink changes a port's link. The workers adopt it within a gap, each at a time of its own.
func (w *world) setLink(port int, change func(*dataplane.Link)) {
	w.quieten(port)
	change(&w.plan.Links[port])
	w.publish(nil)
	w.forgotten(port)
	w.lag()
}

// replace closes a port's device and opens it again. As the switch does, it first holds the peer in
// XOFF while frames on their way leave, then takes the driver away, and then its buffers back.
// Meanwhile nobody sends to the port.
func (w *world) replace(port int) error {
	p := w.peers[port]
	w.absent |= 1 << port
	w.oracle.downed |= 1 << port
	quiet, kept := w.stopping(port)+20_000, p.traffic
	defer func() { w.absent, p.traffic = w.absent&^(1<<port), kept }()
	w.setLink(port, func(l *dataplane.Link) { l.Drain = dataplane.HoldPeers })
	w.run(quiet)
	p.traffic = traffic{}
	empty := w.until(quiet, func() bool { return p.driver.Port.Waiting() == 0 })
	if empty {
		p.outbox = nil
		p.say(0xff, 0)
		w.setLink(port, func(l *dataplane.Link) { l.Drain = dataplane.Refuse })
		empty = w.until(quiet, func() bool {
			b := &w.s.Ports(w.now)[port].Buffers
			return b.Queued+b.Sending == 0
		})
	}
	if !empty { // its frames wait for another port
		w.setLink(port, func(l *dataplane.Link) { l.Drain = dataplane.Running })
		return nil
	}
	p.down = true
	p.reset()
	w.setLink(port, func(l *dataplane.Link) { *l = dataplane.Link{} })
	if !w.until(quiet, func() bool { return w.s.Adopted(w.latest) }) {
		return fmt.Errorf("sim: port %d: a worker does not let go of its driver", port)
	}
	w.setLink(port, func(l *dataplane.Link) { l.Closed = true })
	w.run(2*w.gap + 10_000)
	l := p.driver.loop
	l.drivers = slices.DeleteFunc(l.drivers, func(d *driver) bool { return d == p.driver })
	if err := w.connect(p); err != nil {
		return err
	}
	w.setLink(port, func(*dataplane.Link) {})
	p.down = false
	w.run(quiet)
	return nil
}

// until advances time in steps of ns until something holds, but not for ever. It reports whether it
// holds.
func (w *world) until(ns int64, holds func() bool) bool {
	for range 100 {
		if w.run(ns); holds() {
			return true
		}
	}
	return false
}
