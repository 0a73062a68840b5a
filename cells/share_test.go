package cells

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// crowd is a set of ports that overload a queue, or a pool, with frames of one size.
type crowd struct {
	m     *Manager
	pool  bool
	size  int   // cells of a frame
	queue []int // the ports that the queued frames came from
	taken []int // frames, by port
	limit int   // frames that fit
}

// drawCrowd draws ports, and a queue or a pool, which it fills from port 0.
func drawCrowd(t *rapid.T) *crowd {
	ports := rapid.OneOf(rapid.IntRange(2, 8), rapid.IntRange(2, 80)).Draw(t, "ports")
	c := &crowd{size: rapid.SampledFrom([]int{1, 10, 57}).Draw(t, "cells of a frame")}
	p := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, ports)}
	limit := c.size * rapid.OneOf(rapid.IntRange(max(8, ports), 8+2*ports), rapid.IntRange(8+ports, 50*ports)).Draw(t,
		"frames")
	limit += rapid.IntRange(0, c.size-1).Draw(t, "and cells")
	q := &p.Ports[0].Queues[0]
	switch rapid.SampledFrom([]string{"static queue", "dynamic queue", "pool"}).Draw(t, "limit") {
	case "pool":
		p.Cells, c.pool = limit, true
		for i := range p.Ports {
			p.Ports[i].Groups[0].Share = limit
		}
	case "dynamic queue":
		q.Alpha = rapid.SampledFrom([]int{AlphaUnit / 2, AlphaUnit, 8 * AlphaUnit}).Draw(t, "alpha")
		p.Queues = []QueuePoolParams{{Cells: limit*(q.Alpha+AlphaUnit)/q.Alpha + c.size}}
	default:
		q.Limit = limit
	}
	c.m = newManager(t, p)
	c.taken = make([]int, ports)
	for c.ask(0) {
	}
	c.limit = len(c.queue)
	return c
}

// ask asks for room for one frame.
func (c *crowd) ask(port int) bool {
	if c.pool && c.m.Admit(port, 0, c.size) != Admitted || !c.pool && c.m.Enqueue(0, 0, port, c.size) != Admitted {
		return false
	}
	c.add(port, 1)
	return true
}

// burst asks for room for several frames.
func (c *crowd) burst(t fataler, port, frames int) {
	if c.pool {
		if c.m.AdmitAll(port, 0, frames*c.size) {
			c.add(port, frames)
			return
		}
		for range frames {
			if !c.ask(port) {
				break // the others are no smaller
			}
		}
		return
	}
	n := c.m.Grant(0, 0, port, frames*c.size, c.size) / c.size
	if n == 1 { // Enqueue may admit a frame at a dynamic limit where EnqueueAll would not
		if !c.ask(port) {
			t.Fatalf("a frame was granted, and then refused")
		}
		return
	}
	if n > 0 && !c.m.EnqueueAll(0, 0, port, n*c.size) {
		t.Fatalf("%d frames were granted, and then refused", n)
	}
	c.add(port, n)
}

func (c *crowd) add(port, frames int) {
	c.taken[port] += frames
	for range frames {
		c.queue = append(c.queue, port)
	}
}

func (c *crowd) leave() (left bool) {
	if len(c.queue) == 0 {
		return false
	}
	if c.pool {
		c.m.Release(c.queue[0], 0, c.size)
	} else {
		c.m.Dequeue(0, 0, c.queue[0], c.size)
	}
	c.queue = c.queue[1:]
	return true
}

// TestRoomIsShared: ports that overload a queue get equal shares, and the queue never runs empty.
// An adversary draws the order and number of their requests, whether they come as bursts or as
// single frames, and how many frames leave in between.
func TestRoomIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowd(t)
		all := make([]int, len(c.taken))
		for i := range all {
			all[i] = i
		}
		leave := rapid.IntRange(1, 3).Draw(t, "leave")
		var asks []int
		for range leave { // each port asks at least this often
			asks = append(asks, rapid.Permutation(all).Draw(t, "asks")...)
		}
		asks = append(asks, rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 0, 5).Draw(t, "more asks")...)
		burst := rapid.SampledFrom([]int{0, leave, 64}).Draw(t, "burst") // 0: frame by frame
		run := func(turns int) {
			for range turns {
				for range leave {
					if !c.leave() {
						t.Fatalf("the queue is empty")
					}
				}
				for _, port := range asks {
					if burst == 0 {
						c.ask(port)
					} else {
						c.burst(t, port, burst)
					}
				}
			}
		}
		run(3 * c.limit)
		clear(c.taken)
		run(10 * c.limit)
		most, least, fair := slices.Max(c.taken), slices.Min(c.taken), 10*c.limit*leave/len(all)
		if c.limit < 10*len(all)*leave {
			fair, most = fair/4, 0 // one frame more or less matters here, but each port gets some
		}
		if least < fair*9/10 || most > fair*11/10+1 {
			t.Fatalf("%d frames of %d: %d", 10*c.limit*leave, c.limit, c.taken)
		}
		check(t, c.m)
	})
}

// TestRoomIsNotKept: ports that fall silent after they were refused cost the others no throughput,
// however the others ask.
func TestRoomIsNotKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowd(t)
		for port := range c.taken { // each is refused
			c.ask(port)
		}
		talking := rapid.IntRange(1, len(c.taken)-1).Draw(t, "talking")
		burst := rapid.SampledFrom([]int{1, 64, 2 * c.limit}).Draw(t, "burst")
		clear(c.taken)
		for range 20 * c.limit {
			if !c.leave() {
				t.Fatalf("the queue is empty: %d", c.taken)
			}
			for port := range talking {
				c.burst(t, port, burst)
			}
		}
		if least := slices.Min(c.taken[:talking]); least < (20*c.limit/talking-c.limit)*9/10 {
			t.Fatalf("%d frames left, so many were taken, by port: %d", 20*c.limit, c.taken)
		}
	})
}

// TestParts checks which part of a queue of 100 cells each port is granted.
func TestParts(t *testing.T) {
	p := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, 20)}
	p.Ports[0].Queues[0].Limit = 100
	m := newManager(t, p)
	ask := func(what string, from, cells, first, want int) {
		t.Helper()
		got := m.Grant(0, 0, from, cells, first)
		if got != want {
			t.Errorf("%s: %d cells, want %d", what, got, want)
		}
		if got > 0 && !m.EnqueueAll(0, 0, from, got) {
			t.Errorf("%s: granted, and refused", what)
		}
		check(t, m)
	}
	ask("there is room", 0, 95, 1, 95)
	ask("alone, all that is left, little as it is", 0, 20, 1, 5)
	ask("no room", 1, 1, 1, 0)
	m.Dequeue(0, 0, 0, 55)
	if m.HasRoom(0, 0, 1) {
		t.Error("a contested queue has room for anyone")
	}
	ask("a port that has half of it less five, of two", 0, 20, 1, 0) // less than a lump
	ask("another, its half", 1, 60, 1, 50)
	m.Dequeue(0, 0, 1, 50)
	ask("one of three, a frame", 2, 27, 27, 27)
	ask("one of four, a frame, though its part is smaller", 3, 27, 27, 27)
	ask("there is no room for another", 4, 27, 27, 0)
	m.Dequeue(0, 0, 2, 27)
	m.Dequeue(0, 0, 3, 27)
	m.Dequeue(0, 0, 0, 45)
	ask("the queue is empty, but another was refused frames lately", 0, 100, 1, 50)
	m.Dequeue(0, 0, 0, 50)
	ask("and then is not any more", 0, 100, 1, 100)
}

// TestLump: a burst that does not fit is cut to what its port's part has left, if that is at least
// an eighth of the part. The part is 40 cells of 80 here.
func TestLump(t *testing.T) {
	for _, c := range []struct{ held, cells, want int }{
		{35, 20, 5}, {36, 20, 0}, // an eighth, and less
		{36, 4, 4}, {36, 5, 0}, // it fits, and does not
		{39, 1, 1}, {40, 1, 0},
	} {
		p := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, 2)}
		for port, queue := range []int{0, 5} {
			p.Ports[port].Queues[queue].Limit = 80
			m := newManager(t, p)
			m.EnqueueAll(port, queue, 0, 80)
			m.Enqueue(port, queue, 1, 1) // refused: a rival
			m.Dequeue(port, queue, 0, 80-c.held)
			if got := m.Grant(port, queue, 0, c.cells, 1); got != c.want {
				t.Errorf("a port with %d cells in queue %d asks for %d: granted %d, want %d", c.held, queue, c.cells,
					got, c.want)
			}
		}
	}
}

// TestPartsOfAPool checks which part of a pool of 100 cells each group is granted.
func TestPartsOfAPool(t *testing.T) {
	p := Params{CellSize: 160, Cells: 1000, Pools: []PoolParams{{Shared: 100}, {Shared: 100}},
		Ports: make([]PortParams, 5)}
	for i := range p.Ports {
		p.Ports[i].Groups[0] = GroupParams{Share: 100, Reserved: 2}
		p.Ports[i].Groups[1] = GroupParams{Share: 100, Pool: 1}
		p.Ports[i].Groups[3] = GroupParams{Share: 100, Lossless: true, Headroom: 10}
	}
	m := newManager(t, p)
	ask := func(what string, port, priority, cells int, want Reason) {
		t.Helper()
		if got := m.Admit(port, priority, cells); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		check(t, m)
	}
	ask("of another pool", 0, 1, 100, Admitted)
	ask("a lossless group", 4, 3, 20, Admitted)
	ask("all that is reserved, and left", 0, 0, 82, Admitted)
	ask("no room", 1, 0, 3, IngressFull)
	m.Release(0, 0, 45)
	ask("half of 80, and one", 0, 0, 6, IngressFull)
	ask("more than half, where nothing is held", 1, 0, 46, Admitted)
	ask("what is reserved", 2, 0, 2, Admitted)
	ask("no room for another", 2, 0, 8, IngressFull)
	m.Release(4, 3, 20)
	if !m.AdmitAll(4, 3, 10) || m.AdmitAll(2, 0, 1) {
		t.Error("a lossless group takes no part, and what is contested is asked for one by one")
	}
	ask("one of three that has more than a third", 0, 0, 1, IngressFull)
	m.Release(1, 0, 44)
	m.Release(0, 0, 20)
	ask("70 cells are granted", 1, 0, 26, Admitted)
	ask("79 are", 2, 0, 9, Admitted)
	ask("a third of 80, and one", 2, 0, 18, IngressFull)
	ask("80 are: the period is over", 2, 0, 1, Admitted)
	ask("a third of what is 90 now, and one", 2, 0, 21, IngressFull)
	ask("a third", 2, 0, 20, Admitted)
	m.Release(0, 0, 17)
	m.Release(1, 0, 28)
	m.Release(2, 0, 32)
	ask("nothing is held: the period is over", 0, 0, 40, Admitted)
	ask("half of it, as another was refused in the period before", 0, 0, 7, Admitted)
	ask("and one", 0, 0, 1, IngressFull)
	m.Release(0, 0, 47)
	ask("the other is no rival any more", 0, 0, 60, Admitted)
	m.Release(4, 3, 5)
	ask("alone, whatever has become free", 0, 0, 35, Admitted)
	m.Release(4, 3, 4)
	ask("nobody is a rival any more", 0, 0, 4, Admitted)
	ask("a lossless group", 4, 3, 2, Admitted)
	ask("all is taken", 1, 0, 3, IngressFull)
	m.Release(0, 0, 49)
	ask("half of 97, and one", 0, 0, 1, IngressFull)

	for i := range p.Ports {
		p.Pools[0].Shared, p.Ports[i].Groups[0].Share, p.Ports[i].Groups[3].Share = 20, 20, 20
	}
	old := m
	m = newManager(t, p)
	m.TakeOver(old)
	ask("what is reserved, of a pool that has less than is held", 3, 0, 2, Admitted)
}

// shares runs bursts at set times while one frame leaves per slot. From a quarter of the slots on,
// it counts the frames taken per port and the fraction of slots in which the queue was empty.
func shares(t *testing.T, limit, slots int, ports int, burst func(slot, port int) int) (taken []int, empty float64) {
	p := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, ports)}
	p.Ports[0].Queues[0].Limit = limit
	c := &crowd{m: newManager(t, p), size: 1, taken: make([]int, ports)}
	for slot := range slots {
		if slot == slots/4 {
			clear(c.taken)
			empty = 0
		}
		if !c.leave() {
			empty += 4. / 3 / float64(slots)
		}
		for port := range ports {
			if n := burst(slot, port); n > 0 {
				c.burst(t, port, n)
			}
		}
	}
	check(t, c.m)
	return c.taken, empty
}

// TestRoomOfBursts: bursts of eight ports come in the same order each time, and the queue has room
// for three of them. Every port gets a share, though the queue is nearly empty when the first burst
// comes; the last port gets what the others leave.
func TestRoomOfBursts(t *testing.T) {
	taken, empty := shares(t, 100, 90_000, 8,
		func(slot, port int) int { return min(1, max(0, 1-abs(slot%90-port))) * 30 })
	if most, least := slices.Max(taken), slices.Min(taken); least < most/2 || empty > .05 {
		t.Errorf("%d, empty for %.3f of the time", taken, empty)
	}
}

// TestRoomBesideLightPorts: a queue of 140 frames does not run empty, though one port sends bursts
// of 64 and the others a frame now and then.
func TestRoomBesideLightPorts(t *testing.T) {
	taken, empty := shares(t, 140, 64_000, 8, func(slot, port int) int {
		switch {
		case port == 0 && slot%64 == 0:
			return 64
		case port > 0 && slot%40 == 5*port:
			return 1
		}
		return 0
	})
	if empty > .01 {
		t.Errorf("%d, empty for %.3f of the time", taken, empty)
	}
}

// TestRoomOfSilentPorts: a port that falls silent soon stops being a rival.
func TestRoomOfSilentPorts(t *testing.T) {
	p := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, 2)}
	p.Ports[0].Queues[0].Limit = 100
	c := &crowd{m: newManager(t, p), size: 1, taken: make([]int, 2)}
	for slot := range 1000 {
		c.leave()
		c.ask(0)
		c.ask(0)
		if slot < 500 {
			c.ask(1)
		}
	}
	if n := len(c.queue); n < 99 {
		t.Errorf("%d frames of 100 are queued", n)
	}
}

func abs(n int) int { return max(n, -n) }
