package cells

import (
	"fmt"
	"math"
	"testing"
)

// saturated returns a pool of shared cells with n groups, all with a dynamic share.
func saturated(t *testing.T, n, alpha, shared int, more GroupParams) *Manager {
	t.Helper()
	more.Alpha = alpha
	p := Params{CellSize: 160, Cells: shared, Ports: make([]PortParams, (n+Priorities-1)/Priorities)}
	for i := range n {
		p.Ports[i/Priorities].Groups[i%Priorities] = more
		p.Cells += more.Reserved + more.Headroom
	}
	return newManager(t, p)
}

// TestDynamicSharesSettle offers each group frame after frame, in turn, and expects the value of
// Choudhury and Hahne for each, to within one frame.
func TestDynamicSharesSettle(t *testing.T) {
	const shared = 20_000
	for _, frame := range []int{1, 10} {
		for alpha := 1; alpha <= maxAlpha; alpha *= 2 {
			for n := 1; n <= 64; n++ {
				m := saturated(t, n, alpha, shared, GroupParams{})
				for room := true; room; {
					room = false
					for i := range n {
						room = m.Admit(i/Priorities, i%Priorities, frame) == Admitted || room
					}
				}
				a := float64(alpha) / AlphaUnit
				want := a * shared / (1 + float64(n)*a)
				for i := range n {
					got := m.Group(i/Priorities, i%Priorities).Shared
					if math.Abs(float64(got)-want) > float64(frame) {
						t.Fatalf("alpha %v, %d groups, frames of %d cells: group %d settled at %d cells, want %.1f", a,
							n, frame, i, got, want)
					}
				}
				check(t, m)
			}
		}
	}
}

// TestDynamicQueuesSettle does the same for egress queues.
func TestDynamicQueuesSettle(t *testing.T) {
	const size = 10_000
	for n := 1; n <= 64; n++ {
		alpha := 1 << (n % 11) // 1/128 to 8
		p := Params{CellSize: 160, Cells: 1, Queues: []QueuePoolParams{{Cells: size}}, Ports: make([]PortParams, 8)}
		for i := range n {
			p.Ports[i/Priorities].Queues[i%Priorities].Alpha = alpha
		}
		m := newManager(t, p)
		for room := true; room; {
			room = false
			for i := range n {
				room = m.Enqueue(i/Priorities, i%Priorities, 0, 1) == Admitted || room
			}
		}
		a := float64(alpha) / AlphaUnit
		want := a * size / (1 + a*float64(n))
		for i := range n {
			if got := m.Queue(i/Priorities, i%Priorities).Used; math.Abs(float64(got)-want) > 1 {
				t.Fatalf("%d queues, alpha %v: queue %d settled at %d cells, want %.1f", n, a, i, got, want)
			}
		}
		check(t, m)
	}
}

// TestSinkingLimit has other groups take so much that a group's limit sinks below what it holds.
// Its next frame takes headroom, and it keeps what it holds.
func TestSinkingLimit(t *testing.T) {
	m := saturated(t, 3, AlphaUnit, 100, GroupParams{Lossless: true, Headroom: 5})
	for range 50 {
		m.Admit(0, 0, 1)
	}
	for priority := 1; priority < 3; priority++ {
		for m.Group(0, priority).Headroom == 0 {
			m.Admit(0, priority, 1)
		}
	}
	before := m.Group(0, 0)
	if r := m.Admit(0, 0, 1); r != Admitted {
		t.Fatal(r)
	}
	after := m.Group(0, 0)
	if after.Shared != before.Shared || after.Headroom != 1 || m.Congested(0)&1 == 0 {
		t.Fatalf("%+v, then %+v in XOFF %#x; want one more cell of headroom, and XOFF", before, after, m.Congested(0))
	}
	check(t, m)
}

// TestXONOffset has a group leave XOFF because another group gives cells back, which raises the
// dynamic limit.
func TestXONOffset(t *testing.T) {
	m := saturated(t, 2, AlphaUnit, 90, GroupParams{Lossless: true, Headroom: 5, XONOffset: 10})
	for m.Group(0, 1).Shared < 30 || m.Group(0, 0).Shared < 30 {
		m.Admit(0, 0, 1)
		m.Admit(0, 1, 1)
	}
	m.Release(0, 0, m.Group(0, 0).Headroom)
	m.Admit(0, 0, 1) // one cell in headroom: XOFF
	m.Release(0, 0, 1)
	if m.Congested(0)&1 == 0 {
		t.Fatal("30 cells held, limit 30, offset 10: want XOFF still")
	}
	m.Release(0, 1, m.Group(0, 1).Headroom+9)
	if m.Congested(0)&1 == 0 {
		t.Fatal("30 cells held, limit 39, offset 10: want XOFF still")
	}
	m.Release(0, 1, 1)
	if m.Congested(0)&1 != 0 {
		t.Fatal("30 cells held, limit 40, offset 10: want XON")
	}
	check(t, m)
}

// TestXONOffsetOfAStaticShare: the limit is 14 cells, reserved and share together. XON is at the
// offset below it, or at 3 if that is more; without an offset, it is at 3.
func TestXONOffsetOfAStaticShare(t *testing.T) {
	for offset := range 15 {
		xon := max(3, 14-offset)
		if offset == 0 {
			xon = 3
		}
		g := GroupParams{Lossless: true, Reserved: 4, Share: 10, Headroom: 6, XON: 3, XONOffset: offset}
		m := onePort(t, 100, g)
		m.Admit(0, 3, 15)
		for held := 14; held >= 0; held-- {
			m.Release(0, 3, 1)
			if xoff := m.Congested(0) != 0; xoff != (held > xon) {
				t.Fatalf("offset %d, %d cells held: XOFF %t, want XON at %d", offset, held, xoff, xon)
			}
		}
	}
}

// TestEgressPoolIsNotOverdrawn: a pool refuses a frame larger than its free cells, however large
// alpha is.
func TestEgressPoolIsNotOverdrawn(t *testing.T) {
	p := Params{CellSize: 160, Cells: 1, Queues: []QueuePoolParams{{Cells: 100}}, Ports: make([]PortParams, 1)}
	p.Ports[0].Queues[0].Alpha = 8 * AlphaUnit
	m := newManager(t, p)
	for _, cells := range []int{58, 27} {
		if r := m.Enqueue(0, 0, 0, cells); r != Admitted {
			t.Fatalf("%d cells: %v", cells, r)
		}
	}
	if r := m.Enqueue(0, 0, 0, 16); r != QueueFull {
		t.Errorf("16 cells where 15 are free: %v", r)
	}
	if r := m.Enqueue(0, 0, 0, 15); r != Admitted {
		t.Errorf("15 cells where 15 are free: %v", r)
	}
	check(t, m)
}

// TestSharedHeadroom has four groups with 10 cells of headroom each in a pool that has 20 for them.
func TestSharedHeadroom(t *testing.T) {
	p := Params{CellSize: 160, Cells: 60, Pools: []PoolParams{{Shared: 40, Headroom: 20}}, Ports: make([]PortParams, 1)}
	for i := range 4 {
		p.Ports[0].Groups[i] = GroupParams{Lossless: true, Share: 10, Headroom: 10}
	}
	m := newManager(t, p)
	admit := func(priority, cells int) Reason { return m.Admit(0, priority, cells) }
	for i := range 4 {
		admit(i, 10)
	}
	if r := [...]Reason{admit(0, 10), admit(1, 6), admit(2, 4), admit(3, 1)}; r != [...]Reason{Admitted, Admitted,
		Admitted, HeadroomFull} {
		t.Fatalf("20 cells of headroom asked for 10, 6, 4 and 1: %v", r)
	}
	if u := m.Pool(0); u.Headroom != 20 || u.PeakHeadroom != 20 || u.HeadroomSize != 20 {
		t.Fatalf("%+v, want all 20 cells of headroom used", u)
	}
	m.Release(0, 0, 1)
	if r := admit(3, 1); r != Admitted {
		t.Fatalf("one cell of headroom was given back, yet: %v", r)
	}
	if r := admit(0, 1); r != HeadroomFull {
		t.Fatalf("the pool's headroom is used up, yet: %v", r)
	}
	check(t, m)
}

// TestPoolsAreApart fills the lossy pool and expects no effect on the lossless one.
func TestPoolsAreApart(t *testing.T) {
	p := Params{CellSize: 160, Cells: 110, Pools: []PoolParams{{Shared: 60}, {Shared: 40}},
		Ports: make([]PortParams, 1)}
	p.Ports[0].Groups[3] = GroupParams{Lossless: true, Pool: 0, Alpha: 8 * AlphaUnit, Headroom: 10}
	p.Ports[0].Groups[0] = GroupParams{Pool: 1, Share: 40}
	m := newManager(t, p)
	if r := m.Admit(0, 0, 40); r != Admitted {
		t.Fatal(r)
	}
	if r := m.Admit(0, 0, 1); r != IngressFull {
		t.Fatalf("lossy past its pool: %v", r)
	}
	if r := m.Admit(0, 3, 60); r != Admitted || m.Congested(0) != 0 {
		t.Fatalf("lossless into its own pool: %v, XOFF %#x", r, m.Congested(0))
	}
	check(t, m)
}

// TestWatermarksMoveByOneCell admits and enqueues one small frame at a time. Each watermark must
// follow by one cell, and peaks must start again from where they were cleared.
func TestWatermarksMoveByOneCell(t *testing.T) {
	const share, headroom = 4, 3
	p := Params{CellSize: 160, Cells: share + headroom, Ports: make([]PortParams, 1)}
	p.Ports[0].Groups[3] = GroupParams{Lossless: true, Share: share, Headroom: headroom}
	p.Ports[0].Queues[2].Alpha = AlphaUnit
	m := newManager(t, p)
	watermarks := func() string {
		g, q, in, e := m.Group(0, 3), m.Queue(0, 2), m.Pool(0), m.EgressPool(0)
		return fmt.Sprint([]int{g.PeakShared, g.MaxShared, g.PeakHeadroom, g.MaxHeadroom}, []int{q.Peak, q.Max},
			[]int{in.Peak, in.Max, in.PeakHeadroom, in.MaxHeadroom}, []int{e.Peak, e.Max})
	}
	expect := func(peak, ever, headroom, everHeadroom, queued, maxQueued int) {
		t.Helper()
		want := fmt.Sprint([]int{peak, ever, headroom, everHeadroom}, []int{queued, maxQueued},
			[]int{peak, ever, headroom, everHeadroom}, []int{queued, maxQueued})
		if got := watermarks(); got != want {
			t.Fatalf("watermarks of group, queue, pool, egress pool: %s, want %s", got, want)
		}
	}
	small := m.Cells(60)
	for n := 1; n <= share+headroom; n++ {
		m.Admit(0, 3, small)
		queued := min(n, 3) // with alpha 1, a queue alone takes about half of the 7 cells
		if n <= 3 {
			m.Enqueue(0, 2, 0, small)
		}
		expect(min(n, share), min(n, share), max(n-share, 0), max(n-share, 0), queued, queued)
	}
	m.Release(0, 3, 5)
	m.Dequeue(0, 2, 0, 2)
	expect(share, share, headroom, headroom, 3, 3)
	m.ClearWatermarks()
	expect(2, share, 0, headroom, 1, 3)
	m.Admit(0, 3, small)
	m.Enqueue(0, 2, 0, small)
	expect(3, share, 0, headroom, 2, 3)
	check(t, m)
}
