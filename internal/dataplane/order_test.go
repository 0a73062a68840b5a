package dataplane

import (
	"fmt"
	"testing"

	"sluice/cells"
)

// jain returns how even shares are: 1 if all are equal, 1/n if one of them is everything (R. Jain,
// D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation
// in Shared Computer Systems", DEC-TR-301, 1984).
func jain(shares []int) float64 {
	sum, squares := 0., 0.
	for _, n := range shares {
		sum, squares = sum+float64(n), squares+float64(n)*float64(n)
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// TestOverloadIsShared checks that ports which overload another one with a lossy class get equal
// shares of it, for each limit that may bind, each time between iterations, and each division of
// the ports among workers.
func TestOverloadIsShared(t *testing.T) {
	limits := map[string]func(p *PortParams){
		"queue limit": func(p *PortParams) {
			p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Share: 4000}, cells.QueueParams{Limit: 1000}
		},
		"queue alpha": func(p *PortParams) {
			p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Share: 4000},
				cells.QueueParams{Alpha: cells.AlphaUnit / 8}
		},
		"share": func(p *PortParams) {
			p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Share: 500}, cells.QueueParams{Limit: 20_000}
		},
		"pool": func(p *PortParams) {
			p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Pool: 1, Share: 1000},
				cells.QueueParams{Limit: 20_000}
		},
		"alpha": func(p *PortParams) {
			p.Cells.Groups[0], p.Cells.Queues[0] = cells.GroupParams{Alpha: cells.AlphaUnit},
				cells.QueueParams{Limit: 20_000}
		},
	}
	for name, limit := range limits {
		for _, senders := range []int{2, 3, 8} {
			for _, test := range []struct {
				workers int
				every   int64 // ns between iterations
			}{{1, 100}, {1, 4000}, {3, 1000}} {
				sets := 1 // sets of senders that compete with each other
				if name == "pool" {
					sets = test.workers // each worker has a pool of its own
				}
				for _, phases := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%d senders/%d workers/every %d ns/phases %t", name, senders, test.workers,
						test.every, phases), func(t *testing.T) {
						overloadIsShared(t, limit, sets, senders, test.workers, test.every, phases)
					})
				}
			}
		}
	}
}

func overloadIsShared(t *testing.T, limit func(*PortParams), sets, senders, workers int, every int64, phases bool) {
	x := newLines(t, senders+2, every, func(p *Params) { // one port is idle
		p.Workers = workers
		for range workers {
			p.Accounts = append(p.Accounts,
				cells.Params{Cells: 9000, Pools: []cells.PoolParams{{Shared: 7500}, {Shared: 1000}}})
		}
		for i := range p.Ports {
			p.Ports[i].Worker = i % workers
			p.Ports[i].Buffers, p.Ports[i].InFlight = 256, 16_000
			limit(&p.Ports[i])
		}
	})
	target, duration := senders, 3_000_000+2000*every
	for _, length := range []int{60, 1514} {
		frames := make([][]byte, senders)
		for i := range frames {
			frames[i] = data(i, target, 0, length, 0)
		}
		fill := func() bool {
			for i, b := range frames {
				x.fill(i, 0, b)
			}
			return false
		}
		for i := range senders {
			x.free[i] = x.now * 1000
			if phases {
				x.free[i] += int64(length+24) * 800 * int64(i) / int64(senders)
			}
		}
		x.run(500_000, fill)
		x.got[target] = [16]int{}
		x.run(duration, fill)
		for first := range min(sets, senders) {
			var shares []int
			for i := first; i < senders; i += sets {
				shares = append(shares, x.got[target][i])
			}
			if j := jain(shares); j < .98 {
				t.Errorf("%d B: Jain %.3f: %d", length+4, j, shares)
			}
		}
		x.run(500_000, nil)
	}
	if err := x.s.Check(); err != nil {
		t.Error(err)
	}
}
