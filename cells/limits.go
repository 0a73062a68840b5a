package cells

import "math"

// Limits is what a priority group, and the egress queue of the same number, may hold now, in cells.
// Dynamic limits depend on what others hold, and may be below what the group or queue holds.
type Limits struct {
	Reserved int
	Shared   int
	Headroom int // 0: the group is lossy
	Queue    int // 0: no limit
}

// Limits returns the limits of a priority group and of the egress queue with its number.
func (m *Manager) Limits(port, priority int) Limits {
	at := port*Priorities + priority
	g, q := &m.groups[at], &m.queues[at]
	l := Limits{
		Reserved: int(g.reserved),
		Shared:   int(g.limit(g.pool.free) - g.reserved),
		Headroom: int(m.marks[at].most),
	}
	switch {
	case q.alpha != 0:
		l.Queue = int(q.pool.dynamic(q.alpha))
	case q.limit != math.MaxInt32:
		l.Queue = int(q.limit)
	}
	return l
}
