package cells

import (
	"maps"

	"pgregory.net/rapid"
)

// frame is a frame of a test: its ingress port (or, if it is queued, its egress port), its
// priority, its cost, and for a queued frame the port it came from.
type frame struct{ port, priority, cells, from int }

// kind is the part of the memory that a cell of the model belongs to.
type kind int

const (
	reservedCell kind = iota
	sharedCell
	headroomCell
)

// model is the same accounting, as slow and plain as possible. Each cell that a group holds is an
// element of a slice, with its kind; cells are taken and given back one by one, and free cells are
// counted again each time.
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

	of     map[[2]int]map[int]int // cells, by (port, queue) and by the port that the frames came from
	rivals map[[2]int]*rivals     // by port and queue

	poolRivals []poolRivals // by pool
}

func newModel(p Params) *model {
	m := &model{params: p, held: map[[2]int][]kind{}, xoff: map[[2]int]bool{},
		peak: map[[2]int]GroupUsage{}, queued: map[[2]int]QueueUsage{},
		of: map[[2]int]map[int]int{}, rivals: map[[2]int]*rivals{}}
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
	m.poolRivals = make([]poolRivals, len(m.pools))
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

func (m *model) admit(f frame) Reason {
	at := [2]int{f.port, f.priority}
	g := m.params.Ports[f.port].Groups[f.priority]
	before, share := len(m.held[at]), m.share(g) // the limit before the frame
	if !g.Lossless && g.Alpha == 0 && !m.admitsRival(at, g, f.cells) {
		return IngressFull
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
				m.xoff[at] = true
				return HeadroomFull
			}
			return IngressFull
		}
	}
	m.xoff[at] = m.xoff[at] || count(m.held[at], headroomCell) > 0
	m.watch(at, g.Pool)
	return Admitted
}

// poolRivals is the lossy groups with a static share that a pool refused frames of in this period
// and in the one before.
type poolRivals struct {
	recent, earlier map[[2]int]bool
	granted, whole  int
}

// admitsRival reports whether a pool has room for a frame of a lossy group with a static share. In
// a contested pool, each group that was refused frames lately has an equal part.
func (m *model) admitsRival(at [2]int, g GroupParams, cells int) bool {
	held := count(m.held[at], sharedCell)
	wanted := min(cells, len(m.held[at])+cells-g.Reserved)
	free := m.pools[g.Pool].Shared - m.inPool(g.Pool, sharedCell)
	r := &m.poolRivals[g.Pool]
	contested := len(r.recent)+len(r.earlier) > 0
	if wanted <= 0 || held+wanted > g.Share || wanted <= free && !contested {
		return true // other groups have no say
	}
	if !contested || r.granted >= r.whole || free >= r.whole {
		*r = poolRivals{earlier: r.recent, whole: free}
		m.eachGroup(func(other [2]int, o GroupParams) {
			if !o.Lossless && o.Alpha == 0 && o.Pool == g.Pool {
				r.whole += count(m.held[other], sharedCell)
			}
		})
	}
	n := map[[2]int]bool{at: true}
	maps.Copy(n, r.recent)
	maps.Copy(n, r.earlier)
	if wanted > free || len(n) > 1 && held > 0 && held+wanted > r.whole/len(n) {
		if r.recent == nil {
			r.recent = map[[2]int]bool{}
		}
		r.recent[at] = true
		delete(r.earlier, at)
		return false
	}
	r.granted += wanted
	return true
}

// watch raises the watermarks of a group and its pool.
func (m *model) watch(at [2]int, pool int) {
	shared, headroom := count(m.held[at], sharedCell), count(m.held[at], headroomCell)
	p := m.peak[at]
	p.PeakShared, p.MaxShared = max(p.PeakShared, shared), max(p.MaxShared, shared)
	p.PeakHeadroom, p.MaxHeadroom = max(p.PeakHeadroom, headroom), max(p.MaxHeadroom, headroom)
	m.peak[at] = p
	u := &m.used[pool]
	shared, headroom = m.inPool(pool, sharedCell), m.inPool(pool, headroomCell)
	u.Peak, u.Max = max(u.Peak, shared), max(u.Max, shared)
	u.PeakHeadroom, u.MaxHeadroom = max(u.PeakHeadroom, headroom), max(u.MaxHeadroom, headroom)
}

func (m *model) release(f frame) {
	at := [2]int{f.port, f.priority}
	for range f.cells {
		m.held[at] = withoutOne(m.held[at])
	}
}

// withoutOne removes one cell: headroom if there is any, else shared, else reserved.
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

// congested returns the groups of a port that are in XOFF, after removing those that may leave it.
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

// enqueue charges a frame to its queue.
func (m *model) enqueue(f frame) Reason {
	if !m.admits(f, f.cells) {
		m.granted(f, 0, f.cells)
		return QueueFull
	}
	m.put(f)
	m.granted(f, f.cells, f.cells)
	return Admitted
}

// admits reports whether a queue takes a frame, the first of several that ask for cells together.
func (m *model) admits(f frame, asked int) bool {
	at := [2]int{f.port, f.priority}
	q, u := m.params.Ports[f.port].Queues[f.priority], m.queued[at]
	free := m.queues[q.Pool].Cells - m.inEgress(q.Pool)
	used := u.Used + f.cells
	fits := !(q.Limit > 0 && used > q.Limit || q.Alpha > 0 && (used > free*q.Alpha/AlphaUnit || f.cells > free))
	room := roomOf(q, u.Used, free)
	return m.takesPart(at, f, fits, fits && (asked == f.cells || asked <= room), u.Used, room)
}

// put charges a frame to its queue.
func (m *model) put(f frame) {
	at := [2]int{f.port, f.priority}
	if m.of[at] == nil {
		m.of[at] = map[int]int{}
	}
	m.of[at][f.from] += f.cells
	u := m.queued[at]
	u.Used += f.cells
	u.Peak, u.Max = max(u.Peak, u.Used), max(u.Max, u.Used)
	m.queued[at] = u
	pool := m.params.Ports[f.port].Queues[f.priority].Pool
	e, inUse := &m.egress[pool], m.inEgress(pool)
	e.Peak, e.Max = max(e.Peak, inUse), max(e.Max, inUse)
}

// rivals is the ports that a queue refused frames of in this period and in the one before.
type rivals struct {
	recent, earlier map[int]bool
	granted         int
}

// takesPart reports whether a queue takes a frame. fits: the frame fits; all: everything asked for
// fits. In a contested queue, each port that was refused frames lately has an equal part.
func (m *model) takesPart(at [2]int, f frame, fits, all bool, used, room int) bool {
	r := m.rivals[at]
	if r == nil {
		r = &rivals{}
		m.rivals[at] = r
	}
	contested := func() bool { return len(r.recent)+len(r.earlier) > 0 }
	if contested() && (r.granted >= used+room || used == 0) {
		*r = rivals{earlier: r.recent}
	}
	if !contested() && all {
		return true
	}
	n := map[int]bool{f.from: true}
	maps.Copy(n, r.recent)
	maps.Copy(n, r.earlier)
	has := m.of[at][f.from]
	return fits && (has == 0 || len(n) == 1 || has+f.cells <= (used+room)/len(n))
}

// granted records how many of the cells that a port asked for the queue granted.
func (m *model) granted(f frame, cells, asked int) {
	r := m.rivals[[2]int{f.port, f.priority}]
	if len(r.recent)+len(r.earlier) == 0 && cells == asked {
		return
	}
	if r.granted += cells; cells < asked {
		if r.recent == nil {
			r.recent = map[int]bool{}
		}
		r.recent[f.from] = true
	}
}

// roomOf returns how many cells a queue takes one after the other; each makes a dynamic limit sink.
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
	m.of[at][f.from] -= f.cells
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
		w.Size, w.HeadroomSize, w.Used, w.Headroom = p.Shared, p.Headroom, m.inPool(i, sharedCell),
			m.inPool(i, headroomCell)
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
