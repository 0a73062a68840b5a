package cells

import "pgregory.net/rapid"

// frame is one frame of a test: where it came from (or waits) and what it costs.
type frame struct{ port, priority, cells int }

// kind is the part of the pool that one cell of the model is taken from.
type kind int

const (
	reservedCell kind = iota
	sharedCell
	headroomCell
)

// model is the same accounting told as slowly and plainly as possible: every cell that a group holds is an element
// of a slice with its kind, taken and given back one by one.
type model struct {
	params  Params
	pool    int               // size of the shared pool
	held    map[[2]int][]kind // by port and priority
	xoff    map[[2]int]bool
	peak    map[[2]int]GroupUsage
	queued  map[[2]int]int
	deepest map[[2]int]int
}

func newModel(p Params) *model {
	m := &model{params: p, pool: p.Cells, held: map[[2]int][]kind{}, xoff: map[[2]int]bool{},
		peak: map[[2]int]GroupUsage{}, queued: map[[2]int]int{}, deepest: map[[2]int]int{}}
	for _, port := range p.Ports {
		for _, g := range port.Groups {
			m.pool -= g.Reserved + g.Headroom
		}
	}
	return m
}

func count(cells []kind, k kind) int {
	n := 0
	for _, c := range cells {
		if c == k {
			n++
		}
	}
	return n
}

func (m *model) sharedInUse() int {
	n := 0
	for _, cells := range m.held {
		n += count(cells, sharedCell)
	}
	return n
}

func (m *model) admit(f frame) Reason {
	at := [2]int{f.port, f.priority}
	g := m.params.Ports[f.port].Groups[f.priority]
	before := len(m.held[at])
	for range f.cells {
		cells := m.held[at]
		switch {
		case count(cells, reservedCell) < g.Reserved:
			m.held[at] = append(cells, reservedCell)
		case count(cells, sharedCell) < g.Share && m.sharedInUse() < m.pool:
			m.held[at] = append(cells, sharedCell)
		case count(cells, headroomCell) < g.Headroom:
			m.held[at] = append(cells, headroomCell)
		default:
			m.held[at] = cells[:before]
			if g.Lossless {
				return HeadroomFull
			}
			return IngressFull
		}
	}
	u := m.usage(at)
	m.xoff[at] = m.xoff[at] || u.Headroom > 0
	m.peak[at] = GroupUsage{PeakShared: u.PeakShared, PeakHeadroom: u.PeakHeadroom}
	return Admitted
}

func (m *model) release(f frame) {
	at := [2]int{f.port, f.priority}
	for range f.cells {
		m.held[at] = withoutOne(m.held[at])
	}
	u := m.usage(at)
	if u.Headroom == 0 && u.Reserved+u.Shared <= m.params.Ports[f.port].Groups[f.priority].XON {
		m.xoff[at] = false
	}
}

// withoutOne gives back one cell: of headroom if there is one, else a shared, else a reserved one.
func withoutOne(cells []kind) []kind {
	for _, k := range []kind{headroomCell, sharedCell, reservedCell} {
		for i, c := range cells {
			if c == k {
				return append(cells[:i:i], cells[i+1:]...)
			}
		}
	}
	panic("the model holds no cell")
}

func (m *model) usage(at [2]int) GroupUsage {
	cells, peak := m.held[at], m.peak[at]
	shared, headroom := count(cells, sharedCell), count(cells, headroomCell)
	return GroupUsage{
		Reserved: count(cells, reservedCell), Shared: shared, Headroom: headroom,
		PeakShared: max(peak.PeakShared, shared), PeakHeadroom: max(peak.PeakHeadroom, headroom),
	}
}

func (m *model) enqueue(f frame) Reason {
	at := [2]int{f.port, f.priority}
	limit := m.params.Ports[f.port].Queues[f.priority].Limit
	if limit > 0 && m.queued[at]+f.cells > limit {
		return QueueFull
	}
	m.queued[at] += f.cells
	m.deepest[at] = max(m.deepest[at], m.queued[at])
	return Admitted
}

func (m *model) dequeue(f frame) { m.queued[[2]int{f.port, f.priority}] -= f.cells }

func (m *model) compare(t *rapid.T, got *Manager) {
	t.Helper()
	inUse := 0
	for port := range m.params.Ports {
		for i := range Priorities {
			at := [2]int{port, i}
			if g, w := got.Group(port, i), m.usage(at); g != w {
				t.Fatalf("port %d priority %d: %+v, want %+v", port, i, g, w)
			}
			if g, w := got.Congested(port)>>i&1 == 1, m.xoff[at]; g != w {
				t.Fatalf("port %d priority %d: XOFF %t, want %t", port, i, g, w)
			}
			if g, w := got.Queue(port, i), (QueueUsage{m.queued[at], m.deepest[at]}); g != w {
				t.Fatalf("port %d queue %d: %+v, want %+v", port, i, g, w)
			}
			inUse += len(m.held[at])
		}
	}
	if got.InUse() != inUse {
		t.Fatalf("%d cells in use, want %d", got.InUse(), inUse)
	}
}
