package adversary

// Where the FDB has no static entries, hosts are learned. They say hello when they come to a port,
// after its link was down, and before they age. Peers send lossless frames only to hosts that the
// switch must know, since headroom does not include floods (docs/lossless.md, "Assumptions"), and
// lossy ones to any.

// reaches reports whether the peer may send a frame of a priority to the host at a port.
func (p *peer) reaches(priority uint8, port int) bool {
	if p.absent>>port&1 != 0 {
		return false
	}
	lossless := p.lossless
	if p.next != nil {
		lossless |= losslessIn(p.next.config)
	}
	return p.settings.static || lossless>>priority&1 == 0 || p.known(p.peers[port].host, p.now)
}

// hello makes the peer say hello if its host is not known, but not too often.
func (p *peer) hello(at int64) bool {
	h := &p.oracle.hosts[p.host]
	if p.settings.static || at < p.greeted || h.since != unsettled && at-h.last < int64(p.config.Forwarding.Ageing)/4 {
		return false
	}
	priority := uint8(p.rng.IntN(8))
	if lossy := ^p.config.Ports[p.port].PFC; lossy != 0 {
		priority = p.anyOf(lossy)
	}
	p.greeted = at + p.learning()
	if p.halted(at, priority) {
		return false
	}
	p.data(at, priority, everyone, shortest)
	return true
}

// swap moves the hosts of two ports to each other's port. Both say hello there.
func (w *world) swap(a, b *peer) {
	absent := w.absent
	w.absent |= 1<<a.port | 1<<b.port
	kept := [2]traffic{a.traffic, b.traffic}
	a.traffic, b.traffic = traffic{}, traffic{}
	// else a frame from before could move a host back
	if w.until(2*w.gap+w.flight(), func() bool { return a.driver.idle() && b.driver.idle() }) {
		a.host, b.host = b.host, a.host
		for _, p := range []*peer{a, b} {
			w.oracle.hosts[p.host] = host{port: p.port, since: unsettled, moved: w.now + 2*w.gap}
			p.greeted = 0
		}
	}
	a.traffic, b.traffic = kept[0], kept[1]
	w.run(w.flight())
	w.absent = absent
}

// idle reports whether the switch has taken all frames that have come in at a port.
func (d *driver) idle() bool { return d.reads && d.Port.Waiting() == 0 }

// quieten keeps peers from sending to a port until what they have sent has come in, if the switch
// is about to forget its host: it would flood those frames.
func (w *world) quieten(port int) {
	if !w.settings.static {
		absent := w.absent
		w.absent |= 1 << port
		w.run(4*w.gap + w.flight())
		w.forgotten(port)
		w.absent = absent
	}
}
