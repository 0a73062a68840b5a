package cells

import (
	"fmt"
	"math"
	"math/bits"
)

// Manager accounts for the cells of one worker and its ports; only that worker writes to it. Ports
// and priorities (or queues) are indices as in Params. The caller guarantees that they exist, and
// that it releases and dequeues exactly what it was granted.
type Manager struct {
	groups     []group // port*Priorities + priority
	queues     []queue // port*Priorities + queue
	ports      int
	held       []int32  // cells, by queue*ports + the port that the queue's frames came from
	refusedIn  []uint64 // same index: the queue's period in which it last refused frames of that port
	congested  []uint8  // by port: bit n is set while group n is in XOFF
	pools      []pool   // of groups
	egress     []pool   // of queues with a dynamic limit
	reciprocal uint64   // 2^reciprocalShift / cell size, rounded up
	marks      []marks  // port*Priorities + priority
	reds       []red    // port*Priorities + queue
	state      uint64   // of random; never 0
	// the most cells that may be in use: Params.Cells, plus the cells by which pools were overdrawn
	// at TakeOver
	cells int
}

// group is one priority group in 32 bytes, two to a cache line; all in cells. Usage is two numbers:
// used fills the reserved part first, so what exceeds reserved is shared.
type group struct {
	used     int32 // reserved and shared cells held
	reserved int32
	base     int32  // the limit of used, without the dynamic share
	alpha    uint16 // dynamic share: alpha/AlphaUnit of the pool's free cells; 0: static
	rival    bool   // lossy with a static share: gets an equal part of a contested pool
	peak     int32  // the highest used so far; see ClearWatermarks
	headroom int32  // headroom cells held
	pool     *pool
}

// marks is the part of a priority group that is needed only in congestion and for reports.
type marks struct {
	most           int32 // headroom cells that it may hold; 0: lossy
	due            int32 // the same by the parameters; see Settle
	reserved       int32 // likewise, of the group's reserved cells
	xon, xonOffset int32
	headroomPeak   int32 // the highest headroom so far; see ClearWatermarks
	maxUsed        int32 // peaks from before they were cleared
	maxHeadroom    int32
	maxQueued      int32
	inherited      int32  // used at TakeOver, possibly above the limit
	queueInherited int32  // the same for the queue, or what lossless frames have brought it to
	refusedIn      uint64 // the pool's period in which it last refused frames of this group, if it is a rival
}

// queue is one egress queue, in cells.
type queue struct {
	used  int32
	limit int32 // static
	alpha int32 // dynamic, as in group; 0: static
	peak  int32
	pool  *pool
	rivalry
}

// pool is the cells that a set of groups, or of queues, shares.
type pool struct {
	free         int32 // shared cells not in use
	low          int32 // the lowest free so far; see ClearWatermarks
	headroom     int32 // headroom cells not in use
	headroomLow  int32
	size         int32
	headroomSize int32
	minFree      int32
	minHeadroom  int32

	// the lowest that free and headroom may get: below 0 if the pool was taken over with more in
	// use than it has
	least, headroomLeast int32

	rivalry
	surplus int32 // headroom beyond the parameters; see keepPool
	held    int32 // shared cells that rivals hold: a running sum, too slow to add up for each frame
	whole   int32 // the cells that rivals divide equally, as of the start of the period

	name string
}

func newPool(name string, size, headroom int) pool {
	s, h := int32(size), int32(headroom)
	return pool{name: name, free: s, low: s, headroom: h, headroomLow: h, size: s, headroomSize: h, minFree: s,
		minHeadroom: h,
		rivalry:     rivalry{period: firstPeriod}}
}

// dynamic returns alpha times what is free: the threshold of A. K. Choudhury and E. L. Hahne,
// "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on
// Networking 6(2), 1998. With N takers that all want more, each settles at alpha * B / (1 + N *
// alpha) cells, and B / (1 + N * alpha) stay free for one that starts later.
func (p *pool) dynamic(alpha int32) int32 { return portion(p.free, alpha) }

// portion returns alpha times free cells.
func portion(free, alpha int32) int32 { return int32(int64(free) * int64(alpha) >> alphaShift) }

// take removes cells from the free shared ones.
func (p *pool) take(cells int32) {
	p.free -= cells
	p.low = min(p.low, p.free)
}

// limit returns how many cells the group may use while its pool has free cells.
func (g *group) limit(free int32) int32 { return g.base + portion(free, int32(g.alpha)) }

// take sets the group's usage to used, and takes shared cells from the pool.
func (g *group) take(used, shared int32) {
	g.used = used
	g.peak = max(g.peak, used)
	g.pool.take(shared)
	if g.rival {
		g.pool.held += shared
	}
}

// NewManager returns the accounting of an idle memory. It rejects parameters that promise more
// cells than there are; the error says which value would do.
func NewManager(p Params) (*Manager, error) {
	pools, queues, err := p.check()
	if err != nil {
		return nil, fmt.Errorf("cells: %w", err)
	}
	m := &Manager{
		groups:     make([]group, len(p.Ports)*Priorities),
		marks:      make([]marks, len(p.Ports)*Priorities),
		reds:       make([]red, len(p.Ports)*Priorities),
		state:      p.Seed<<1 | 1,
		queues:     make([]queue, len(p.Ports)*Priorities),
		ports:      len(p.Ports),
		held:       make([]int32, len(p.Ports)*Priorities*len(p.Ports)),
		refusedIn:  make([]uint64, len(p.Ports)*Priorities*len(p.Ports)),
		congested:  make([]uint8, len(p.Ports)),
		pools:      make([]pool, len(pools)),
		egress:     make([]pool, len(queues)),
		cells:      p.Cells,
		reciprocal: 1<<reciprocalShift/uint64(p.CellSize) + 1,
	}
	for i, p := range pools {
		m.pools[i] = newPool(p.Name, p.Shared, p.Headroom)
	}
	for i, p := range queues {
		m.egress[i] = newPool(p.Name, p.Cells, 0)
	}
	for n := range p.Ports {
		for i := range Priorities {
			g, q := &p.Ports[n].Groups[i], &p.Ports[n].Queues[i]
			at := n*Priorities + i
			m.groups[at] = group{
				reserved: int32(g.Reserved), base: int32(g.Reserved + g.Share), alpha: uint16(g.Alpha),
				rival: !g.Lossless && g.Alpha == 0, pool: &m.pools[g.Pool],
			}
			m.marks[at] = marks{most: int32(g.Headroom), due: int32(g.Headroom), reserved: int32(g.Reserved),
				xon: int32(g.XON), xonOffset: int32(g.XONOffset)}
			m.queues[at] = queue{limit: int32(q.Limit), alpha: int32(q.Alpha), pool: &m.egress[q.Pool],
				rivalry: rivalry{period: firstPeriod}}
			m.reds[at] = newRED(q.RED)
			if q.Limit == 0 && q.Alpha == 0 {
				m.queues[at].limit = math.MaxInt32
			}
		}
	}
	return m, nil
}

// reciprocalShift makes Cells exact: r = floor(2^32 / d) + 1 exceeds 2^32 / d by at most 1, so n *
// r exceeds 2^32 * n / d by at most n. That does not carry into the next integer while n < 2^32 /
// d, which holds for n and d below 2^16.
const reciprocalShift = 32

// Cells returns what a frame of length bytes (1 to 65535) costs: ceil(length / cell size).
func (m *Manager) Cells(length int) int {
	return int(uint64(length-1)*m.reciprocal>>reciprocalShift) + 1
}

// Admit charges a frame's cells to its priority group: all of them, or none for the reason
// returned.
func (m *Manager) Admit(port, priority, cells int) Reason {
	g := &m.groups[port*Priorities+priority]
	p := g.pool
	used := g.used + int32(cells)
	shared := max(used, g.reserved) - max(g.used, g.reserved)
	limit := g.limit(p.free)
	if used > limit || shared > p.free || g.rival && p.contested() {
		if g.rival && used <= limit && shared > 0 {
			return m.admitRival(port*Priorities+priority, used, shared)
		}
		return m.admitPastShare(port, priority, int32(cells), limit)
	}
	g.take(used, shared)
	return Admitted
}

// AdmitAll charges several frames of a group, cells in total, if Admit would take each of them
// without headroom in any order, and reports whether it did. If it returns false, nothing has
// changed.
func (m *Manager) AdmitAll(port, priority, cells int) bool {
	g := &m.groups[port*Priorities+priority]
	p := g.pool
	used := g.used + int32(cells)
	shared := max(used, g.reserved) - max(g.used, g.reserved)
	// A dynamic limit sinks with each of the frames; this is the limit that the last one meets.
	if shared > p.free || used > g.limit(p.free-shared) || g.rival && p.contested() {
		return false
	}
	g.take(used, shared)
	return true
}

// AdmitPastShare is AdmitAll for frames of a lossless group that need headroom. It applies the
// dynamic limit as it is after all of them, so headroom, and XOFF, begin no later than they would
// frame by frame. If it returns false, only XOFF may have begun.
func (m *Manager) AdmitPastShare(port, priority, cells int) bool {
	g := &m.groups[port*Priorities+priority]
	owned := max(g.used, g.reserved)
	// The highest limit that still holds when the group has taken all of it: x = base + alpha *
	// (free - (x - owned)).
	limit := (int64(g.base)*AlphaUnit + int64(g.alpha)*int64(g.pool.free+owned)) / (AlphaUnit + int64(g.alpha))
	return m.admitPastShare(port, priority, int32(cells), int32(limit)) == Admitted
}

// admitPastShare is Admit for a frame that doesn't fit into its group's reserved and shared cells,
// or whose pool is overdrawn (TakeOver); reserved cells are not affected by that. Of a frame that
// crosses the limit, only the cells above it count as headroom. The group goes into XOFF even if
// the headroom does not hold the frame.
func (m *Manager) admitPastShare(port, priority int, cells, limit int32) Reason {
	g, mark := &m.groups[port*Priorities+priority], &m.marks[port*Priorities+priority]
	if used := g.used + cells; used <= g.reserved {
		g.used = used
		g.peak = max(g.peak, used)
		return Admitted
	}
	if mark.most == 0 {
		return IngressFull
	}
	p := g.pool
	owned := max(g.used, g.reserved)
	// A dynamic limit may have sunk below what the group holds.
	used := max(g.used, min(limit, owned+max(p.free, 0)))
	headroom := cells - (used - g.used)
	m.congested[port] |= 1 << (uint(priority) % Priorities)
	if g.headroom+headroom > mark.most || headroom > p.headroom {
		return HeadroomFull
	}
	g.take(used, max(used, g.reserved)-owned)
	g.headroom += headroom
	p.headroom -= headroom
	p.headroomLow = min(p.headroomLow, p.headroom)
	mark.headroomPeak = max(mark.headroomPeak, g.headroom)
	return Admitted
}

// Release gives a frame's cells back: headroom first, then shared, then reserved cells. It panics
// if the group holds fewer.
func (m *Manager) Release(port, priority, cells int) {
	g := &m.groups[port*Priorities+priority]
	used := g.used - int32(cells)
	if g.headroom != 0 || used < g.reserved {
		g.release(int32(cells))
		return
	}
	g.used = used
	g.back(int32(cells))
}

// back returns shared cells to the pool.
func (g *group) back(shared int32) {
	g.pool.free += shared
	if g.rival {
		g.pool.held -= shared
	}
}

// release is Release for every case.
func (g *group) release(back int32) {
	back -= g.releaseHeadroom(back)
	used := g.used - back
	if used < 0 {
		panic("cells: more cells given back than the priority group holds")
	}
	g.back(max(g.used, g.reserved) - max(used, g.reserved))
	g.used = used
}

// releaseHeadroom gives back at most cells of headroom, and returns how many it gave back.
func (g *group) releaseHeadroom(cells int32) int32 {
	cells = min(cells, g.headroom)
	g.headroom -= cells
	p := g.pool
	if p.headroom += cells; p.headroom == p.headroomSize {
		p.lend(-p.surplus)
		p.surplus = 0
	}
	return cells
}

// Congested returns the groups of a port that are in XOFF: bit n is priority n. Groups leave XOFF
// here, not in Release, since cells that any group gives back raise the dynamic limits of others.
func (m *Manager) Congested(port int) uint8 {
	if m.congested[port] == 0 {
		return 0
	}
	return m.resume(port)
}

// resume ends XOFF for groups whose headroom is empty and whose usage has come down far enough.
func (m *Manager) resume(port int) uint8 {
	for xoff := m.congested[port]; xoff != 0; xoff &= xoff - 1 {
		priority := bits.TrailingZeros8(xoff)
		at := port*Priorities + priority
		g, mark := &m.groups[at], &m.marks[at]
		xon := mark.xon
		if mark.xonOffset > 0 {
			xon = max(xon, g.limit(g.pool.free)-mark.xonOffset)
		}
		if g.headroom == 0 && g.used <= xon {
			m.congested[port] &^= 1 << priority
		}
	}
	return m.congested[port]
}

// Enqueue charges a frame's cells to an egress queue: all of them, or none (QueueFull). from is the
// port that the frame came from.
func (m *Manager) Enqueue(port, queue, from, cells int) Reason {
	at := port*Priorities + queue
	q := &m.queues[at]
	used := q.used + int32(cells)
	if (used > q.limit || q.contested()) && m.Grant(port, queue, from, cells, cells) < cells {
		return QueueFull
	}
	if q.alpha != 0 {
		q.pool.take(int32(cells))
	}
	q.used = used
	q.peak = max(q.peak, used)
	m.held[at*m.ports+from] += int32(cells)
	return Admitted
}

// EnqueueLossless charges the cells of a frame that may not be dropped for lack of room, whatever
// the limit of the queue.
func (m *Manager) EnqueueLossless(port, queue, from, cells int) {
	at := port*Priorities + queue
	q := &m.queues[at]
	if q.alpha != 0 {
		q.pool.take(int32(cells))
		q.pool.least = min(q.pool.least, q.pool.free)
	}
	q.used += int32(cells)
	q.peak = max(q.peak, q.used)
	m.held[at*m.ports+from] += int32(cells)
	m.marks[at].queueInherited = max(m.marks[at].queueInherited, q.used)
}

// fits reports whether the queue has room for the next frame.
func (q *queue) fits(cells int32) bool {
	used := q.used + cells
	return used <= q.limit || q.alpha != 0 && cells <= q.pool.free && used <= q.pool.dynamic(q.alpha)
}

// room returns how many cells the queue can take as several frames, each of which makes a dynamic
// limit sink.
func (q *queue) room() int32 {
	if q.alpha == 0 {
		return q.limit - q.used
	}
	free, alpha := int64(q.pool.free), int64(q.alpha)
	return int32(min(free, (free*alpha-int64(q.used)*AlphaUnit)/(AlphaUnit+alpha)))
}

// HasRoom reports whether Enqueue would take several frames, cells in total, in any order and from
// any port. It is false for a contested queue.
func (m *Manager) HasRoom(port, queue, cells int) bool {
	q := &m.queues[port*Priorities+queue]
	return !q.contested() && q.hasRoom(int32(cells))
}

// hasRoom reports whether cells <= room, without a division.
func (q *queue) hasRoom(cells int32) bool {
	used := q.used + cells
	return used <= q.limit || q.alpha != 0 && cells <= q.pool.free && used <= portion(q.pool.free-cells, q.alpha)
}

// EnqueueAll charges several frames from one port, cells in total, to an egress queue, and reports
// whether it did. If it returns false, nothing has changed, and each frame needs its own Enqueue.
// Call HasRoom or Grant first.
func (m *Manager) EnqueueAll(port, queue, from, cells int) bool {
	at := port*Priorities + queue
	q := &m.queues[at]
	if !q.hasRoom(int32(cells)) {
		return false
	}
	if q.alpha != 0 {
		q.pool.take(int32(cells))
	}
	q.used += int32(cells)
	q.peak = max(q.peak, q.used)
	m.held[at*m.ports+from] += int32(cells)
	return true
}

// Dequeue takes the cells of frames from one port off an egress queue. It panics if the queue holds
// fewer.
func (m *Manager) Dequeue(port, queue, from, cells int) {
	at := port*Priorities + queue
	q := &m.queues[at]
	used := q.used - int32(cells)
	if used < 0 {
		panic("cells: more cells given back than the queue holds")
	}
	q.used = used
	if q.alpha != 0 {
		q.pool.free += int32(cells)
	}
	m.held[at*m.ports+from] -= int32(cells)
}
