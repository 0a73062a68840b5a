package cells

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/linux/umem"
)

// onePort returns a manager of one port with group 3 as given; all others are lossy and admit
// nothing.
func onePort(t *testing.T, cells int, g GroupParams) *Manager {
	t.Helper()
	p := Params{CellSize: 160, Cells: cells, Ports: make([]PortParams, 1)}
	p.Ports[0].Groups[3] = g
	return newManager(t, p)
}

func newManager(t fataler, p Params) *Manager {
	t.Helper()
	m, err := NewManager(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	return m
}

// fataler is the part of *testing.T, *testing.B and *rapid.T that helpers use.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func check(t fataler, m *Manager) {
	t.Helper()
	if err := m.Check(); err != nil {
		t.Fatalf("%v", err)
	}
}

func TestCellsIsExact(t *testing.T) {
	sizes := []int{1, 2, 3, 64, 80, 96, 160, 208, 256, 2048, 4097, 32767, 65521, 65534, 65535}
	for range 10 {
		sizes = append(sizes, 1+rand.IntN(maxCellSize))
	}
	for _, size := range sizes {
		m := newManager(t, Params{CellSize: size, Cells: 1})
		for length := 1; length <= 65535; length++ {
			if got, want := m.Cells(length), (length+size-1)/size; got != want {
				t.Fatalf("cell %d: a frame of %d B takes %d cells, want %d", size, length, got, want)
			}
		}
	}
}

// TestThresholdsAreExact walks one lossless group up and down one cell at a time.
func TestThresholdsAreExact(t *testing.T) {
	const reserved, share, headroom, xon = 4, 10, 6, 5
	m := onePort(t, 100, GroupParams{Lossless: true, Reserved: reserved, Share: share, Headroom: headroom, XON: xon})
	const limit, full = reserved + share, reserved + share + headroom
	for held := 1; held <= full; held++ {
		if r := m.Admit(0, 3, 1); r != Admitted {
			t.Fatalf("cell %d of %d: %v", held, full, r)
		}
		want := uint8(0)
		if held > limit {
			want = 1 << 3
		}
		if got := m.Congested(0); got != want {
			t.Fatalf("%d cells held, limit %d: congested %#x, want %#x", held, limit, got, want)
		}
		usage := GroupUsage{
			Reserved: min(held, reserved), Shared: min(max(held-reserved, 0), share), Headroom: max(held-limit, 0),
			PeakShared: min(max(held-reserved, 0), share), PeakHeadroom: max(held-limit, 0),
			MaxShared: min(max(held-reserved, 0), share), MaxHeadroom: max(held-limit, 0),
		}
		if got := m.Group(0, 3); got != usage {
			t.Fatalf("%d cells held: %+v, want %+v", held, got, usage)
		}
		check(t, m)
	}
	before := m.Group(0, 3)
	if r := m.Admit(0, 3, 1); r != HeadroomFull {
		t.Fatalf("one cell beyond the headroom: %v, want headroom_full", r)
	}
	if after := m.Group(0, 3); after != before {
		t.Fatalf("a refused frame changed usage: %+v, was %+v", after, before)
	}
	for held := full - 1; held >= 0; held-- {
		m.Release(0, 3, 1)
		want := uint8(0)
		if held > xon {
			want = 1 << 3
		}
		if got := m.Congested(0); got != want {
			t.Fatalf("%d cells held, XON at %d: congested %#x, want %#x", held, xon, got, want)
		}
		check(t, m)
	}
	if got, want := m.Group(0, 3),
		(GroupUsage{PeakShared: share, PeakHeadroom: headroom, MaxShared: share, MaxHeadroom: headroom}); got != want {
		t.Fatalf("idle again: %+v, want %+v", got, want)
	}
}

// TestFrameAcrossThresholds has one frame that spans all three parts: it is admitted whole or not
// at all.
func TestFrameAcrossThresholds(t *testing.T) {
	m := onePort(t, 100, GroupParams{Lossless: true, Reserved: 4, Share: 10, Headroom: 6})
	if r := m.Admit(0, 3, 21); r != HeadroomFull || m.InUse() != 0 {
		t.Fatalf("a frame of 21 cells into 20: %v, %d cells in use", r, m.InUse())
	}
	if r := m.Admit(0, 3, 20); r != Admitted {
		t.Fatalf("a frame of 20 cells into 20: %v", r)
	}
	want := GroupUsage{Reserved: 4, Shared: 10, Headroom: 6, PeakShared: 10, PeakHeadroom: 6, MaxShared: 10,
		MaxHeadroom: 6}
	if got := m.Group(0, 3); got != want || m.Congested(0) != 1<<3 {
		t.Fatalf("%+v, congested %#x; want %+v in XOFF", got, m.Congested(0), want)
	}
	m.Release(0, 3, 20)
	if m.InUse() != 0 || m.Congested(0) != 0 {
		t.Fatalf("released: %d cells in use, congested %#x", m.InUse(), m.Congested(0))
	}
}

func TestLossyGroupDropsInsteadOfPausing(t *testing.T) {
	m := onePort(t, 100, GroupParams{Reserved: 2, Share: 3})
	for i, want := range []Reason{Admitted, IngressFull, Admitted, Admitted, IngressFull} {
		cells := []int{3, 3, 1, 1, 1}[i]
		if got := m.Admit(0, 3, cells); got != want {
			t.Fatalf("frame %d of %d cells: %v, want %v", i, cells, got, want)
		}
		if m.Congested(0) != 0 {
			t.Fatal("a lossy group asked for a pause")
		}
		check(t, m)
	}
}

func TestQueueLimit(t *testing.T) {
	p := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, 2)}
	p.Ports[1].Queues[2].Limit = 5
	m := newManager(t, p)
	for i, want := range []Reason{Admitted, QueueFull, Admitted, QueueFull} {
		cells := []int{3, 3, 2, 1}[i]
		if got := m.Enqueue(1, 2, 0, cells); got != want {
			t.Fatalf("frame %d of %d cells: %v, want %v", i, cells, got, want)
		}
	}
	if r := m.Enqueue(1, 3, 0, 1<<20); r != Admitted {
		t.Fatalf("a queue without limit: %v", r)
	}
	m.Dequeue(1, 2, 0, 3)
	if got, want := m.Queue(1, 2), (QueueUsage{Used: 2, Peak: 5, Max: 5}); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	check(t, m)
}

// TestQueueAsAWhole: HasRoom and EnqueueAll take exactly what fits, and a refusal changes nothing.
func TestQueueAsAWhole(t *testing.T) {
	p := Params{CellSize: 160, Cells: 1, Queues: []QueuePoolParams{{Cells: 100}, {Cells: 50 * 129}},
		Ports: make([]PortParams, 1)}
	p.Ports[0].Queues[2].Limit, p.Ports[0].Queues[4].Alpha = 50, AlphaUnit // which is 50 of 100
	p.Ports[0].Queues[5] = QueueParams{Pool: 1, Alpha: 1}                  // and so is this of 50 · 129
	for _, queue := range []int{2, 4, 5} {
		m := newManager(t, p)
		for _, c := range []struct {
			cells int
			fits  bool
		}{{51, false}, {40, true}, {11, false}, {10, true}, {1, false}} {
			before := m.Queue(0, queue)
			if got := m.HasRoom(0, queue, c.cells); got != c.fits {
				t.Errorf("queue %d holds %d cells; room for %d: %t, want %t", queue, before.Used, c.cells, got, c.fits)
			}
			if got := m.EnqueueAll(0, queue, 0, c.cells); got != c.fits {
				t.Errorf("queue %d holds %d cells and takes %d: %t, want %t", queue, before.Used, c.cells, got, c.fits)
			}
			if after := m.Queue(0, queue); !c.fits && after != before {
				t.Errorf("queue %d: a refusal changed %+v to %+v", queue, before, after)
			}
		}
		check(t, m)
	}
}

func TestGivingBackTooMuchPanics(t *testing.T) {
	m := onePort(t, 100, GroupParams{Lossless: true, Reserved: 1, Share: 1, Headroom: 1})
	m.Admit(0, 3, 3)
	m.Enqueue(0, 3, 0, 3)
	for name, call := range map[string]func(){
		"Release": func() { m.Release(0, 3, 4) },
		"Dequeue": func() { m.Dequeue(0, 3, 0, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
				check(t, m) // the panic came before any damage
			}()
			call()
		})
	}
}

func TestRefusals(t *testing.T) {
	with := func(change func(*Params)) Params {
		p := Params{CellSize: 160, Cells: 1000, Ports: make([]PortParams, 2)}
		p.Ports[1].Groups[3] = GroupParams{Lossless: true, Reserved: 100, Share: 500, Headroom: 300, XON: 600}
		change(&p)
		return p
	}
	newManager(t, with(func(*Params) {}))
	group := func(change func(*GroupParams)) Params {
		return with(func(p *Params) { change(&p.Ports[1].Groups[3]) })
	}
	for _, c := range []struct {
		params Params
		want   string
	}{
		{with(func(p *Params) { p.CellSize = 0 }), "cell size in bytes 0: must be 1 to 65535"},
		{with(func(p *Params) { p.CellSize = 65536 }), "must be 1 to 65535"},
		{with(func(p *Params) { p.Cells = 0 }), "memory in cells 0: must be 1 to 134217728"},
		{with(func(p *Params) { p.Cells = 1<<27 + 1 }), "must be 1 to 134217728"},
		{with(func(p *Params) { p.Ports[1].Queues[6].Limit = -1 }), "port 1 queue 6: limit -1: must be 0 to"},
		{with(func(p *Params) { p.Ports[1].Queues[6] = QueueParams{Limit: 1, Alpha: 128} }),
			"limit 1 and alpha 128/128: a limit is static or dynamic"},
		{with(func(p *Params) { p.Ports[1].Queues[6].Pool = 1 }), "port 1 queue 6: pool 1: must be 0 to 0"},
		{with(func(p *Params) { p.Queues = []QueuePoolParams{{Cells: 0}} }), "egress pool 0: cells 0: must be 1 to"},
		{with(func(p *Params) { p.Ports[0].Groups[0].Reserved = 601 }), "memory of 1000 cells: 701 reserved, and " +
			"the headroom and shared cells of all pools, need at least 1001"},
		{with(func(p *Params) { p.Ports[0].Groups[0].Headroom = 1 }),
			"port 0 priority 0: lossy with headroom 1, XON 0 and XON offset 0: all must be 0"},
		{with(func(p *Params) { p.Ports[0].Groups[0].XON = 1 }), "lossy with headroom 0, XON 1 and"},
		{with(func(p *Params) { p.Ports[0].Groups[0].XONOffset = 1 }), "XON offset 1: all must be 0"},
		{with(func(p *Params) { p.Pools = []PoolParams{{Shared: 601}} }), "need at least 1001"},
		{with(func(p *Params) { p.Pools = []PoolParams{{Shared: 600, Headroom: 299}} }),
			"pool 0: headroom 299: must be 300 to 300"},
		{with(func(p *Params) { p.Pools = []PoolParams{{Shared: 499}} }),
			"share 500: must be 0 to 499 (the size of its pool)"},
		{group(func(g *GroupParams) { g.Pool = 1 }), "pool 1: must be 0 to 0"},
		{group(func(g *GroupParams) { g.Headroom = 0 }),
			"port 1 priority 3: lossless without headroom: compute what its link needs"},
		{group(func(g *GroupParams) { g.Headroom = 1001 }), "headroom 1001: must be 0 to 1000"},
		{group(func(g *GroupParams) { g.Reserved = -1 }), "reserved -1: must be 0 to 1000"},
		{group(func(g *GroupParams) { g.XON = 601 }),
			"port 1 priority 3: XON 601: must be 0 to 600 (the limit of the group)"},
		{group(func(g *GroupParams) { g.XON = -1 }), "XON -1: must be 0 to"},
		{group(func(g *GroupParams) { g.Share = 601 }), "share 601: must be 0 to 600 (the size of its pool)"},
		{group(func(g *GroupParams) { g.Alpha = 128 }), "share 500 and alpha 128/128: a limit is static or dynamic"},
		{group(func(g *GroupParams) { g.Share, g.Alpha = 0, 3 }), "alpha of 3/128: must be a power of two, 1/128 to 8"},
		{group(func(g *GroupParams) { g.Share, g.Alpha = 0, 2048 }), "alpha of 2048/128: must be a power of two"},
	} {
		_, err := NewManager(c.params)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

func TestReasonNames(t *testing.T) {
	want := "admitted ingress_full headroom_full queue_full unknown"
	if got := fmt.Sprint(Admitted, IngressFull, HeadroomFull, QueueFull, Reason(NumReasons)); got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

// drawParams draws a small memory with no cells to spare, so that tests soon reach every limit.
func drawParams(t *rapid.T) Params {
	p := Params{CellSize: rapid.IntRange(1, 300).Draw(t, "cell size"),
		Ports: make([]PortParams, rapid.IntRange(1, 3).Draw(t, "ports"))}
	p.Pools = make([]PoolParams, rapid.IntRange(1, 4).Draw(t, "pools"))
	for i := range p.Pools {
		p.Pools[i].Shared = rapid.IntRange(0, 60).Draw(t, "shared")
		p.Cells += p.Pools[i].Shared
	}
	for _, size := range rapid.SliceOfN(rapid.IntRange(1, 60), 0, 4).Draw(t, "egress pools") {
		p.Queues = append(p.Queues, QueuePoolParams{Cells: size})
	}
	crowded := rapid.Bool().Draw(t, "crowded") // lossy groups that want more of a pool than it has
	for n := range p.Ports {
		for i := range Priorities {
			p.Ports[n].Groups[i] = drawGroup(t, p.Pools)
			if crowded && i < 2 {
				p.Ports[n].Groups[i] = GroupParams{Share: p.Pools[0].Shared,
					Reserved: rapid.IntRange(0, 6).Draw(t, "reserved")}
			}
			p.Ports[n].Queues[i] = drawQueue(t, max(1, len(p.Queues)))
			p.Cells += p.Ports[n].Groups[i].Reserved + p.Ports[n].Groups[i].Headroom
		}
	}
	p.Cells = max(p.Cells, 1)
	overSubscribe(t, &p)
	return p
}

func drawGroup(t *rapid.T, pools []PoolParams) GroupParams {
	g := GroupParams{
		Lossless: rapid.Bool().Draw(t, "lossless"),
		Pool:     rapid.IntRange(0, len(pools)-1).Draw(t, "pool"),
		Reserved: rapid.IntRange(0, 6).Draw(t, "reserved"),
	}
	limit := g.Reserved + pools[g.Pool].Shared
	if g.Alpha = drawAlpha(t); g.Alpha == 0 {
		g.Share = rapid.IntRange(0, pools[g.Pool].Shared).Draw(t, "share")
		limit = g.Reserved + g.Share
	}
	if g.Lossless {
		g.Headroom = rapid.IntRange(1, 12).Draw(t, "headroom")
		g.XON = rapid.IntRange(0, limit).Draw(t, "XON")
		g.XONOffset = rapid.IntRange(0, 10).Draw(t, "XON offset")
		g.XONOffset = min(g.XONOffset, limit)
	}
	return g
}

// drawAlpha draws an alpha, or 0 for a static limit.
func drawAlpha(t *rapid.T) int {
	return rapid.SampledFrom([]int{0, 1, 32, AlphaUnit / 2, AlphaUnit, 8 * AlphaUnit}).Draw(t, "alpha")
}

func drawQueue(t *rapid.T, pools int) QueueParams {
	q := QueueParams{Alpha: drawAlpha(t), Pool: rapid.IntRange(0, pools-1).Draw(t, "egress pool")}
	if q.Alpha == 0 {
		q.Limit = rapid.IntRange(0, 20).Draw(t, "limit")
	}
	return q
}

// overSubscribe gives each pool a random headroom, at most the sum of its groups' headrooms.
func overSubscribe(t *rapid.T, p *Params) {
	for i := range p.Pools {
		sum, largest := 0, 0
		for n := range p.Ports {
			for _, g := range p.Ports[n].Groups {
				if g.Pool == i {
					sum, largest = sum+g.Headroom, max(largest, g.Headroom)
				}
			}
		}
		p.Pools[i].Headroom = rapid.IntRange(largest, sum).Draw(t, "headroom of the pool")
		p.Cells -= sum - p.Pools[i].Headroom
	}
	p.Cells = max(p.Cells, 1)
}

// drawFrame draws a frame. Two priorities are drawn more often than the others, so that they fill
// up.
func drawFrame(t *rapid.T, p Params) frame {
	return frame{
		port:     rapid.IntRange(0, len(p.Ports)-1).Draw(t, "port"),
		priority: rapid.OneOf(rapid.IntRange(0, 1), rapid.IntRange(0, 7)).Draw(t, "priority"),
		cells:    rapid.IntRange(1, 9).Draw(t, "cells"),
		from:     rapid.IntRange(0, len(p.Ports)-1).Draw(t, "from"),
	}
}

// drawBatch draws frames of one group.
func drawBatch(t *rapid.T, p Params) []frame {
	batch := []frame{drawFrame(t, p)}
	for range rapid.IntRange(0, 4).Draw(t, "others") {
		f := batch[0]
		f.cells = rapid.IntRange(1, 9).Draw(t, "cells")
		batch = append(batch, f)
	}
	return batch
}

// admitAll asks for a batch as a whole; if it is granted, the model admits its frames one by one.
func admitAll(t *rapid.T, p Params, m *Manager, want *model) []frame {
	return askedAsOne(t, p, func(batch []frame) bool {
		return m.AdmitAll(batch[0].port, batch[0].priority, sum(batch))
	}, func(f frame) bool {
		at := [2]int{f.port, f.priority}
		before := want.usage(at).Headroom // headroom held before does not count
		return want.admit(f) == Admitted && want.usage(at).Headroom == before
	})
}

// enqueueAll does the same for an egress queue.
func enqueueAll(t *rapid.T, p Params, m *Manager, want *model) []frame {
	return askedAsOne(t, p, func(batch []frame) bool {
		f := batch[0]
		return m.HasRoom(f.port, f.priority, sum(batch)) && m.EnqueueAll(f.port, f.priority, f.from, sum(batch))
	}, func(f frame) bool { return want.enqueue(f) == Admitted })
}

// granted cuts a batch to what Grant allows and returns the frames that were queued. Their first
// frame would have been taken alone; if nothing was granted, the first frame is tried alone.
func granted(t *rapid.T, p Params, m *Manager, want *model) (kept []frame) {
	batch := drawBatch(t, p)
	f := batch[0]
	grant := m.Grant(f.port, f.priority, f.from, sum(batch), f.cells)
	admitted := want.admits(f, sum(batch))
	want.granted(f, grant, sum(batch))
	if grant == 0 {
		r := m.Enqueue(f.port, f.priority, f.from, f.cells)
		if w := want.enqueue(f); r != w {
			t.Fatalf("%+v after none of %+v: %v, want %v", f, batch, r, w)
		} else if r == Admitted {
			kept = batch[:1]
		}
		return kept
	}
	if !admitted {
		t.Fatalf("%+v: %d cells are granted, want none", batch, grant)
	}
	for len(kept) < len(batch) && sum(batch[:len(kept)+1]) <= grant {
		want.put(batch[len(kept)])
		kept = batch[:len(kept)+1]
	}
	if !m.EnqueueAll(f.port, f.priority, f.from, sum(kept)) &&
		(len(kept) > 1 || m.Enqueue(f.port, f.priority, f.from, f.cells) != Admitted) {
		t.Fatalf("%+v, of which %d cells were granted, are refused", kept, grant)
	}
	return kept
}

// askedAsOne draws a batch and returns it if all accepts it, or nil. one must then accept each of
// its frames.
func askedAsOne(t *rapid.T, p Params, all func(batch []frame) bool, one func(frame) bool) []frame {
	batch := drawBatch(t, p)
	if !all(batch) {
		return nil
	}
	for _, f := range batch {
		if !one(f) {
			t.Fatalf("%+v of %+v: would not have been taken alone, or in headroom", f, batch)
		}
	}
	return batch
}

func sum(batch []frame) (cells int) {
	for _, f := range batch {
		cells += f.cells
	}
	return cells
}

// TestAllWhereThereIsRoom: AdmitAll takes exactly what is certain to fit.
func TestAllWhereThereIsRoom(t *testing.T) {
	m := onePort(t, 1000, GroupParams{Alpha: AlphaUnit})
	// With 400 cells held, 600 are free, and the limit is the number of free cells.
	for _, c := range []struct {
		cells int
		fits  bool
	}{{400, true}, {101, false}, {100, true}, {1, false}} {
		if got := m.AdmitAll(0, 3, c.cells); got != c.fits {
			t.Errorf("%d more cells: %t, want %t, with %+v", c.cells, got, c.fits, m.Group(0, 3))
		}
	}
	if u := m.Group(0, 3); u.Shared != 500 || u.PeakShared != 500 {
		t.Errorf("%+v", u)
	}
}

// TestBatchPastShare: with a static limit, frames admitted together hold the same cells as frames
// admitted one by one. A dynamic limit sinks with each single frame; together they need at least as
// much headroom.
func TestBatchPastShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		one, together := newManager(t, p), newManager(t, p)
		for range rapid.IntRange(0, 20).Draw(t, "frames before") {
			f := drawFrame(t, p)
			one.Admit(f.port, f.priority, f.cells)
			together.Admit(f.port, f.priority, f.cells)
		}
		batch := drawBatch(t, p)
		port, priority := batch[0].port, batch[0].priority
		if together.AdmitAll(port, priority, sum(batch)) || !together.AdmitPastShare(port, priority, sum(batch)) {
			return
		}
		check(t, together)
		for _, f := range batch {
			if r := one.Admit(port, priority, f.cells); r != Admitted {
				t.Fatalf("%+v of %+v: %v alone, admitted together", f, batch, r)
			}
		}
		a, b := one.Group(port, priority), together.Group(port, priority)
		dynamic := p.Ports[port].Groups[priority].Alpha != 0
		if !dynamic && a != b || b.Headroom < a.Headroom || one.Congested(port)&^together.Congested(port) != 0 {
			t.Fatalf("one by one %+v, together %+v", a, b)
		}
	})
}

// TestBatchAtADynamicLimit: of frames that need headroom, a group's own cells are as many as the
// limit allows that holds when it has taken them; the others are headroom.
func TestBatchAtADynamicLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared, reserved := rapid.IntRange(1, 60).Draw(t, "shared"), rapid.IntRange(0, 6).Draw(t, "reserved")
		alpha := rapid.SampledFrom([]int{1, 32, AlphaUnit / 2, AlphaUnit, 8 * AlphaUnit}).Draw(t, "alpha")
		others := rapid.IntRange(0, shared).Draw(t, "held by others")
		p := Params{CellSize: 160, Cells: 200, Pools: []PoolParams{{Shared: shared}}, Ports: make([]PortParams, 1)}
		p.Ports[0].Groups[0] = GroupParams{Lossless: true, Reserved: reserved, Alpha: alpha, Headroom: 60}
		p.Ports[0].Groups[1] = GroupParams{Share: shared}
		m := newManager(t, p)
		m.Admit(0, 1, others)
		m.Admit(0, 0, rapid.IntRange(1, 30).Draw(t, "held"))
		want := m.Group(0, 0)
		batch := rapid.IntRange(1, 30).Draw(t, "batch")
		if m.AdmitAll(0, 0, batch) {
			return
		}
		if !m.AdmitPastShare(0, 0, batch) {
			t.Fatalf("%d cells are refused: %+v", batch, want)
		}
		for range batch {
			own := want.Reserved + want.Shared + 1
			free := shared - others - max(own-reserved, 0)
			switch {
			case own <= reserved:
				want.Reserved++
			case free >= 0 && own <= reserved+free*alpha/AlphaUnit:
				want.Shared++
			default:
				want.Headroom++
			}
		}
		got := m.Group(0, 0)
		if got.Reserved != want.Reserved || got.Shared != want.Shared || got.Headroom != want.Headroom {
			t.Fatalf("a batch of %d: %+v, want %+v", batch, got, want)
		}
		check(t, m)
	})
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		m, want := newManager(t, p), newModel(p)
		var held, queued []frame
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				f := drawFrame(t, p)
				r := m.Admit(f.port, f.priority, f.cells)
				if w := want.admit(f); r != w {
					t.Fatalf("%+v: %v, want %v", f, r, w)
				}
				if r == Admitted {
					held = append(held, f)
				}
			},
			"admit all":   func(t *rapid.T) { held = append(held, admitAll(t, p, m, want)...) },
			"enqueue all": func(t *rapid.T) { queued = append(queued, enqueueAll(t, p, m, want)...) },
			"grant":       func(t *rapid.T) { queued = append(queued, granted(t, p, m, want)...) },
			"release": func(t *rapid.T) {
				f, ok := takeAny(t, &held)
				if !ok {
					return
				}
				m.Release(f.port, f.priority, f.cells)
				want.release(f)
			},
			"enqueue": func(t *rapid.T) {
				f := drawFrame(t, p)
				r := m.Enqueue(f.port, f.priority, f.from, f.cells)
				if w := want.enqueue(f); r != w {
					t.Fatalf("%+v: %v, want %v", f, r, w)
				}
				if r == Admitted {
					queued = append(queued, f)
				}
			},
			"dequeue": func(t *rapid.T) {
				if f, ok := takeAny(t, &queued); ok {
					m.Dequeue(f.port, f.priority, f.from, f.cells)
					want.dequeue(f)
				}
			},
			"clear watermarks": func(*rapid.T) {
				m.ClearWatermarks()
				want.clearWatermarks()
			},
			"take over": func(*rapid.T) { // same parameters: nothing changes
				next := newManager(t, p)
				next.TakeOver(m)
				m = next
				clear(want.rivals) // contests start again
				clear(want.poolRivals)
			},
			"": func(t *rapid.T) {
				check(t, m)
				want.compare(t, m)
			},
		})
		for _, f := range held {
			m.Release(f.port, f.priority, f.cells)
			want.release(f)
		}
		check(t, m)
		want.compare(t, m)
		if m.InUse() != 0 {
			t.Fatalf("idle: %d cells in use", m.InUse())
		}
	})
}

// takeAny removes a drawn frame from frames.
func takeAny(t *rapid.T, frames *[]frame) (frame, bool) {
	s := *frames
	if len(s) == 0 {
		return frame{}, false
	}
	i := rapid.IntRange(0, len(s)-1).Draw(t, "which")
	f := s[i]
	s[i] = s[len(s)-1]
	*frames = s[:len(s)-1]
	return f, true
}

// TestGuarantees lets all groups fill up with frames in any order and mixture. Each group must
// still be able to use all of its reserved cells and, where the pool is not over-subscribed, its
// headroom.
func TestGuarantees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		for i := range p.Pools {
			p.Cells -= p.Pools[i].Headroom
			p.Pools[i].Headroom = 0
		}
		for n := range p.Ports {
			for _, g := range p.Ports[n].Groups {
				p.Cells += g.Headroom
			}
		}
		m := newManager(t, p)
		var held []frame
		for range rapid.IntRange(0, 150).Draw(t, "frames") {
			f := drawFrame(t, p)
			if m.Admit(f.port, f.priority, f.cells) == Admitted {
				held = append(held, f)
			}
			if rapid.IntRange(0, 3).Draw(t, "release too") == 0 {
				if f, ok := takeAny(t, &held); ok {
					m.Release(f.port, f.priority, f.cells)
				}
			}
		}
		order := rapid.Permutation(indices(len(p.Ports)*Priorities)).Draw(t, "order")
		for _, i := range order {
			port, priority := i/Priorities, i%Priorities
			g := p.Ports[port].Groups[priority]
			for m.Admit(port, priority, 1) == Admitted {
			}
			u := m.Group(port, priority)
			if u.Reserved != g.Reserved || u.Headroom != g.Headroom {
				t.Fatalf("port %d priority %d of %+v filled only %+v", port, priority, g, u)
			}
			check(t, m)
		}
	})
}

func indices(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestFramePathAllocatesNothing(t *testing.T) {
	m := onePort(t, 100, GroupParams{Lossless: true, Reserved: 1, Share: 1, Headroom: 40})
	pool := umem.NewPool(0, 64)
	burst := make([]uint32, 32)
	n := testing.AllocsPerRun(100, func() {
		c := m.Cells(1518)
		m.Admit(0, 3, c)
		m.Enqueue(0, 3, 0, c)
		m.Dequeue(0, 3, 0, c)
		m.Release(0, 3, c)
		pool.Put(burst[:pool.Get(burst)])
	})
	if n != 0 {
		t.Fatalf("%v allocations a frame", n)
	}
}
