package cells

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// crowd is ports that overload a queue, or a pool, with frames of one size.
type crowd struct {
	offer func(port int) bool
	leave func() // the oldest frame
	taken []int  // by port
	limit int    // frames that there is room for, all of which port 0 has
}

func (c *crowd) ask(port int) {
	if c.offer(port) {
		c.taken[port]++
	}
}

// drawCrowd draws ports that share a queue with a static or dynamic limit, or the pool of their groups.
func drawCrowd(t *rapid.T) *crowd {
	ports, size := rapid.IntRange(2, 16).Draw(t, "ports"), rapid.IntRange(1, 10).Draw(t, "cells of a frame")
	p := Params{CellSize: 160, Cells: 20_000, Ports: make([]PortParams, ports)}
	limit := rapid.IntRange(6*ports*size, 6*ports*size+200).Draw(t, "limit")
	kind := rapid.SampledFrom([]string{"limit", "alpha", "pool"}).Draw(t, "kind")
	p.Pools = []PoolParams{{Shared: limit}}
	for i := range p.Ports {
		p.Ports[i].Groups[0].Share = limit
	}
	switch kind {
	case "limit":
		p.Ports[0].Queues[0].Limit = limit
	case "alpha":
		p.Ports[0].Queues[0].Alpha = rapid.SampledFrom([]int{AlphaUnit / 2, AlphaUnit, 8 * AlphaUnit}).Draw(t, "alpha")
		p.Queues = []QueuePoolParams{{Cells: 2 * limit}}
	}
	m := newManager(t, p)
	c := &crowd{taken: make([]int, ports)}
	if kind == "pool" {
		var held []int
		c.offer = func(port int) bool {
			if m.Admit(port, 0, size) != Admitted {
				return false
			}
			held = append(held, port)
			return true
		}
		c.leave = func() {
			m.Release(held[0], 0, size)
			held = held[1:]
		}
	} else {
		c.offer = func(port int) bool { return m.Enqueue(0, 0, port, size) == Admitted }
		c.leave = func() { m.Dequeue(0, 0, size) }
	}
	for c.offer(0) {
		c.limit++
	}
	return c
}

// TestRoomIsShared: of ports that overload a queue or pool none gets ahead of another by more than a part of it, though an
// adversary draws in which order and how often they ask, and how many frames leave meanwhile.
func TestRoomIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowd(t)
		ports, left := len(c.taken), 0
		all := make([]int, ports)
		for i := range all {
			all[i] = i
		}
		for range rapid.IntRange(1, 5).Draw(t, "phases") {
			asks := rapid.SliceOfN(rapid.IntRange(0, ports-1), 0, 5).Draw(t, "more asks")
			leave := rapid.IntRange(1, 3).Draw(t, "leave")
			for range leave { // nobody asks for less than another
				asks = append(asks, rapid.Permutation(all).Draw(t, "asks")...)
			}
			for range c.limit {
				for range leave {
					c.leave()
				}
				left += leave
				for _, port := range asks {
					c.ask(port)
				}
			}
		}
		sum := 0
		for _, n := range c.taken {
			sum += n
		}
		if most, least := slices.Max(c.taken), slices.Min(c.taken); most-least > 4+c.limit/6 || sum < left-c.limit*2/3 {
			t.Fatalf("%d frames left, of %d; so many were taken, by port: %d", left, c.limit, c.taken)
		}
	})
}

// TestRoomIsNotKeptForTheSilent: ports that fall silent cost the others no more than some room.
func TestRoomIsNotKeptForTheSilent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowd(t)
		ports := len(c.taken)
		for port := range ports { // they all wait
			c.ask(port)
		}
		talking := rapid.IntRange(1, ports-1).Draw(t, "talking")
		clear(c.taken)
		const leave = 1000
		for range leave {
			c.leave()
			for port := range talking {
				c.ask(port)
			}
		}
		sum := 0
		for port, n := range c.taken[:talking] {
			sum += n
			if n < (leave-c.limit)/talking-2 {
				t.Errorf("port %d: %d", port, n)
			}
		}
		if sum < leave-c.limit*2/3 {
			t.Fatalf("%d of %d frames that left made room for others: %d", sum, leave, c.taken)
		}
	})
}

// TestPatience: where room does not grow, it is not kept for ever for a port that sends nothing any more.
func TestPatience(t *testing.T) {
	p := Params{CellSize: 160, Cells: 200, Ports: make([]PortParams, 1)}
	p.Ports[0].Queues[0].Limit = 100
	m := newManager(t, p)
	m.Enqueue(0, 0, 3, 95)
	m.Enqueue(0, 0, 2, 10)
	refused := 0
	for range 2 * patience {
		if m.Enqueue(0, 0, 1, 3) == Admitted {
			m.Dequeue(0, 0, 3)
			continue
		}
		refused++
	}
	if refused == 0 || refused > patience {
		t.Errorf("%d frames refused for the sake of one that does not come again, want some, and at most %d", refused, patience)
	}
}
