package cells

import "pgregory.net/rapid"

// frame is one frame of a test: where it came from (or waits) and what it costs.
type frame struct{ port, priority, cells int }

// kind is the part of the memory that one cell of the model is taken from.
type kind int

const (
	reservedCell kind = iota
	sharedCell
	headroomCell
)

// model is the same accounting told as slowly and plainly as possible: every cell that a group holds is an element
// of a slice with its kind, taken and given back one by one; what is free is counted anew each time it is asked for.
type model struct {
	params Params
	pools  []PoolParams
	queues []QueuePoolParams
	held   map[[2]int][]kind // by port and priority
	xoff   map[[2]int]bool
	peak   map[[2]int]GroupUsage
	queued map[[2]int]QueueUsage
	used   []PoolUsage // by pool
	egress []PoolUsage

	rivalries map[any]*rivalry // by queue ([2]int) and pool (int)
}

// rivalry is about a queue or pool since it was last found half empty: who has asked for some of it since one was refused.
type rivalry struct {
	refused bool
	asked   map[int]bool
}

// about begins a frame's request for some cells, of which there are so many used and so many left.
func (m *model) about(place any, cells, used, room int) *rivalry {
	if m.rivalries[place] == nil || cells+used <= room {
		m.rivalries[place] = &rivalry{asked: map[int]bool{}}
	}
	return m.rivalries[place]
}

// decide returns what becomes of a frame that fits or not, and that was let in or not: since one was refused, what
// fits may be left to others.
func (c *rivalry) decide(port int, fits, admitted bool, refusal Reason) Reason {
	if c.refused = c.refused || !fits; c.refused {
		c.asked[port] = true
	}
	if !fits || !admitted && len(c.asked) > 1 {
		return refusal
	}
	return Admitted
}

func newModel(p Params) *model {
	m := &model{params: p, held: map[[2]int][]kind{}, xoff: map[[2]int]bool{},
		peak: map[[2]int]GroupUsage{}, queued: map[[2]int]QueueUsage{}, rivalries: map[any]*rivalry{}}
	m.pools = append(m.pools, p.Pools...)
	if len(m.pools) == 0 {
		m.pools = []PoolParams{{Shared: p.Cells}}
		m.eachGroup(func(_ [2]int, g GroupParams) { m.pools[0].Shared -= g.Reserved + g.Headroom })
	}
	for i := range m.pools {
		if m.pools[i].Headroom == 0 {
			m.eachGroup(func(_ [2]int, g GroupParams) {
				if g.Pool == i {
					m.pools[i].Headroom += g.Headroom
				}
			})
		}
	}
	if m.queues = p.Queues; len(m.queues) == 0 {
		m.queues = []QueuePoolParams{{Cells: p.Cells}}
	}
	m.used, m.egress = make([]PoolUsage, len(m.pools)), make([]PoolUsage, len(m.queues))
	return m
}

func (m *model) eachGroup(do func(at [2]int, g GroupParams)) {
	for n := range m.params.Ports {
		for i, g := range m.params.Ports[n].Groups {
			do([2]int{n, i}, g)
		}
	}
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

// inPool counts the cells of a kind that the groups of a pool hold.
func (m *model) inPool(pool int, k kind) int {
	n := 0
	m.eachGroup(func(at [2]int, g GroupParams) {
		if g.Pool == pool {
			n += count(m.held[at], k)
		}
	})
	return n
}

// share returns how many shared cells a group may hold.
func (m *model) share(g GroupParams) int {
	if g.Alpha == 0 {
		return g.Share
	}
	return (m.pools[g.Pool].Shared - m.inPool(g.Pool, sharedCell)) * g.Alpha / AlphaUnit
}

// admit charges a frame, which the manager has admitted or not: some that would fit may have to wait.
func (m *model) admit(f frame, admitted bool) Reason {
	at := [2]int{f.port, f.priority}
	g := m.params.Ports[f.port].Groups[f.priority]
	before, share := len(m.held[at]), m.share(g) // the threshold is that which the frame meets
	if !g.Lossless && before+f.cells > g.Reserved && before+f.cells <= g.Reserved+share {
		size, used := m.pools[g.Pool].Shared, m.inPool(g.Pool, sharedCell)
		shared := f.cells - max(0, g.Reserved-before)
		c := m.about(g.Pool, shared, used, size-used)
		if why := c.decide(f.port, shared <= size-used, admitted, IngressFull); why != Admitted {
			return why
		}
	}
	for range f.cells {
		cells := m.held[at]
		switch {
		case count(cells, reservedCell) < g.Reserved:
			m.held[at] = append(cells, reservedCell)
		case count(cells, sharedCell) < share && m.inPool(g.Pool, sharedCell) < m.pools[g.Pool].Shared:
			m.held[at] = append(cells, sharedCell)
		case count(cells, headroomCell) < g.Headroom && m.inPool(g.Pool, headroomCell) < m.pools[g.Pool].Headroom:
			m.held[at] = append(cells, headroomCell)
		default:
			m.held[at] = cells[:before]
			if g.Lossless {
				return HeadroomFull
			}
			return IngressFull
		}
	}
	m.xoff[at] = m.xoff[at] || count(m.held[at], headroomCell) > 0
	m.watch(at, g.Pool)
	return Admitted
}

// watch raises the watermarks of a group and its pool.
func (m *model) watch(at [2]int, pool int) {
	shared, headroom := count(m.held[at], sharedCell), count(m.held[at], headroomCell)
	p := m.peak[at]
	p.PeakShared, p.EverShared = max(p.PeakShared, shared), max(p.EverShared, shared)
	p.PeakHeadroom, p.EverHeadroom = max(p.PeakHeadroom, headroom), max(p.EverHeadroom, headroom)
	m.peak[at] = p
	u := &m.used[pool]
	shared, headroom = m.inPool(pool, sharedCell), m.inPool(pool, headroomCell)
	u.Peak, u.Ever = max(u.Peak, shared), max(u.Ever, shared)
	u.PeakHeadroom, u.EverHeadroom = max(u.PeakHeadroom, headroom), max(u.EverHeadroom, headroom)
}

func (m *model) release(f frame) {
	at := [2]int{f.port, f.priority}
	for range f.cells {
		m.held[at] = withoutOne(m.held[at])
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

// congested returns which groups of a port are in XOFF once those that may have left it.
func (m *model) congested(port int) (xoff uint8) {
	for i, g := range m.params.Ports[port].Groups {
		at := [2]int{port, i}
		xon := g.XON
		if g.XONOffset > 0 {
			xon = max(xon, g.Reserved+m.share(g)-g.XONOffset)
		}
		u := m.usage(at)
		if u.Headroom == 0 && u.Reserved+u.Shared <= xon {
			m.xoff[at] = false
		}
		if m.xoff[at] {
			xoff |= 1 << i
		}
	}
	return xoff
}

func (m *model) usage(at [2]int) GroupUsage {
	u, cells := m.peak[at], m.held[at]
	u.Reserved, u.Shared, u.Headroom = count(cells, reservedCell), count(cells, sharedCell), count(cells, headroomCell)
	return u
}

// inEgress counts the cells that the dynamic queues of an egress pool hold.
func (m *model) inEgress(pool int) int {
	n := 0
	for at, u := range m.queued {
		if q := m.params.Ports[at[0]].Queues[at[1]]; q.Alpha > 0 && q.Pool == pool {
			n += u.Used
		}
	}
	return n
}

// enqueue is admit for an egress queue.
func (m *model) enqueue(f frame, from int, admitted bool) Reason {
	at := [2]int{f.port, f.priority}
	q, u := m.params.Ports[f.port].Queues[f.priority], m.queued[at]
	free := m.queues[q.Pool].Cells - m.inEgress(q.Pool)
	fits := !(q.Limit > 0 && u.Used+f.cells > q.Limit || q.Alpha > 0 && (u.Used+f.cells > free*q.Alpha/AlphaUnit || f.cells > free))
	c := m.about(at, f.cells, u.Used, roomOf(q, u.Used, free))
	if why := c.decide(from, fits, admitted, QueueFull); why != Admitted {
		return why
	}
	u.Used += f.cells
	u.Peak, u.Ever = max(u.Peak, u.Used), max(u.Ever, u.Used)
	m.queued[at] = u
	e := &m.egress[q.Pool]
	used := m.inEgress(q.Pool)
	e.Peak, e.Ever = max(e.Peak, used), max(e.Ever, used)
	return Admitted
}

// roomOf returns how many cells one after the other a queue lets in, of which each makes a dynamic limit sink.
func roomOf(q QueueParams, used, free int) (n int) {
	switch {
	case q.Limit > 0:
		return q.Limit - used
	case q.Alpha == 0:
		return 1 << 30
	}
	for used+n+1 <= (free-n-1)*q.Alpha/AlphaUnit && n < free {
		n++
	}
	return n
}

func (m *model) dequeue(f frame) {
	at := [2]int{f.port, f.priority}
	u := m.queued[at]
	u.Used -= f.cells
	m.queued[at] = u
}

func (m *model) clearWatermarks() {
	m.eachGroup(func(at [2]int, _ GroupParams) {
		u := m.usage(at)
		u.PeakShared, u.PeakHeadroom = u.Shared, u.Headroom
		m.peak[at] = u
		q := m.queued[at]
		q.Peak = q.Used
		m.queued[at] = q
	})
	for i := range m.used {
		m.used[i].Peak, m.used[i].PeakHeadroom = m.inPool(i, sharedCell), m.inPool(i, headroomCell)
	}
	for i := range m.egress {
		m.egress[i].Peak = m.inEgress(i)
	}
}

func (m *model) compare(t *rapid.T, got *Manager) {
	t.Helper()
	inUse := 0
	for port := range m.params.Ports {
		if g, w := got.Congested(port), m.congested(port); g != w {
			t.Fatalf("port %d: XOFF %#x, want %#x", port, g, w)
		}
		for i := range Priorities {
			at := [2]int{port, i}
			if g, w := got.Group(port, i), m.usage(at); g != w {
				t.Fatalf("port %d priority %d: %+v, want %+v", port, i, g, w)
			}
			if g, w := got.Queue(port, i), m.queued[at]; g != w {
				t.Fatalf("port %d queue %d: %+v, want %+v", port, i, g, w)
			}
			inUse += len(m.held[at])
		}
	}
	if got.InUse() != inUse {
		t.Fatalf("%d cells in use, want %d", got.InUse(), inUse)
	}
	for i, p := range m.pools {
		w := m.used[i]
		w.Size, w.HeadroomSize, w.Used, w.Headroom = p.Shared, p.Headroom, m.inPool(i, sharedCell), m.inPool(i, headroomCell)
		if g := got.Pool(i); g != w {
			t.Fatalf("pool %d: %+v, want %+v", i, g, w)
		}
	}
	for i, p := range m.queues {
		w := m.egress[i]
		w.Size, w.Used = p.Cells, m.inEgress(i)
		if g := got.EgressPool(i); g != w {
			t.Fatalf("egress pool %d: %+v, want %+v", i, g, w)
		}
	}
}
