package bridge

import "fmt"

// succession is how a bridge changes the table that it takes over.
type succession struct {
	unpin []uint64       // static entries that are removed
	pin   map[uint64]int // new static entries, and those that move to another port: the port by key
	left  []int          // ports that have left a VLAN, and may have learned addresses in it
	fcoe  []uint16       // VLANs that have become FCoE VLANs, where addresses may have been learned
}

// Successor returns a Bridge with other parameters that is to take over from b. b may be in use in
// the meantime, also by other goroutines, since Successor reads only what never changes. Mode and
// capacity must stay the same; ports may be added after those of b.
func (b *Bridge) Successor(p Params) (*Bridge, error) {
	p = p.withDefaults()
	switch {
	case p.Mode != b.params.Mode || p.Capacity != b.params.Capacity:
		return nil, fmt.Errorf("bridge: mode and capacity can't change while frames are forwarded: make a new Bridge")
	case len(p.Ports) < len(b.params.Ports):
		return nil, fmt.Errorf("bridge: %d ports after %d: a removed port keeps its number, in no VLAN", len(p.Ports),
			len(b.params.Ports))
	}
	next, err := build(p)
	if err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	next.succession = succeed(b, next)
	return next, nil
}

func succeed(b, next *Bridge) succession {
	s := succession{pin: map[uint64]int{}}
	was, is := b.params.statics(), next.params.statics()
	for key, port := range is {
		if before, known := was[key]; !known || before != port {
			s.pin[key] = port
		}
	}
	for key := range was {
		if _, stays := is[key]; !stays {
			s.unpin = append(s.unpin, key)
		}
	}
	for i := range b.params.Ports {
		before, _ := b.params.vlans(i)
		now, fcoe := next.params.vlans(i)
		for word := range before.bits {
			if before.bits[word]&^(now.bits[word]|fcoe.bits[word]) != 0 {
				s.left = append(s.left, i)
				break
			}
		}
	}
	for vid := uint16(1); vid <= maxVLAN; vid++ {
		if next.params.fcoe(vid) && !b.params.fcoe(vid) {
			s.fcoe = append(s.fcoe, vid)
		}
	}
	return s
}

// TakeOver makes b continue at time now (ns) with the table and the counters of old, whose
// Successor it must be. Addresses learned on ports that have left a VLAN are forgotten, and those
// learned in VLANs that have become FCoE VLANs. Its cost grows with the number of ports and of
// static entries that differ, not with the table. old must not be used afterwards.
func (b *Bridge) TakeOver(now int64, old *Bridge) {
	b.table, b.stats, b.forgot, b.sweepCursor = old.table, old.stats, old.forgot, old.sweepCursor
	b.untidy = old.untidy
	b.periodFrom, b.periodUntil = old.periodFrom, min(old.periodUntil, at(now)+b.ageing/periodsPerAgeing)
	b.nextUpkeep = min(old.nextUpkeep, (now>>tickShift+b.sweepEvery)<<tickShift)
	copy(b.own, old.own)
	b.flushes = append(b.flushes, old.flushes...)
	for i := range old.ports {
		b.ports[i].since = old.ports[i].since
		b.takeOverAnomalies(i, old)
		b.bpdus[i].takeOver(&old.bpdus[i])
		s := &b.shares[i]
		s.used = old.shares[i].used
		b.common += max(0, s.used-s.kept)
	}
	if b.storms != nil && old.storms != nil {
		for i := range old.storms {
			for kind := range old.storms[i] {
				b.storms[i][kind].takeOver(&old.storms[i][kind])
			}
		}
	}
	b.pinAnew()
	for _, port := range b.succession.left {
		b.Forget(now, port)
	}
	for _, vid := range b.succession.fcoe {
		b.Flush(now, AnyPort, vid)
	}
}

// vacant reports whether the port number is no longer in use.
func (b *Bridge) vacant(port int) bool {
	return b.ports[port].vlans == (VLANSet{}) && (b.fcoe == nil || b.fcoe[port] == (VLANSet{}))
}

// takeOverAnomalies keeps the anomalies of a port number that is still in use. Examples no longer
// name ports that have left, since another port may get their number.
func (b *Bridge) takeOverAnomalies(port int, old *Bridge) {
	if b.vacant(port) {
		return
	}
	b.anomalies[port] = old.anomalies[port]
	for what := range b.anomalies[port] {
		if s := &b.anomalies[port][what]; s.Frames > 0 && s.From >= 0 && b.vacant(s.From) {
			s.From = -1
		}
	}
}

// pinAnew replaces the static entries of the table by those of b.
func (b *Bridge) pinAnew() {
	for _, key := range b.succession.unpin {
		b.table.remove(b.table.position(key))
	}
	for key, port := range b.succession.pin {
		e := b.table.find(key)
		switch {
		case e == nil:
			e = b.table.insert(key)
		case !e.seen.static():
			b.give(&b.shares[e.seen.port()])
			b.stats.Removed++
		}
		e.seen = atLast | pinned | lastSeen(port)
	}
}
