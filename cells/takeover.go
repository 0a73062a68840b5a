package cells

// TakeOver makes m go on with the accounts of old, whose parameters it is to replace: what groups
// and queues hold, their watermarks and those of the pools that old has too, who is in XOFF. m must
// be new and have at least the ports of old, with the same size of cell; old is not to be used
// afterwards. It allocates nothing.
//
// What is held beyond the new limits stays held. Its pool is overdrawn then, and lets nothing more
// in until it has come back to what it has; until then more cells may be in use than there are, and
// as many fewer buffers wait with drivers. Of a lossless group it is the first frame beyond its new
// limit that sends XOFF, as ever. A group whose headroom becomes smaller while it is in use keeps
// as many free cells of it as there were, if the new one has so many, since the link partner may
// still send as much; what it holds beyond that counts as shared.
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

// inheritWatermarks takes over how much of each pool was used at the most.
func inheritWatermarks(pools, old []pool) {
	for i := range pools {
		if from := predecessor(old, i, pools[i].name); from != nil {
			pools[i].inheritWatermarks(from)
		}
	}
}

// predecessor returns the pool for which one with that name, in that place, goes on: it has the
// same name; nil if there was none.
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

// inherited notes what was taken over, and returns by how many cells the pool is overdrawn.
func (p *pool) inherited() int {
	p.low, p.headroomLow = min(p.low, p.free), min(p.headroomLow, p.headroom)
	p.least, p.headroomLeast = min(p.free, 0), min(p.headroom, 0)
	return -int(p.least + p.headroomLeast)
}
