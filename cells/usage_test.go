package cells

import (
	"slices"
	"testing"
)

// checked returns an idle manager of two ports. Group 3 of each may hold 4 + 15 + 6 cells, of a
// pool with 20 shared cells and 8 of headroom. Queue 3 has a static limit of 10, queue 4 a dynamic
// one of a pool of 20.
func checked(t *testing.T) *Manager { return newManager(t, checkedParams()) }

func checkedParams() Params {
	p := Params{CellSize: 160, Cells: 100, Pools: []PoolParams{{Shared: 20, Headroom: 8}},
		Queues: []QueuePoolParams{{Cells: 20}}, Ports: make([]PortParams, 2)}
	for i := range p.Ports {
		p.Ports[i].Groups[3] = GroupParams{Lossless: true, Reserved: 4, Share: 15, Headroom: 6}
		p.Ports[i].Queues[3].Limit, p.Ports[i].Queues[4].Alpha = 10, 8*AlphaUnit
	}
	return p
}

// TestCheckNotices damages an account in each way that Check must detect. All other accounts agree
// with the damaged one, so no other rule can detect it.
func TestCheckNotices(t *testing.T) {
	const other = Priorities + 3 // group and queue 3 of the second port
	for name, damage := range map[string]func(m *Manager, p, e *pool){
		"a group holding less than nothing":    func(m *Manager, _, _ *pool) { m.groups[3].used = -1 },
		"another port's group holding less":    func(m *Manager, _, _ *pool) { m.groups[other].used = -1 },
		"headroom of less than nothing":        func(m *Manager, p, _ *pool) { m.groups[3].headroom--; p.headroom++ },
		"a group beyond its limit":             func(m *Manager, p, _ *pool) { m.groups[3].used, p.free = 4+16, 4 },
		"a shared cell leaked":                 func(_ *Manager, p, _ *pool) { p.free-- },
		"a shared cell too many":               func(_ *Manager, p, _ *pool) { p.free++ },
		"a cell of headroom leaked":            func(_ *Manager, p, _ *pool) { p.headroom-- },
		"a cell of headroom too many":          func(_ *Manager, p, _ *pool) { p.headroom++ },
		"a cell of an egress pool leaked":      func(_ *Manager, _, e *pool) { e.free-- },
		"a cell of an egress pool too many":    func(_ *Manager, _, e *pool) { e.free++ },
		"cells of rivals that hold nothing":    func(_ *Manager, p, _ *pool) { p.held++ },
		"headroom in use without XOFF":         func(m *Manager, p, _ *pool) { m.groups[3].headroom++; p.headroom-- },
		"XOFF in a lossy group":                func(m *Manager, _, _ *pool) { m.congested[0] = 1 },
		"a queue holding less than its frames": func(m *Manager, _, _ *pool) { m.held[3*m.ports]++ },
		"a port holding less than nothing": func(m *Manager, _, _ *pool) {
			m.held[3*m.ports], m.held[3*m.ports+1] = 1, -1
		},
		"a queue beyond its limit": func(m *Manager, _, _ *pool) { m.queues[3].used, m.held[3*m.ports] = 11, 11 },
		"headroom beyond its limit": func(m *Manager, p, _ *pool) {
			m.groups[3].headroom, m.congested[0] = 7, 1<<3
			p.headroom -= 7
		},
		"a pool overdrawn": func(m *Manager, p, _ *pool) {
			m.groups[3].used, m.groups[other].used = 4+15, 4+6
			p.free -= 21
		},
		"a pool's headroom overdrawn": func(m *Manager, p, _ *pool) {
			m.groups[3].headroom, m.groups[other].headroom = 6, 3
			m.congested[0], m.congested[1] = 1<<3, 1<<3
			p.headroom -= 9
		},
		"an egress pool overdrawn": func(m *Manager, _, e *pool) {
			m.queues[4].used, m.held[4*m.ports] = 21, 21
			e.free -= 21
		},
		"more in use than there is": func(m *Manager, _, _ *pool) { m.groups[3].used, m.cells = 4, 3 },
	} {
		m := checked(t)
		check(t, m)
		if damage(m, &m.pools[0], &m.egress[0]); m.Check() == nil {
			t.Errorf("%s goes unnoticed", name)
		}
	}
}

// TestCheckAllows: an account that is exactly at its limit is sound.
func TestCheckAllows(t *testing.T) {
	m := checked(t)
	for port, cells := range []int{4 + 15 + 6, 4 + 5 + 2} { // all that both may hold together
		if r := m.Admit(port, 3, 4+15); port == 0 && r != Admitted {
			t.Fatal(r)
		}
		for m.Admit(port, 3, 1) == Admitted {
		}
		if u := m.Group(port, 3); u.Reserved+u.Shared+u.Headroom != cells {
			t.Fatalf("port %d: %+v, want %d cells", port, u, cells)
		}
	}
	for queue := 3; queue <= 4; queue++ {
		for m.Enqueue(0, queue, 1, 1) == Admitted {
		}
	}
	check(t, m)
	m.cells = m.InUse()
	check(t, m)
	m.cells--
	if m.Check() == nil {
		t.Error("a cell more in use than there is goes unnoticed")
	}
}

// TestEnqueueLossless: a frame that must not be dropped is charged to its queue and pool, beyond
// their limits if need be. The accounts stay sound, and a frame that may be dropped waits until
// there is room again.
func TestEnqueueLossless(t *testing.T) {
	for queue, room := range map[int]int{3: 10, 4: 17} { // a static limit, and a share of a pool of 20
		m := checked(t)
		m.Enqueue(0, queue, 0, 2)
		for n := 1; n <= 5; n++ {
			m.EnqueueLossless(1, queue, 1, 6)
			check(t, m)
			if u, want := m.Queue(1, queue), 6*n; u != (QueueUsage{want, want, want}) {
				t.Fatalf("queue %d: %+v after %d cells", queue, u, want)
			}
		}
		if u := m.Queue(0, queue); u.Used != 2 {
			t.Errorf("queue %d of the other port: %+v", queue, u)
		}
		if p := m.EgressPool(0); queue == 4 && p.Used != 32 || queue == 3 && p.Used != 0 {
			t.Errorf("queue %d: its pool has %+v", queue, p)
		}
		for held := 30; held > 0; held -= 6 {
			if r := m.Enqueue(1, queue, 0, 1); held >= room && r == Admitted {
				t.Errorf("queue %d takes a frame that may be dropped with %d cells", queue, held)
			} else if r == Admitted {
				m.Dequeue(1, queue, 0, 1)
			}
			m.Dequeue(1, queue, 1, 6)
			check(t, m)
		}
		m.Dequeue(0, queue, 0, 2)
		if u := m.Queue(1, queue); u != (QueueUsage{0, 30, 30}) || m.EgressPool(0).Used != 0 {
			t.Errorf("queue %d: %+v and %+v when all is sent", queue, u, m.EgressPool(0))
		}
	}
}

// TestPromised: what groups may still take is what is free, and what is left of their reserved
// cells. A pool that is overdrawn promises nothing.
func TestPromised(t *testing.T) {
	m := checked(t)
	want := func(cells int) {
		t.Helper()
		if got := m.Promised(); got != cells {
			t.Errorf("%d cells promised, want %d", got, cells)
		}
	}
	want(20 + 8 + 2*4)
	m.Admit(0, 3, 3)
	want(20 + 8 + 1 + 4)
	m.Admit(0, 3, 1+15+6)
	want(5 + 2 + 4)
	m.Admit(1, 3, 4+5+2)
	want(0)
	small := checkedParams()
	small.Pools[0] = PoolParams{Shared: 15, Headroom: 6}
	old := m
	m = newManager(t, small)
	m.TakeOver(old)
	want(0)
	m.Release(1, 3, 4+5+2)
	want(0 + 2 + 4) // the pool keeps its headroom while some is in use
}

// TestForgetWatermarks forgets the peaks and maxima of one port. Those of the ports beside it stay.
func TestForgetWatermarks(t *testing.T) {
	p := Params{CellSize: 160, Cells: 3 * Priorities * 20, Ports: make([]PortParams, 3)}
	for i := range p.Ports {
		for priority := range Priorities {
			p.Ports[i].Groups[priority] = GroupParams{Lossless: true, Share: 10, Headroom: 10}
		}
	}
	m := newManager(t, p)
	each := func(do func(port, priority int)) {
		for i := range 3 * Priorities {
			do(i/Priorities, i%Priorities)
		}
	}
	for _, cells := range []int{17, 14} { // the maxima, and then the peaks
		m.ClearWatermarks()
		each(func(port, priority int) {
			m.Admit(port, priority, cells)
			m.Enqueue(port, priority, 0, cells)
			m.Release(port, priority, cells)
			m.Dequeue(port, priority, 0, cells)
		})
	}
	each(func(port, priority int) {
		if priority == 5 {
			m.Admit(port, priority, 12)
			m.Enqueue(port, priority, 0, 12)
		}
	})
	m.ForgetWatermarks(1)
	each(func(port, priority int) {
		held := 0 // cells, of which 10 are shared ones
		if priority == 5 {
			held = 12
		}
		shared := min(held, 10)
		group := GroupUsage{Shared: shared, Headroom: held - shared,
			PeakShared: 10, PeakHeadroom: 4, MaxShared: 10, MaxHeadroom: 7}
		queue := QueueUsage{Used: held, Peak: 14, Max: 17}
		if port == 1 {
			group.PeakShared, group.PeakHeadroom, queue.Peak = group.Shared, group.Headroom, held
			group.MaxShared, group.MaxHeadroom, queue.Max = group.Shared, group.Headroom, held
		}
		if g, q := m.Group(port, priority), m.Queue(port, priority); g != group || q != queue {
			t.Errorf("port %d priority %d: %+v and %+v, want %+v and %+v", port, priority, g, q, group, queue)
		}
	})
}

// TestNumberOfPools: without pools in the parameters, there is one of each kind.
func TestNumberOfPools(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		m := newManager(t, Params{CellSize: 160, Cells: 10, Pools: make([]PoolParams, n),
			Queues: slices.Repeat([]QueuePoolParams{{Cells: 1}}, n)})
		if in, out := m.Pools(), m.EgressPools(); in != max(1, n) || out != max(1, n) {
			t.Errorf("%d pools: %d and %d", n, in, out)
		}
	}
}
