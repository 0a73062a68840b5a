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
			"": func(t *rapid.T) { check(t, m) },
		})
		for _, f := range held {
			m.Release(f.port, f.priority, f.cells)
		}
		for _, f := range queued {
			m.Dequeue(f.port, f.priority, 0, f.cells)
		}
		check(t, m)
		for port := range p.Ports {
			m.Congested(port)
		}
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

// TestTakeOverKeepsRoomForWhatIsUnderWay: a group in XOFF whose headroom changes can take as many
// more cells as before, or as many as the new headroom has if that is less.
func TestTakeOverKeepsRoomForWhatIsUnderWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (m *Manager, headroom int) {
			headroom = rapid.IntRange(1, 30).Draw(t, name+" headroom")
			share := rapid.IntRange(0, 20).Draw(t, name+" share")
			return onePortOf(t, GroupParams{Lossless: true, Share: share, Headroom: headroom, XON: share}), headroom
		}
		m, before := draw("old")
		for m.Congested(0) == 0 {
			m.Admit(0, 0, 1)
		}
		for range rapid.IntRange(0, before).Draw(t, "more") {
			m.Admit(0, 0, 1)
		}
		left := before - m.Group(0, 0).Headroom
		next, after := draw("new")
		next.TakeOver(m)
		check(t, next)
		if next.Congested(0)&1 == 0 && next.Group(0, 0).Shared > next.Group(0, 0).PeakShared {
			t.Fatal("a group in XOFF left it by taking over")
		}
		for i := range min(left, after) {
			if r := next.Admit(0, 0, 1); r != Admitted {
				t.Fatalf("%v after %d cells, though %d were free before and the new headroom has %d", r, i, left, after)
			}
		}
		check(t, next)
	})
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
