package cells

// TakeOver makes m continue with the accounts of old, which it replaces with other parameters: what
// groups and queues hold, their watermarks and those of pools that old has too, and which groups
// are in XOFF. m must be new, with the same cell size and at least the ports of old; old must not
// be used afterwards. TakeOver does not allocate.
//
// Cells held beyond the new limits stay held. Their pool is then overdrawn and admits nothing until
// enough has been given back; until then more cells may be in use than there are, and as many fewer
// buffers wait with drivers. A lossless group beyond its new limit goes into XOFF with its next
// frame, as always.
//
// Lossless groups keep the headroom that they had until Settle gives them that of m's parameters.
// What they have beyond it is lent by the shared cells of their pool. A group that has become lossy
// gives its headroom up at once; cells that it holds there count as shared. A pool with less
// headroom than before keeps what it had until none is in use. Groups with more reserved cells than
// before get them by Settle.
func (m *Manager) TakeOver(old *Manager) {
	inheritWatermarks(m.pools, old.pools)
	inheritWatermarks(m.egress, old.egress)
	for at := range m.groups {
		m.keepHeadroom(at, old)
	}
	for i := range m.pools {
		m.keepPool(i, old)
	}
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

// Uncover takes the headroom of a port away before a TakeOver by another manager, for a port that
// could not stop its link partner so far. So its groups are lossy until Settle gives them that of
// the parameters.
func (m *Manager) Uncover(port int) {
	for priority := range Priorities {
		m.marks[port*Priorities+priority].most = 0
	}
}

// keepHeadroom leaves a lossless group the headroom that it had in old: none if it is new.
func (m *Manager) keepHeadroom(at int, old *Manager) {
	mark, most, reserved := &m.marks[at], int32(0), int32(0)
	if at < len(old.marks) {
		most, reserved = old.marks[at].most, old.groups[at].reserved
	}
	g := &m.groups[at]
	g.reserved = min(g.reserved, reserved)
	if mark.due != 0 {
		mark.most = most
		g.pool.lend(max(0, most-mark.due))
	}
}

// keepPool leaves a pool as much headroom as it had in old, and its groups may use, if some is in
// use.
func (m *Manager) keepPool(i int, old *Manager) {
	p, most := &m.pools[i], int32(0)
	for at := range m.groups {
		if m.groups[at].pool == p {
			most += m.marks[at].most
		}
	}
	if from := predecessor(old.pools, i, p.name); from != nil && from.headroom < from.headroomSize {
		p.surplus = max(0, min(from.headroomSize, most)-p.headroomSize)
		p.lend(p.surplus)
	}
}

// lend moves shared cells of the pool to its headroom; less than 0: back.
func (p *pool) lend(cells int32) {
	p.size, p.free, p.low, p.minFree = p.size-cells, p.free-cells, p.low-cells, p.minFree-cells
	p.headroomSize, p.headroom = p.headroomSize+cells, p.headroom+cells
	p.headroomLow, p.minHeadroom = p.headroomLow+cells, p.minHeadroom+cells
	p.least, p.headroomLeast = min(p.least-cells, 0), p.headroomLeast+cells
}

// Settle gives the groups of a port the headroom of their parameters, where TakeOver has left them
// another one. A group gets more once no pool is overdrawn, since there are buffers for it only
// then. It gives up what it has too much once it is not in XOFF and the caller says that the link
// is covered: that the new headroom holds all that the link partner may send after an XOFF from now
// on. Settle returns the groups that still have too little headroom, and those that otherwise still
// have to change (bit n: priority n).
func (m *Manager) Settle(port int, covered bool) (little, much uint8) {
	for priority := range Priorities {
		at := port*Priorities + priority
		mark := &m.marks[at]
		if !m.reserve(at) {
			much |= 1 << priority
		}
		switch more := mark.due - mark.most; {
		case more == 0:
			continue
		case more < 0 && covered && m.congested[port]>>priority&1 == 0:
			m.groups[at].pool.lend(more)
		case more < 0:
			much |= 1 << priority
			continue
		case m.overdrawn():
			little |= 1 << priority
			continue
		}
		mark.most = mark.due
	}
	return little, much
}

// reserve gives a group the reserved cells of its parameters, once no pool is overdrawn, and
// reports whether it has them. Before that, they may be in use elsewhere, and headroom would lack.
func (m *Manager) reserve(at int) bool {
	g, due := &m.groups[at], m.marks[at].reserved
	if g.reserved < due && !m.overdrawn() {
		g.back(max(g.used, g.reserved) - max(g.used, due) + due - g.reserved)
		g.reserved = due
	}
	return g.reserved == due
}

// Lossless returns the groups of a port that have headroom now.
func (m *Manager) Lossless(port int) (groups uint8) {
	for priority := range Priorities {
		if m.marks[port*Priorities+priority].most > 0 {
			groups |= 1 << priority
		}
	}
	return groups
}

// overdrawn reports whether more cells are in use somewhere than the parameters provide.
func (m *Manager) overdrawn() bool {
	for i := range m.pools {
		if p := &m.pools[i]; p.free < 0 || p.headroom < 0 {
			return true
		}
	}
	return false
}

func (m *Manager) inheritGroup(at int, old *Manager) {
	g, mark, from, was := &m.groups[at], &m.marks[at], &old.groups[at], &old.marks[at]
	g.used, g.headroom = from.used, from.headroom
	if mark.most == 0 {
		g.used, g.headroom = from.used+from.headroom, 0
	}
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
