package dataplane

import (
	"testing"

	"sluice/internal/frame"
)

// TestFlushForgetsAnnouncements checks that after a flush a worker does not learn addresses that
// another worker announced before, however many wait, but does learn later ones. Forgotten entries
// are removed.
func TestFlushForgetsAnnouncements(t *testing.T) {
	const waiting = 1000
	r := newRig(t, 2, 2, nil)
	from, to := r.s.Workers[1], r.s.Workers[0]
	known := func() int {
		r.run(waiting * 1000)
		entries, _ := to.bridge.Dump(r.now, 0, 1<<20, nil)
		return len(entries)
	}
	announce := func(n int) {
		for i := range n {
			from.announce(announcement{MAC: frame.MAC(0x0200_0000_0000 + i), VID: 1, Port: 1})
		}
	}
	announce(waiting)
	if n := known(); n != waiting {
		t.Fatalf("%d addresses learned, want %d: so this test shows nothing", n, waiting)
	}
	announce(waiting)
	r.plan.Flush = Flush{Serial: 1, Port: NoPort}
	r.publish()
	if n := known(); n != 0 {
		t.Errorf("%d addresses known after the flush", n)
	}
	if n := to.bridge.Len(); n != 0 {
		t.Errorf("%d forgotten addresses still take up room", n)
	}
	announce(3)
	if n := known(); n != 3 {
		t.Errorf("%d addresses known, and 3 were announced after the flush", n)
	}
}
