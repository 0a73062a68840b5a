package cells

import (
	"fmt"
	"math"
)

// Manager is the accounting of one pool of cells. It belongs to the one worker that owns the pool's ports: all its
// fields are written by that worker only. Ports and priorities (or queues) are indices as in Params; the caller
// vouches that they exist, and that it releases and dequeues just what it was granted.
type Manager struct {
	groups     []group // port*Priorities + priority
	queues     []queue // port*Priorities + queue
	congested  []uint8 // by port: bit n is set while group n is in XOFF
	sharedFree int32   // cells of the shared pool that no group holds
	inUse      int     // cells that the groups hold
	reciprocal uint64  // 2^reciprocalShift / cell size, rounded up
	sharedPool int32
	cells      int
}

// group is one priority group in 32 bytes, two to a cache line; all in cells. Usage is kept as two numbers: used is
// spent on the reserved part first, so that the shared part of it is what exceeds reserved.
type group struct {
	used     int32 // reserved and shared cells held
	reserved int32
	limit    int32 // reserved + share
	peak     int32 // the most that used has been

	headroom      int32 // headroom cells held
	headroomLimit int32 // 0: lossy
	headroomPeak  int32
	xon           int32
}

// queue is one egress queue, in cells.
type queue struct {
	used  int32
	limit int32
	peak  int32
}

// GroupUsage is what a priority group holds now, and the most it ever held, in cells.
type GroupUsage struct{ Reserved, Shared, Headroom, PeakShared, PeakHeadroom int }

// QueueUsage is what an egress queue holds now, and the most it ever held, in cells.
type QueueUsage struct{ Used, Peak int }

// NewManager returns the accounting of an idle pool. It refuses parameters whose promises can't be kept, each with
// the number that would do.
func NewManager(p Params) (*Manager, error) {
	sharedPool, err := p.check()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		groups:     make([]group, len(p.Ports)*Priorities),
		queues:     make([]queue, len(p.Ports)*Priorities),
		congested:  make([]uint8, len(p.Ports)),
		sharedFree: int32(sharedPool),
		sharedPool: int32(sharedPool),
		cells:      p.Cells,
		reciprocal: 1<<reciprocalShift/uint64(p.CellSize) + 1,
	}
	for n := range p.Ports {
		for i := range Priorities {
			g := &p.Ports[n].Groups[i]
			m.groups[n*Priorities+i] = group{
				reserved:      int32(g.Reserved),
				limit:         int32(g.Reserved + g.Share),
				headroomLimit: int32(g.Headroom),
				xon:           int32(g.XON),
			}
			limit := int32(p.Ports[n].Queues[i].Limit)
			if limit == 0 {
				limit = math.MaxInt32
			}
			m.queues[n*Priorities+i].limit = limit
		}
	}
	return m, nil
}

// reciprocalShift makes Cells exact: r = floor(2^32 / d) + 1 exceeds 2^32 / d by at most 1, so n * r exceeds
// 2^32 * n / d by at most n. That carries into no wrong integer while n < 2^32 / d, true for n and d below 2^16.
const reciprocalShift = 32

// Cells returns what a frame of length bytes (up to 65535) costs: ceil(length / cell size), at least 1.
func (m *Manager) Cells(length int) int {
	return int(uint64(max(length, 1)-1)*m.reciprocal>>reciprocalShift) + 1
}

// Admit charges a frame's cells to its priority group, all of them or, with a reason, none.
func (m *Manager) Admit(port, priority, cells int) Reason {
	g := &m.groups[port*Priorities+priority]
	used := g.used + int32(cells)
	shared := max(used, g.reserved) - max(g.used, g.reserved)
	if used > g.limit || shared > m.sharedFree {
		return m.admitPastShare(port, priority, int32(cells))
	}
	g.used = used
	g.peak = max(g.peak, used)
	m.sharedFree -= shared
	m.inUse += cells
	return Admitted
}

// admitPastShare is Admit for a frame that doesn't fit into its group's reserved and shared cells.
func (m *Manager) admitPastShare(port, priority int, cells int32) Reason {
	g := &m.groups[port*Priorities+priority]
	if g.headroomLimit == 0 {
		return IngressFull
	}
	owned := max(g.used, g.reserved)
	used := min(g.limit, owned+m.sharedFree)
	headroom := g.headroom + cells - (used - g.used)
	if headroom > g.headroomLimit {
		return HeadroomFull
	}
	g.used = used
	g.peak = max(g.peak, used)
	g.headroom = headroom
	g.headroomPeak = max(g.headroomPeak, headroom)
	m.sharedFree -= max(used, g.reserved) - owned
	m.inUse += int(cells)
	m.congested[port] |= 1 << (uint(priority) % Priorities)
	return Admitted
}

// Release takes a frame's cells back from its priority group: from headroom first, then from the shared, then from
// the reserved cells. It panics when the group doesn't hold that many.
func (m *Manager) Release(port, priority, cells int) {
	g := &m.groups[port*Priorities+priority]
	headroom := max(g.headroom-int32(cells), 0)
	used := g.used - (int32(cells) - (g.headroom - headroom))
	if used < 0 {
		overdrawn("priority", port, priority, -used)
	}
	m.sharedFree += max(g.used, g.reserved) - max(used, g.reserved)
	m.inUse -= cells
	g.headroom = headroom
	g.used = used
	if headroom == 0 && used <= g.xon {
		m.congested[port] &^= 1 << (uint(priority) % Priorities)
	}
}

// Congested returns the groups of a port that are in XOFF: bit n is priority n.
func (m *Manager) Congested(port int) uint8 { return m.congested[port] }

// Enqueue charges a frame's cells to an egress queue, all of them or none (QueueFull).
func (m *Manager) Enqueue(port, queue, cells int) Reason {
	q := &m.queues[port*Priorities+queue]
	used := q.used + int32(cells)
	if used > q.limit {
		return QueueFull
	}
	q.used = used
	q.peak = max(q.peak, used)
	return Admitted
}

// Dequeue takes a frame's cells back from an egress queue. It panics when the queue doesn't hold that many.
func (m *Manager) Dequeue(port, queue, cells int) {
	q := &m.queues[port*Priorities+queue]
	used := q.used - int32(cells)
	if used < 0 {
		overdrawn("queue", port, queue, -used)
	}
	q.used = used
}

// overdrawn keeps the formatting out of the hot functions, so that they stay small.
//
//go:noinline
func overdrawn(what string, port, index int, cells int32) {
	panic(fmt.Sprintf("cells: port %d %s %d: %d cells given back beyond what it holds", port, what, index, cells))
}

// InUse returns the cells that all priority groups hold together.
func (m *Manager) InUse() int { return m.inUse }

// Group returns a priority group's usage.
func (m *Manager) Group(port, priority int) GroupUsage {
	g := &m.groups[port*Priorities+priority]
	reserved := min(g.used, g.reserved)
	return GroupUsage{
		Reserved:     int(reserved),
		Shared:       int(g.used - reserved),
		Headroom:     int(g.headroom),
		PeakShared:   int(max(g.peak-g.reserved, 0)),
		PeakHeadroom: int(g.headroomPeak),
	}
}

// Queue returns an egress queue's usage.
func (m *Manager) Queue(port, queue int) QueueUsage {
	q := &m.queues[port*Priorities+queue]
	return QueueUsage{Used: int(q.used), Peak: int(q.peak)}
}

// Check verifies conservation: no usage is negative or beyond its limit, the groups' cells add up to the pool's, and
// XOFF is set exactly where it may be. It walks all groups and is meant for tests and health checks.
func (m *Manager) Check() error {
	var inUse int
	var shared int32
	for i := range m.groups {
		g, q := &m.groups[i], &m.queues[i]
		port, priority := i/Priorities, i%Priorities
		xoff := m.congested[port]>>priority&1 == 1
		switch {
		case g.used < 0 || g.used > g.limit || g.headroom < 0 || g.headroom > g.headroomLimit:
			return fmt.Errorf("cells: port %d priority %d: %d cells of %d and headroom %d of %d in use",
				port, priority, g.used, g.limit, g.headroom, g.headroomLimit)
		case g.headroom > 0 && !xoff, xoff && g.headroom == 0 && g.used <= g.xon:
			return fmt.Errorf("cells: port %d priority %d: XOFF %t with %d cells (XON at %d) and %d of headroom in use",
				port, priority, xoff, g.used, g.xon, g.headroom)
		case q.used < 0 || q.used > q.limit:
			return fmt.Errorf("cells: port %d queue %d: %d cells of %d in use", port, priority, q.used, q.limit)
		}
		inUse += int(g.used + g.headroom)
		shared += max(g.used-g.reserved, 0)
	}
	if inUse != m.inUse || inUse > m.cells {
		return fmt.Errorf("cells: groups hold %d cells, the pool of %d counts %d", inUse, m.cells, m.inUse)
	}
	if m.sharedFree < 0 || shared != m.sharedPool-m.sharedFree {
		return fmt.Errorf("cells: groups hold %d shared cells, of %d are %d free", shared, m.sharedPool, m.sharedFree)
	}
	return nil
}
