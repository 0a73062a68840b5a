package cells

// TakeOver makes m continue with the accounts of old, which it replaces with other parameters: what
// groups and queues hold, their watermarks and those of pools that old has too, and which groups
// are in XOFF. m must be new, with the same cell size and at least the ports of old; old must not
// be used afterwards. TakeOver does not allocate.
//
// Cells held beyond the new limits stay held. Their pool is then overdrawn and admits nothing until
// enough has been given back; until then more cells may be in use than there are, and as many fewer
// buffers wait with drivers. A lossless group beyond its new limit goes into XOFF with its next
// frame, as always. If a group's headroom shrinks while in use, the group keeps as many free
// headroom cells as it had, or all of the new headroom if that is less, since the link partner may
// still send as much; cells held beyond that count as shared.
func (m *Manager) TakeOver(old *Manager) {
	inheritWatermarks(m.pools, old.pools)
	inheritWatermarks(m.egress, old.egress)
	for at := range old.groups {
		m.inheritGroup(at, old)
		m.inheritQueue(at, old)
	}
	for i := range m.pools {
		m.cells += m.pools[i].inherited()
	}
	for i := range m.egress {
		m.egress[i].inherited()
	}
	for port, xoff := range old.congested {
		for priority := range Priorities {
			if m.marks[port*Priorities+priority].most > 0 {
				m.congested[port] |= xoff & (1 << priority)
			}
		}
	}
	m.state = old.state
}

func (m *Manager) inheritGroup(at int, old *Manager) {
	g, mark, from, was := &m.groups[at], &m.marks[at], &old.groups[at], &old.marks[at]
	room := was.most - from.headroom
	g.headroom = max(0, min(from.headroom, mark.most-room))
	g.used = from.used + from.headroom - g.headroom
	g.peak = max(from.peak, g.used)
	g.back(-max(g.used-g.reserved, 0))
	g.pool.headroom -= g.headroom
	mark.inherited = g.used
	mark.headroomPeak = max(was.headroomPeak, g.headroom)
	mark.maxUsed, mark.maxHeadroom, mark.maxQueued = was.maxUsed, was.maxHeadroom, was.maxQueued
}

func (m *Manager) inheritQueue(at int, old *Manager) {
	q, from := &m.queues[at], &old.queues[at]
	q.used, q.peak = from.used, from.peak
	if q.alpha != 0 {
		q.pool.free -= q.used
	}
	copy(m.held[at*m.ports:], old.held[at*old.ports:(at+1)*old.ports])
	m.marks[at].queueInherited = q.used
	m.reds[at].depth = old.reds[at].depth
}

// inheritWatermarks copies the peak usage of each pool.
func inheritWatermarks(pools, old []pool) {
	for i := range pools {
		if from := predecessor(old, i, pools[i].name); from != nil {
			pools[i].inheritWatermarks(from)
		}
	}
}

// predecessor returns the old pool that the one with this name and index continues, or nil: the
// pool with the same name, or, if it has no name, the unnamed one at the same index.
func predecessor(old []pool, place int, name string) *pool {
	if place < len(old) && old[place].name == name {
		return &old[place]
	}
	if name == "" {
		return nil
	}
	for i := range old {
		if old[i].name == name {
			return &old[i]
		}
	}
	return nil
}

func (p *pool) inheritWatermarks(old *pool) {
	p.low, p.minFree = p.size-(old.size-old.low), p.size-(old.size-old.minFree)
	p.headroomLow = p.headroomSize - (old.headroomSize - old.headroomLow)
	p.minHeadroom = p.headroomSize - (old.headroomSize - old.minHeadroom)
}

// inherited sets the pool's lower bounds after a takeover, and returns by how many cells it is
// overdrawn.
func (p *pool) inherited() int {
	p.low, p.headroomLow = min(p.low, p.free), min(p.headroomLow, p.headroom)
	p.least, p.headroomLeast = min(p.free, 0), min(p.headroom, 0)
	return -int(p.least + p.headroomLeast)
}
