package main

import (
	"testing"

	"sluice/internal/gen"
)

// TestTwoWorkers has a switch whose two workers share the ports: one sender is on the target's worker, the other's
// frames cross. On a machine of two CPUs nothing is left for hosts but to take from the workers.
func TestTwoWorkers(t *testing.T) {
	s := newSite(t, 3)
	before, files := statesOf(t, s), remembered(t, s)
	p := startSwitch(t, s.home, "workers: [0, 1]\n"+slowSwitch)
	t.Logf("forwards after %v", p.await(1, "msg=forwarding"))
	c := newCrew(t, s, restfully, 3, []int{target, 1, 2}, map[int][]gen.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)}, 2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	c.more(300, 1, 2, 3, 4)
	c.settle(1, 3)
	sent, got := c.sent(), c.received()
	c.leave()
	r := p.stop()
	checkRestored(t, s, before, files)
	checkLossless(t, r, sent, got, 1, 3)
	checkBuffers(t, r, 2, 1)
	if len(r.Workers) != 2 {
		t.Errorf("%d workers", len(r.Workers))
	}
	for _, id := range []uint32{2, 4} {
		if f := got[id]; f.Missing == 0 || f.Reordered+f.Duplicates+f.Stale > 0 {
			t.Errorf("lossy flow %d: sent %d, received %+v: want some lost, and order", id, sent[id], f)
		}
	}
	t.Logf("%+v", r.Workers)
}
