package counters

import (
	"testing"

	"sluice/internal/drop"
	"sluice/internal/punt"
)

// TestPort: frames add up, in all and by class.
func TestPort(t *testing.T) {
	c := Port{RXFrames: 100, FloodCopies: 7, TXFrames: 50, Recalled: 2, Control: 3}
	c.Punted[punt.LLDP] = 4
	c.Drops[drop.Oversize][1], c.Drops[drop.QueueFull][1], c.Drops[drop.Storm][1] = 10, 20, 5
	c.StormQueued[1] = 3
	if c.Dropped() != 35 || c.In() != 107 || c.Out() != 50-2+35+3+4 {
		t.Errorf("%d dropped, %d in, %d out", c.Dropped(), c.In(), c.Out())
	}
	if in, out := c.ClassDrops(1); in != 12 || out != 23 {
		t.Errorf("%d dropped where they came in, %d where they were to leave", in, out)
	}
}

// TestLossless: only congestion counts, and only while the priority was lossless.
func TestLossless(t *testing.T) {
	var l Lossless
	var drops Losses
	drops[drop.HeadroomFull] = [Priorities]uint64{3: 5, 4: 6}
	drops[drop.Oversize][3] = 9
	first := l.Lost(&drops, 1<<3)
	if first[drop.HeadroomFull] != [Priorities]uint64{3: 5} || first.Sum() != 5 {
		t.Errorf("%v", first)
	}
	l.TakeOver(first, drops)
	drops[drop.HeadroomFull][3]++
	drops[drop.HeadroomFull][4] += 2
	if lost := l.Lost(&drops, 1<<4); lost[drop.HeadroomFull] != [Priorities]uint64{3: 5, 4: 2} {
		t.Errorf("%v", lost)
	}
	var d Departed
	d.Add(&Port{RXFrames: 8, TXFrames: 6}, first)
	d.Add(&Port{RXFrames: 1, Control: 1}, Losses{})
	if d != (Departed{In: 9, Out: 7, Lost: 5}) {
		t.Errorf("%+v", d)
	}
}
