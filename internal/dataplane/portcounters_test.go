package dataplane

import (
	"testing"

	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
)

// TestPort: frames add up, in all and by class.
func TestPort(t *testing.T) {
	c := PortCounters{RXFrames: 100, FloodCopies: 7, TXFrames: 50, Recalled: 2, Control: 3}
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

// TestLost: lack of room alone makes a lossless drop, and only of frames that came in as lossless.
func TestLost(t *testing.T) {
	var c PortCounters
	c.Drop(drop.HeadroomFull, 3, true, 5)
	c.Drop(drop.QueueFull, 4, false, 6)
	c.Drop(drop.Storm, 3, true, 9)
	want := Losses{drop.HeadroomFull: {3: 5}, drop.Storm: {3: 9}}
	if c.Lost != want || c.LosslessDrops() != 5 || c.Dropped() != 20 || c.Lost.Sum(drop.Reason.Failure) != 9 {
		t.Errorf("%v: %d lossless drops of %d", c.Lost, c.LosslessDrops(), c.Dropped())
	}
	var d Departed
	d.Add(&PortCounters{RXFrames: 8, TXFrames: 6, Lost: c.Lost})
	d.Add(&PortCounters{RXFrames: 1, Control: 1})
	if d != (Departed{In: 9, Out: 7, Lost: 5, Failed: 9}) {
		t.Errorf("%+v", d)
	}
}
