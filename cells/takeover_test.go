package cells

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTakeOverByOthers: with any parameters before and after, the accounts stay consistent, cells
// given back go to the right pool, and when all are given back every cell of the new pools is free.
func TestTakeOverByOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		m := newManager(t, p)
		var held, queued []frame
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				if f := drawFrame(t, p); m.Admit(f.port, f.priority, f.cells) == Admitted {
					held = append(held, f)
				}
			},
			"release": func(t *rapid.T) {
				if f, ok := takeAny(t, &held); ok {
					m.Release(f.port, f.priority, f.cells)
				}
			},
			"enqueue": func(t *rapid.T) {
				if f := drawFrame(t, p); m.Enqueue(f.port, f.priority, 0, f.cells) == Admitted {
					queued = append(queued, f)
				}
			},
			"dequeue": func(t *rapid.T) {
				if f, ok := takeAny(t, &queued); ok {
					m.Dequeue(f.port, f.priority, 0, f.cells)
				}
			},
			"take over": func(t *rapid.T) {
				q := drawParams(t)
				for len(q.Ports) < len(p.Ports) {
					q.Ports = append(q.Ports, PortParams{})
				}
				p = q
				next := newManager(t, p)
				next.TakeOver(m)
				m = next
			},
			"settle": func(t *rapid.T) {
				for port := range p.Ports {
					m.Settle(port, rapid.Bool().Draw(t, "covered"))
				}
			},
			"": func(t *rapid.T) { check(t, m) },
		})
		for _, f := range held {
			m.Release(f.port, f.priority, f.cells)
		}
		for _, f := range queued {
			m.Dequeue(f.port, f.priority, 0, f.cells)
		}
		check(t, m)
		settleAll(t, m)
		for i := range m.pools {
			if p := &m.pools[i]; p.free != p.size || p.headroom != p.headroomSize {
				t.Fatalf("idle: pool %d has %d of %d free, of headroom %d of %d", i, p.free, p.size, p.headroom,
					p.headroomSize)
			}
		}
		for i := range m.egress {
			if p := &m.egress[i]; p.free != p.size {
				t.Fatalf("idle: egress pool %d has %d of %d free", i, p.free, p.size)
			}
		}
	})
}

// settleAll settles all ports of an idle memory.
func settleAll(t *rapid.T, m *Manager) {
	for port := range m.ports {
		m.Congested(port)
		m.Settle(port, true) // gives headroom back, which others may wait for
	}
	for port := range m.ports {
		if little, much := m.Settle(port, true); little|much != 0 {
			t.Fatal("idle, and still another headroom than that of the parameters")
		}
	}
}

// TestTakeOverKeepsHeadroom: until it settles, a group has the headroom that it had, whatever the
// new parameters say. It gives up what it has too much only when its link is covered and XOFF is
// over, and then its pool has the cells again.
func TestTakeOverKeepsHeadroom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (m *Manager, headroom int) {
			headroom = rapid.IntRange(1, 30).Draw(t, name+" headroom")
			share := rapid.IntRange(0, 20).Draw(t, name+" share")
			return onePortOf(t, GroupParams{Lossless: true, Share: share, Headroom: headroom, XON: share}), headroom
		}
		m, before := draw("old")
		held := 0
		admit := func(m *Manager) Reason {
			why := m.Admit(0, 0, 1)
			if why == Admitted {
				held++
			}
			return why
		}
		for range rapid.IntRange(0, 50).Draw(t, "frames") {
			admit(m)
		}
		if rapid.Bool().Draw(t, "clear") { // so that peaks and maxima differ
			n := rapid.IntRange(0, held).Draw(t, "released")
			m.Release(0, 0, n)
			held -= n
			m.ClearWatermarks()
		}
		left, xoff := before-m.Group(0, 0).Headroom, m.Congested(0)
		had := watermarksOf(m)
		next, after := draw("new")
		next.TakeOver(m)
		check(t, next)
		if now := watermarksOf(next); now != had {
			t.Fatalf("peaks and maxima of the pool %v, before the takeover %v", now, had)
		}
		if next.congested[0] != xoff {
			t.Fatalf("XOFF %b, was %b", next.congested[0], xoff)
		}
		if little, _ := settle(t, next, false); little != 0 {
			t.Fatalf("%b waits although there is room", little)
		}
		for next.Congested(0) == 0 { // shared cells first
			admit(next)
		}
		for n := next.Group(0, 0).Headroom; n < max(before, after)-before+left; n++ {
			if r := admit(next); r != Admitted {
				t.Fatalf("%v with %d cells of headroom in use, though %d were free of %d before", r, n, left, before)
			}
		}
		check(t, next)
		if _, much := settle(t, next, true); after < before && much != 1 {
			t.Fatal("headroom was given up in XOFF")
		}
		next.Release(0, 0, held)
		next.Congested(0)
		if _, much := settle(t, next, false); after < before && much != 1 {
			t.Fatal("headroom was given up although the link needs it")
		}
		if _, much := settle(t, next, true); much != 0 || next.Limits(0, 0).Headroom != after {
			t.Fatalf("%b waits, headroom %d, want %d", much, next.Limits(0, 0).Headroom, after)
		}
		if p := next.Pool(0); p.Size != 100-after || p.HeadroomSize != after || p.Used+p.Headroom != 0 {
			t.Fatalf("%+v", p)
		}
		for admit(next) == Admitted { // until all is in use
			check(t, next)
		}
	})
}

// settle settles port 0, which must not change the watermarks of its pool.
func settle(t *rapid.T, m *Manager, covered bool) (little, much uint8) {
	had := watermarksOf(m)
	little, much = m.Settle(0, covered)
	if now := watermarksOf(m); now != had {
		t.Fatalf("peaks and maxima of the pool %v, before Settle %v", now, had)
	}
	return little, much
}

// watermarksOf returns the watermarks of the first pool.
func watermarksOf(m *Manager) [4]int {
	p := m.Pool(0)
	return [...]int{p.Peak, p.Max, p.PeakHeadroom, p.MaxHeadroom}
}

// TestHeadroomIsGivenUpWhileOthersUseTheirs: where the headroom of a pool is to be less than that
// of its groups together, it keeps what it had while some is in use, so that no group runs out of
// it. When all have given up theirs, all shared cells can be used.
func TestHeadroomIsGivenUpWhileOthersUseTheirs(t *testing.T) {
	const ports, shared, before, after, pool = 4, 10, 8, 2, 4
	params := func(headroom, pool int) Params {
		p := Params{CellSize: 160, Cells: 100, Ports: make([]PortParams, ports),
			Pools: []PoolParams{{Shared: shared, Headroom: pool}}}
		for i := range p.Ports {
			p.Ports[i].Groups[3] = GroupParams{Lossless: true, Headroom: headroom}
		}
		p.Ports[0].Groups[0] = GroupParams{Share: shared}
		return p
	}
	m := newManager(t, params(before, ports*before))
	use := func(port, cells int) {
		t.Helper()
		if !m.AdmitPastShare(port, 3, cells) {
			t.Fatalf("port %d has no %d cells of headroom", port, cells)
		}
		check(t, m)
	}
	use(0, before)
	use(1, before)
	use(2, before)
	next := newManager(t, params(after, pool))
	next.TakeOver(m)
	m = next
	use(3, pool)
	m.Release(0, 3, before)
	m.Congested(0)
	use(3, before-pool)
	if _, much := m.Settle(0, true); much != 0 {
		t.Error("the headroom of a group that holds nothing is not given up")
	}
	check(t, m)
	if p := m.Pool(0); p.HeadroomSize < p.Headroom {
		t.Errorf("%+v: more headroom is in use than there is", p)
	}
	for port := 1; port < ports; port++ {
		m.Release(port, 3, before)
		m.Congested(port)
		m.Settle(port, true)
	}
	for m.Admit(0, 0, 1) == Admitted {
		check(t, m)
	}
	if p := m.Pool(0); p.Used != shared || p.Size != shared || p.HeadroomSize != pool {
		t.Errorf("%+v; want all of %d shared cells in use, and %d of headroom", p, shared, pool)
	}
}

// TestHeadroomIsPromisedWhenItIsBacked: a group that becomes lossless, or gets more headroom, gets
// it only when there are as many cells as the parameters promise.
func TestHeadroomIsPromisedWhenItIsBacked(t *testing.T) {
	params := func(headroom, share int) Params {
		p := Params{CellSize: 100, Cells: 100, Ports: make([]PortParams, 2),
			Pools: []PoolParams{{Name: "lossy", Shared: share}, {Name: "lossless"}}}
		p.Ports[0].Groups[0] = GroupParams{Share: share}
		p.Ports[1].Groups[3] = GroupParams{Pool: 1}
		if headroom > 0 {
			p.Ports[1].Groups[3] = GroupParams{Lossless: true, Pool: 1, Headroom: headroom}
		}
		return p
	}
	for _, before := range []int{0, 10} {
		m, err := NewManager(params(before, 90))
		if err != nil {
			t.Fatal(err)
		}
		m.Admit(0, 0, 90)
		next, err := NewManager(params(60, 40))
		if err != nil {
			t.Fatal(err)
		}
		next.TakeOver(m)
		for held := 90; held > 40; held-- {
			if little, _ := next.Settle(1, true); little != 1<<3 || next.Limits(1, 3).Headroom != before {
				t.Fatalf("%b waits while lossy frames hold %d cells; headroom %d, was %d", little, held,
					next.Limits(1, 3).Headroom, before)
			}
			next.Release(0, 0, 1)
		}
		if little, _ := next.Settle(1, true); little != 0 || !next.AdmitPastShare(1, 3, 60) {
			t.Fatalf("%b waits, or 60 cells of headroom are not there", little)
		}
	}
}

// TestANewPortWaitsForItsHeadroom, too.
func TestANewPortWaitsForItsHeadroom(t *testing.T) {
	m, err := NewManager(Params{CellSize: 100, Cells: 100, Ports: []PortParams{{Groups: [8]GroupParams{{Share: 100}}}}})
	if err != nil {
		t.Fatal(err)
	}
	m.Admit(0, 0, 41)
	p := Params{CellSize: 100, Cells: 100, Ports: make([]PortParams, 2)}
	p.Ports[0].Groups[0] = GroupParams{Share: 40}
	p.Ports[1].Groups[3] = GroupParams{Lossless: true, Headroom: 60}
	next, err := NewManager(p)
	if err != nil {
		t.Fatal(err)
	}
	next.TakeOver(m)
	if little, _ := next.Settle(1, true); little != 1<<3 || next.Lossless(1) != 0 {
		t.Error("a new port got headroom that a lossy one holds")
	}
	next.Release(0, 0, 1)
	if little, _ := next.Settle(1, true); little != 0 || next.Lossless(1) != 1<<3 {
		t.Error("headroom is there, but not given")
	}
}

func onePortOf(t *rapid.T, g GroupParams) *Manager {
	p := Params{CellSize: 100, Cells: 100, Ports: make([]PortParams, 1),
		Pools: []PoolParams{{Shared: 100 - g.Headroom}}}
	p.Ports[0].Groups[0] = g
	return newManager(t, p)
}

func TestTakeOverAllocatesNothing(t *testing.T) {
	p := Params{CellSize: 100, Cells: 1000, Ports: make([]PortParams, 64)}
	a, b := newManager(t, p), newManager(t, p) // idle, so that neither changes
	if n := testing.AllocsPerRun(100, func() { b.TakeOver(a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPoolsKeepTheirWatermarks: a pool keeps its watermarks at any index, and a new one starts with
// what is held.
func TestPoolsKeepTheirWatermarks(t *testing.T) {
	params := func(names ...string) Params {
		p := Params{CellSize: 100, Cells: 1000, Ports: make([]PortParams, 3)}
		for i, name := range names {
			p.Pools = append(p.Pools, PoolParams{Name: name, Shared: 100})
			p.Queues = append(p.Queues, QueuePoolParams{Name: name, Cells: 100})
			p.Ports[i].Groups[0] = GroupParams{Pool: i, Share: 100}
			p.Ports[i].Queues[0] = QueueParams{Pool: i, Alpha: AlphaUnit}
		}
		return p
	}
	for _, c := range []struct {
		before, after []string
		want          []int // peaks
	}{
		{[]string{"a", "b", "c"}, []string{"a", "b", "c"}, []int{10, 20, 30}},
		{[]string{"a", "b", "c"}, []string{"b", "c"}, []int{20, 30}},
		{[]string{"a", "b", "c"}, []string{"c", "new", "a"}, []int{30, 0, 10}},
		{[]string{"", "", ""}, []string{"", ""}, []int{10, 20}},
		{[]string{"", ""}, []string{"a", ""}, []int{0, 20}},
		{[]string{"a", ""}, []string{"", ""}, []int{0, 20}},
		{[]string{""}, []string{"", ""}, []int{10, 0}},
	} {
		m, err := NewManager(params(c.before...))
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.before {
			n := 10 * (i + 1)
			m.Admit(i, 0, n)
			m.Enqueue(i, 0, 0, n)
			m.Dequeue(i, 0, 0, n)
			m.Release(i, 0, n)
		}
		next, err := NewManager(params(c.after...))
		if err != nil {
			t.Fatal(err)
		}
		next.TakeOver(m)
		for i, want := range c.want {
			in, out := next.Pool(i), next.EgressPool(i)
			if in.Peak != want || in.Max != want || out.Peak != want || out.Max != want {
				t.Errorf("%q after %q: pool %d has %+v and %+v, want peaks of %d", c.after, c.before, i, in, out, want)
			}
		}
	}
}

// TestPoolKeepsHeadroomInUse: a reload that gives a pool less headroom for the same groups takes
// effect when none is in use.
func TestPoolKeepsHeadroomInUse(t *testing.T) {
	params := func(pool int) Params {
		p := Params{CellSize: 160, Cells: 100, Ports: make([]PortParams, 2),
			Pools: []PoolParams{{Shared: 10, Headroom: pool}}}
		for i := range p.Ports {
			p.Ports[i].Groups[3] = GroupParams{Lossless: true, Headroom: 8}
		}
		return p
	}
	m := newManager(t, params(16))
	if !m.AdmitPastShare(0, 3, 2) {
		t.Fatal("no headroom")
	}
	next := newManager(t, params(8))
	next.TakeOver(m)
	m = next
	if !m.AdmitPastShare(0, 3, 6) || !m.AdmitPastShare(1, 3, 8) {
		t.Error("a group in XOFF has lost headroom")
	}
	check(t, m)
	m.Release(1, 3, 8)
	m.Release(0, 3, 8)
	check(t, m)
	if p := m.Pool(0); p.HeadroomSize != 8 {
		t.Errorf("%+v: want the new size", p)
	}
}

// TestReservedCellsAreBacked: a reload that reserves more for a lossy group while the memory is
// full takes nothing from the headroom of others. The group gets its cells when they are free.
func TestReservedCellsAreBacked(t *testing.T) {
	const cells = 60
	params := func(reserved int) Params {
		p := Params{CellSize: 160, Cells: cells, Ports: make([]PortParams, 1),
			Pools: []PoolParams{{Shared: cells - 20 - reserved, Headroom: 20}}}
		p.Ports[0].Groups[3] = GroupParams{Lossless: true, Headroom: 20}
		p.Ports[0].Groups[0] = GroupParams{Share: cells - 20 - reserved}
		p.Ports[0].Groups[1] = GroupParams{Reserved: reserved}
		return p
	}
	m := newManager(t, params(0))
	for m.Admit(0, 0, 1) == Admitted {
	}
	next := newManager(t, params(10))
	next.TakeOver(m)
	m = next
	if _, much := m.Settle(0, true); much != 1<<1 {
		t.Errorf("groups %#x have to wait, want group 1", much)
	}
	for m.Admit(0, 1, 1) == Admitted {
		t.Fatal("a reserved cell that is not there")
	}
	if !m.AdmitPastShare(0, 3, 20) || m.InUse() != cells {
		t.Errorf("headroom is missing: %d of %d cells are in use", m.InUse(), cells)
	}
	check(t, m)
	m.Release(0, 0, 10)
	if _, much := m.Settle(0, true); much != 0 || m.Admit(0, 1, 10) != Admitted {
		t.Errorf("groups %#x still wait, or the reserved cells are not there", much)
	}
	check(t, m)
}

// TestFullHeadroomStopsThePeer: a frame that finds the group at its limit and does not fit the
// headroom brings the group into XOFF: else the peer would go on.
func TestFullHeadroomStopsThePeer(t *testing.T) {
	p := Params{CellSize: 160, Cells: 20, Ports: make([]PortParams, 1)}
	p.Ports[0].Groups[3] = GroupParams{Lossless: true, Share: 10, Headroom: 2}
	m := newManager(t, p)
	m.AdmitAll(0, 3, 10)
	if why := m.Admit(0, 3, 3); why != HeadroomFull || m.Congested(0) != 1<<3 {
		t.Errorf("%v, XOFF %#x", why, m.Congested(0))
	}
}
