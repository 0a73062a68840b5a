package cells

import "fmt"

// GroupUsage is what a priority group holds, in cells. A peak is the most since the watermarks were
// cleared, a max the most since the start (SAI's user and persistent watermarks).
type GroupUsage struct {
	Reserved, Shared, Headroom int
	PeakShared, PeakHeadroom   int
	MaxShared, MaxHeadroom     int
}

// QueueUsage is what an egress queue holds, in cells.
type QueueUsage struct{ Used, Peak, Max int }

// PoolUsage is what is in use of a pool, in cells. An egress pool has no headroom.
type PoolUsage struct {
	Size, Used, Peak, Max                             int // shared cells
	HeadroomSize, Headroom, PeakHeadroom, MaxHeadroom int
}

// InUse returns the cells that all priority groups hold together. It walks all groups.
func (m *Manager) InUse() int {
	n := 0
	for i := range m.groups {
		n += int(m.groups[i].used + m.groups[i].headroom)
	}
	return n
}

// Promised returns the cells that priority groups may still take. It walks all groups.
func (m *Manager) Promised() int {
	n := 0
	for i := range m.pools {
		n += int(max(m.pools[i].free, 0) + max(m.pools[i].headroom, 0))
	}
	for i := range m.groups {
		n += int(max(m.marks[i].reserved-m.groups[i].used, 0))
	}
	return n
}

// Group returns a priority group's usage.
func (m *Manager) Group(port, priority int) GroupUsage {
	g, mark := &m.groups[port*Priorities+priority], &m.marks[port*Priorities+priority]
	reserved := min(g.used, g.reserved)
	return GroupUsage{
		Reserved:     int(reserved),
		Shared:       int(g.used - reserved),
		Headroom:     int(g.headroom),
		PeakShared:   int(max(g.peak-g.reserved, 0)),
		PeakHeadroom: int(mark.headroomPeak),
		MaxShared:    int(max(g.peak-g.reserved, mark.maxUsed-g.reserved, 0)),
		MaxHeadroom:  int(max(mark.headroomPeak, mark.maxHeadroom)),
	}
}

// HeadroomLeft returns how many more cells a group may hold in its headroom.
func (m *Manager) HeadroomLeft(port, priority int) int {
	at := port*Priorities + priority
	return int(min(m.marks[at].most-m.groups[at].headroom, m.groups[at].pool.headroom))
}

// HoldsHeadroom reports whether a group of a port holds cells in its headroom.
func (m *Manager) HoldsHeadroom(port int) bool {
	for priority := range Priorities {
		if m.groups[port*Priorities+priority].headroom > 0 {
			return true
		}
	}
	return false
}

// Queue returns an egress queue's usage.
func (m *Manager) Queue(port, queue int) QueueUsage {
	q, ever := &m.queues[port*Priorities+queue], m.marks[port*Priorities+queue].maxQueued
	return QueueUsage{Used: int(q.used), Peak: int(q.peak), Max: int(max(q.peak, ever))}
}

// Pools returns how many ingress pools there are.
func (m *Manager) Pools() int { return len(m.pools) }

// EgressPools returns how many egress pools there are.
func (m *Manager) EgressPools() int { return len(m.egress) }

// Pool returns an ingress pool's usage.
func (m *Manager) Pool(n int) PoolUsage { return m.pools[n].usage() }

// EgressPool returns an egress pool's usage.
func (m *Manager) EgressPool(n int) PoolUsage { return m.egress[n].usage() }

func (p *pool) usage() PoolUsage {
	return PoolUsage{
		Size: int(p.size), Used: int(p.size - p.free), Peak: int(p.size - p.low),
		Max:          int(p.size - min(p.low, p.minFree)),
		HeadroomSize: int(p.headroomSize), Headroom: int(p.headroomSize - p.headroom),
		PeakHeadroom: int(p.headroomSize - p.headroomLow),
		MaxHeadroom:  int(p.headroomSize - min(p.headroomLow, p.minHeadroom)),
	}
}

// ClearWatermarks resets all peaks to what is held now. The maxima since the start are kept.
func (m *Manager) ClearWatermarks() {
	for i := range m.groups {
		g, q, mark := &m.groups[i], &m.queues[i], &m.marks[i]
		mark.maxUsed = max(mark.maxUsed, g.peak)
		mark.maxHeadroom = max(mark.maxHeadroom, mark.headroomPeak)
		mark.maxQueued = max(mark.maxQueued, q.peak)
		g.peak, mark.headroomPeak, q.peak = g.used, g.headroom, q.used
	}
	for i := range m.pools {
		m.pools[i].clearWatermarks()
	}
	for i := range m.egress {
		m.egress[i].clearWatermarks()
	}
}

// ForgetWatermarks resets the peaks and maxima of a port's groups and queues to what is held now.
// It is for a port number that now belongs to another port.
func (m *Manager) ForgetWatermarks(port int) {
	for at := port * Priorities; at < (port+1)*Priorities; at++ {
		g, q, mark := &m.groups[at], &m.queues[at], &m.marks[at]
		g.peak, mark.headroomPeak, q.peak = g.used, g.headroom, q.used
		mark.maxUsed, mark.maxHeadroom, mark.maxQueued = 0, 0, 0
	}
}

func (p *pool) clearWatermarks() {
	p.minFree, p.minHeadroom = min(p.minFree, p.low), min(p.minHeadroom, p.headroomLow)
	p.low, p.headroomLow = p.free, p.headroom
}

// Check verifies conservation: no usage is negative or above its limit, the cells of groups and
// queues add up to those of their pools, and XOFF is set where it must be. It walks all groups and
// is meant for tests and health checks.
func (m *Manager) Check() error {
	shared, headroom, queued := map[*pool]int32{}, map[*pool]int32{}, map[*pool]int32{}
	rivals := map[*pool]int32{}
	for i := range m.groups {
		if err := m.checkGroup(i/Priorities, i%Priorities); err != nil {
			return err
		}
		g, q := &m.groups[i], &m.queues[i]
		shared[g.pool] += max(g.used-g.reserved, 0)
		headroom[g.pool] += g.headroom
		if g.rival {
			rivals[g.pool] += max(g.used-g.reserved, 0)
		}
		if q.alpha != 0 {
			queued[q.pool] += q.used
		}
	}
	if inUse := m.InUse(); inUse > m.cells {
		return fmt.Errorf("cells: groups hold %d cells of %d", inUse, m.cells)
	}
	for i := range m.pools {
		if p := &m.pools[i]; p.held != rivals[p] {
			return fmt.Errorf("cells: pool %d: rivals hold %d cells, %d are counted", i, rivals[p], p.held)
		}
		if err := m.pools[i].check(shared[&m.pools[i]], headroom[&m.pools[i]]); err != nil {
			return fmt.Errorf("cells: pool %d: %w", i, err)
		}
	}
	for i := range m.egress {
		if err := m.egress[i].check(queued[&m.egress[i]], 0); err != nil {
			return fmt.Errorf("cells: egress pool %d: %w", i, err)
		}
	}
	return nil
}

// check compares the pool's accounts with the sums of its groups or queues.
func (p *pool) check(shared, headroom int32) error {
	if p.free < p.least || shared != p.size-p.free {
		return fmt.Errorf("%d shared cells are in use; of %d, %d are free", shared, p.size, p.free)
	}
	if p.headroom < p.headroomLeast || headroom != p.headroomSize-p.headroom {
		return fmt.Errorf("%d cells of headroom are in use; of %d, %d are free", headroom, p.headroomSize, p.headroom)
	}
	return nil
}

func (m *Manager) checkGroup(port, priority int) error {
	at := port*Priorities + priority
	g, q, most := &m.groups[at], &m.queues[at], m.marks[at].most
	xoff := m.congested[port]>>priority&1 == 1
	// A dynamic limit sinks below what is held when others take cells, but is never above the whole
	// pool. What was taken over may be above any limit.
	limit := g.base
	if g.alpha > 0 {
		limit += max(g.pool.size, 0)
	}
	limit = max(limit, m.marks[at].inherited)
	switch {
	case g.used < 0 || g.used > limit || g.headroom < 0 || g.headroom > most:
		return fmt.Errorf("cells: port %d priority %d: %d cells of %d and headroom %d of %d in use",
			port, priority, g.used, limit, g.headroom, most)
	case g.headroom > 0 && !xoff, xoff && most == 0:
		return fmt.Errorf("cells: port %d priority %d: XOFF %t with %d of %d of headroom in use", port, priority, xoff,
			g.headroom, most)
	case !m.heldAddsUp(at):
		return fmt.Errorf("cells: port %d queue %d: %d cells in use, of which ports hold %d", port, priority, q.used,
			m.held[at*m.ports:(at+1)*m.ports])
	case q.used < 0 || q.alpha == 0 && q.used > max(q.limit, m.marks[at].queueInherited):
		return fmt.Errorf("cells: port %d queue %d: %d cells of %d in use", port, priority, q.used, q.limit)
	}
	return nil
}

// heldAddsUp reports whether the cells that ports hold of a queue add up to its usage.
func (m *Manager) heldAddsUp(at int) bool {
	sum := int32(0)
	for _, n := range m.held[at*m.ports : (at+1)*m.ports] {
		if sum += n; n < 0 {
			return false
		}
	}
	return sum == m.queues[at].used
}
