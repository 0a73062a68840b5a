package cells

import "testing"

// TestLimits fills a group and a queue, and compares what they hold with the limits reported.
func TestLimits(t *testing.T) {
	p := Params{CellSize: 160, Cells: 200, Queues: []QueuePoolParams{{Cells: 50}}, Ports: make([]PortParams, 2)}
	groups, queues := &p.Ports[0].Groups, &p.Ports[0].Queues
	groups[0] = GroupParams{Reserved: 4, Share: 10}
	groups[3] = GroupParams{Lossless: true, Reserved: 2, Share: 20, Headroom: 6, XON: 10}
	groups[5] = GroupParams{Alpha: AlphaUnit / 2}
	queues[0].Limit, queues[5].Alpha = 30, AlphaUnit
	p.Ports[1].Groups[7], p.Ports[1].Queues[7].Limit = GroupParams{Reserved: 1, Share: 3}, 7
	m := newManager(t, p)
	free := m.Pool(0).Size
	for priority, want := range map[int]Limits{
		0: {Reserved: 4, Shared: 10, Queue: 30},
		3: {Reserved: 2, Shared: 20, Headroom: 6},
		5: {Shared: free / 2, Queue: 50},
		7: {},
	} {
		if got := m.Limits(0, priority); got != want {
			t.Errorf("priority %d: %+v, want %+v", priority, got, want)
		}
	}
	if got, want := m.Limits(1, 7), (Limits{Reserved: 1, Shared: 3, Queue: 7}); got != want {
		t.Errorf("another port: %+v, want %+v", got, want)
	}
	for m.Admit(0, 0, 1) == Admitted {
	}
	if g, l := m.Group(0, 0), m.Limits(0, 0); g.Reserved != l.Reserved || g.Shared != l.Shared {
		t.Errorf("filled up to %+v, with limits of %+v", g, l)
	}
	for m.Admit(0, 3, 1) == Admitted {
	}
	if g, l := m.Group(0, 3), m.Limits(0, 3); g.Reserved != l.Reserved || g.Shared != l.Shared ||
		g.Headroom != l.Headroom {
		t.Errorf("filled up to %+v, with limits of %+v", g, l)
	}
	if got, want := m.Limits(0, 5).Shared, (free-10-20)/2; got != want {
		t.Errorf("a dynamic limit has sunk to %d, want %d", got, want)
	}
	for m.Enqueue(0, 0, 0, 1) == Admitted {
	}
	if q := m.Queue(0, 0); q.Used != 30 {
		t.Errorf("a queue took %d cells of its 30", q.Used)
	}
}
