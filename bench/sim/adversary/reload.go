package adversary

import (
	"slices"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/pfc"
)

// reload is a configuration to change over to.
type reload struct {
	settings   *settings
	config     *config.Config
	params     dataplane.Params
	generation *dataplane.Generation
}

// clone returns a copy that can be changed.
func (s *settings) clone() *settings {
	c := *s
	c.lossless.cos, c.lossy.cos = slices.Clone(s.lossless.cos), slices.Clone(s.lossy.cos)
	c.ports = slices.Clone(s.ports)
	return &c
}

// vary draws one kind of value anew. No value asks more of the links, peers and loops than those
// that the attack began with.
func (w *world) vary(s *settings) {
	by := pick(w.rng, 1, 1, 2, 4, 16, 32)
	one := &s.ports[w.rng.IntN(len(s.ports))]
	everywhere := func(change func(p, first *portSettings)) {
		for i := range s.ports {
			change(&s.ports[i], &w.base.ports[i])
		}
	}
	switch w.rng.IntN(16) {
	case 0, 1, 13, 14, 15:
		everywhere(func(p, first *portSettings) { p.inFlight = first.inFlight * by })
	case 2:
		everywhere(func(p, first *portSettings) { p.response = first.response * int64(min(by, 4)) })
	case 3:
		everywhere(func(p, first *portSettings) { p.metres = first.metres * by })
	case 4:
		mtu := pick(w.rng, w.base.ports[0].mtu, 68+w.rng.IntN(w.base.ports[0].mtu-67))
		everywhere(func(p, first *portSettings) { p.mtu, p.peerMTU = mtu, min(mtu, first.peerMTU) })
	case 5:
		everywhere(func(p, _ *portSettings) { p.peerMTU = 68 + w.rng.IntN(p.mtu-67) })
	case 6:
		s.lossless.headroom = pick(w.rng, 0, int(between(w.rng, 50_000, 1_000_000)))
	case 7:
		c := pick(w.rng, &s.lossless, &s.lossy)
		c.alpha, c.share = "", int(between(w.rng, 4_000, 400_000))
	case 8:
		s.drawQueue(w.rng)
	case 9:
		one.speed = max(10, one.rate/by)
	case 10:
		one.flow = pick(w.rng, "pfc", "pause", "off")
	case 11:
		s.agree(w.rng)
	case 12:
		s.moveCoS(w.rng.IntN(8))
	}
}

// moveCoS makes a lossy priority lossless, or the other way round unless it is the only one.
func (s *settings) moveCoS(cos int) {
	from, to := &s.lossless.cos, &s.lossy.cos
	if slices.Contains(*to, cos) {
		from, to = to, from
	}
	if from == &s.lossless.cos && len(*from) == 1 {
		return
	}
	*from = slices.DeleteFunc(*from, func(c int) bool { return c == cos })
	*to = append(*to, cos)
}

// prepare prepares a change to other settings; nil if the switch refuses them, or if they leave the
// loop or a peer less time than it takes. Until then, peers send no frame that is too long for
// either of them.
func (w *world) prepare(s *settings) *reload {
	if !w.s.Adopted(w.latest) {
		return nil
	}
	r := &reload{settings: s}
	var err error
	if r.config, err = s.parse(); err != nil {
		return nil
	}
	ring := w.params.Ports[0].Buffers
	if r.params, err = w.translate(r.config, ring); err != nil || !w.leaves(r.config, &r.params) {
		return nil
	}
	if r.generation, err = w.s.Prepare(r.params); err != nil {
		return nil
	}
	w.next = r
	return r
}

// leaves reports whether a configuration leaves the loop and the peers the time that they take.
func (d *drawn) leaves(c *config.Config, p *dataplane.Params) bool {
	for i := range c.Ports {
		port := &c.Ports[i]
		if d.waits(port, p) < d.waiting[i] || d.patient && d.spareTime(c, p, port) < d.gap {
			return false
		}
	}
	return true
}

// change publishes a prepared configuration. The workers adopt it within a gap, each at a time of
// its own.
func (w *world) change(r *reload) {
	w.before, w.adopted = w.params, w.now+2*w.gap
	w.settings, w.config, w.params, w.next = r.settings, r.config, r.params, nil
	w.lossless = losslessIn(w.config)
	for i := range w.config.Ports {
		p := &w.config.Ports[i]
		w.inFlight[i] = max(w.inFlight[i], p.InFlight)
		w.peers[i].until = [8]int64{} // it may not be honoured any more
		w.peers[i].shorten()
	}
	w.cost = min(w.cost, w.gap/int64(12*w.params.Budget))
	w.publish(r.generation)
	w.lag()
}

// lag interrupts a worker for as long as possible, in half of all cases, so that others run a plan
// before it.
func (w *world) lag() {
	if w.rng.IntN(2) == 0 {
		l := w.loops[w.rng.IntN(len(w.loops))]
		if ns := l.allowed(l.gap, l.pause()); l != w.running && ns > 0 {
			l.hold(ns)
			l.wakeAt += ns
		}
	}
}

// reload changes over to other settings, at a moment without a meaning.
func (w *world) reload() {
	s := w.settings.clone()
	for range 1 + w.rng.IntN(3) {
		w.vary(s)
	}
	if r := w.prepare(s); r != nil {
		w.run(4*w.gap + w.flight()) // until the longest frames of before have come in
		w.change(r)
		w.run(2*w.gap + 10_000) // until all workers have switched to it
	}
}

// flight returns for how long a frame may be on its way to the switch, ns.
func (w *world) flight() (ns int64) {
	for _, p := range w.peers {
		ns = max(ns, w.delay[p.port]+p.slot(w.params.Ports[p.port].MaxFrame)/1000)
	}
	return ns
}

// surprise changes over at the worst moment. The TX ring of a port (victim) is full of frames from
// others. Its own peer fills a group whose frames stay in the switch, because another peer (egress)
// has paused their class. The change comes when the group is nearly full, with the XOFF, or while
// the peer may still send after it.
func (w *world) surprise() {
	w.run(2*w.gap + 10_000)
	order := w.rng.Perm(len(w.peers))
	victim, egress := w.peers[order[0]], w.peers[order[1]]
	share := int(between(w.rng, 4_000, 60_000))
	if r := w.attempt(share, 2); r != nil {
		w.change(r)
		w.run(2*w.gap + 10_000)
	}
	r := w.attempt(share, w.rng.IntN(2))
	if r == nil {
		return
	}
	set := r.config.Ports[victim.port].PFC
	if both := set & w.config.Ports[victim.port].PFC; both != 0 && w.rng.IntN(4) > 0 {
		set = both
	}
	if set != 0 {
		w.ensnare(victim, egress, w.anyOf(set), r)
	}
	w.next = nil
}

// attempt prepares the settings that the attack began with, but for a small share and a number of
// other values; nil if the switch refuses all attempts.
func (w *world) attempt(share, values int) *reload {
	for range 8 {
		s := w.base.clone()
		s.lossless.alpha, s.lossless.xon, s.lossless.share = "", "", share
		for range values {
			w.vary(s)
		}
		if r := w.prepare(s); r != nil {
			return r
		}
	}
	return nil
}

// ensnare prepares the moment for a change, and changes.
func (w *world) ensnare(victim, egress *peer, q uint8, r *reload) {
	for _, p := range w.peers {
		p.traffic = traffic{}
	}
	egress.say(1<<q, 65535)
	w.run(w.gap + 20_000)
	for _, p := range w.peers {
		if p != victim {
			h := w.anyOf(^uint8(1 << q))
			p.traffic = traffic{priorities: []uint8{h}, to: []int{victim.port}, left: -1,
				size: pick(w.rng, shortestFrames, longestFrames)}
		}
	}
	fill := 2*w.gap + int64(w.inFlight[victim.port])*16e9/victim.speed
	w.run(fill)
	victim.traffic = traffic{priorities: []uint8{q}, to: []int{egress.port}, left: -1, first: true,
		size: pick(w.rng, shortestFrames, densestFrames)}
	w.await(victim, q, r)
	if w.next == r {
		w.change(r)
	}
	w.run(3*w.gap + w.silence(victim.port) + w.reaction[victim.port] + 20_000)
	for _, p := range w.peers {
		p.traffic = traffic{}
	}
	egress.say(0xff, 0)
	w.run(50_000)
}

// await waits for the moment for a change, which may happen meanwhile.
func (w *world) await(victim *peer, q uint8, r *reload) {
	g := &w.params.Ports[victim.port].Cells.Groups[q]
	limit := g.Reserved + g.Share
	part := pick(w.rng, .5, .8, .95, 2)
	stopped := false
	victim.onPause = func(f pfc.Frame) {
		if f.Enable>>q&1 == 1 && f.Quanta[q] > 0 {
			if stopped = true; part > 1 && w.next == r {
				w.change(r)
			}
		}
	}
	for end := w.now + 2*int64(limit)*victim.slot(victim.dense[victim.port])/1000 + 4*w.gap; w.now < end && !stopped; {
		if g := &w.s.Ports(w.now)[victim.port].Groups[q]; float64(g.Reserved+g.Shared) > part*float64(limit) {
			break
		}
		w.run(max(100, w.gap/8))
	}
	if stopped && w.rng.IntN(2) == 0 {
		w.run(w.rng.Int64N(w.silence(victim.port)))
	}
}
