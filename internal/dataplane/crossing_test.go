package dataplane

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"sluice/cells"
)

// TestJoinIsEnqueue checks that frames which cross together are queued or dropped as if they came
// one by one, as long as queue limits are fixed.
func TestJoinIsEnqueue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit, red := rapid.SampledFrom([]int{2, 20, 500}).Draw(rt, "limit"), rapid.Bool().Draw(rt, "early detection")
		shut := rapid.SampledFrom([]uint8{0, 0, 0, 1 << 2}).Draw(rt, "shut")
		configure := func(p *Params) {
			for i := range p.Ports {
				for queue := range Priorities {
					if queue != lossless {
						p.Ports[i].Cells.Queues[queue].Limit = limit
					}
				}
				if red {
					p.Ports[i].Cells.Queues[1].RED = cells.REDParams{Min: 3, Max: 4, Probability: 1} // not random
				}
			}
		}
		together, singly := newRig(t, 4, 2, configure), newRig(t, 4, 2, configure)
		type crossing struct {
			In, Out       int // ports of workers 0 and 1
			Class, Length int
		}
		burst := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) crossing {
			return crossing{
				rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(t, "in"), rapid.SampledFrom([]int{1, 1, 3}).Draw(t, "out"),
				rapid.SampledFrom([]int{1, 1, 2, lossless}).Draw(t, "class"),
				rapid.SampledFrom([]int{60, 60, 400}).Draw(t, "length"),
			}
		}), 1, burstSize).Draw(rt, "burst")
		var queued [2][]uint32
		for i, r := range []*rig{together, singly} {
			from, to := r.s.Workers[0], r.s.Workers[1]
			for _, p := range to.own {
				p.shut = shut
			}
			ids := make([]uint32, len(burst))
			from.pool.Get(ids)
			for i, id := range ids {
				b := burst[i]
				n := from.accounts.Cells(b.Length)
				from.accounts.Admit(b.In, b.Class, n)
				r.s.frames[id] = newWord(0, b.Length, n, kindOf(
					uint16(b.In*Priorities+b.Class), uint8(b.Class)))
				r.s.bound[id] = uint16(b.Out)
			}
			if r == together {
				to.join(ids)
			} else {
				for _, id := range ids {
					to.enqueue(to.ports[to.bound[id]], id)
				}
			}
			for _, p := range to.own {
				for queue := range Priorities {
					n := p.queues.Drain(queue, to.ids[:])
					queued[i] = append(queued[i], to.ids[:n]...)
				}
			}
		}
		if !reflect.DeepEqual(queued[0], queued[1]) {
			rt.Errorf("queued %v, and one by one %v", queued[0], queued[1])
		}
		sameAccounts(rt, together.s.Workers[1], singly.s.Workers[1])
	})
}

// sameAccounts checks that two workers charge the same cells and count the same.
func sameAccounts(t *rapid.T, together, singly *Worker) {
	if !reflect.DeepEqual(together.accounts, singly.accounts) {
		t.Error("other cells are charged than one by one")
	}
	for i := range together.own {
		x, y := together.own[i], singly.own[i]
		if x.count != y.count {
			t.Errorf("port %d counts %+v, and one by one %+v", x.number, x.count, y.count)
		}
	}
}
