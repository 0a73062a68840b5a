package tap

import (
	"bytes"
	"testing"
)

func newTap(t *testing.T, p Params, slots int) *Tap {
	t.Helper()
	tap, err := New(p, slots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tap.Close(); err != nil {
			t.Error(err)
		}
	})
	return tap
}

// TestRefusals: a frame that the control plane refuses can be read at once, cut to the snap length,
// if its port, direction and class are those of the capture.
func TestRefusals(t *testing.T) {
	p := Params{Ports: []Direction{RX | TX, TX, RX}, Classes: 1 << 3, SnapLength: 70}
	c := newTap(t, p, 32)
	frame := bytes.Repeat([]byte{7}, 100)
	c.Refuse(1000, 1, 3, "rogue_fcf", frame) // another direction
	c.Refuse(1000, 0, 2, "rogue_fcf", frame) // another class
	c.Refuse(1000, 3, 3, "rogue_fcf", frame) // a port that joined later
	if r := c.Peek(); r != nil {
		t.Errorf("%+v", r)
	}
	c.Refuse(2000, 2, 3, "rogue_fcf", frame)
	r := c.Peek()
	if r == nil {
		t.Fatal("not captured")
	}
	want := Record{At: 2000, Length: 100, Kept: 70, Port: 2, Other: NoPort, Direction: RX, Verdict: Dropped,
		Class: 3, Queue: NoQueue, Refusal: "rogue_fcf"}
	if *r != want || !bytes.Equal(c.Frame(r), frame[:70]) || r.Reason() != "rogue_fcf" {
		t.Errorf("%+v, %x", r, c.Frame(r))
	}
	if c.Release(); c.Peek() != nil || c.CountOf(2) != (Count{Seen: 1}) || c.CountOf(0) != (Count{}) {
		t.Errorf("%+v, %+v", c.CountOf(2), c.CountOf(0))
	}
	if slab, records := Memory(&p, 32); slab != 32*128 || records != 32*64 {
		t.Errorf("%d bytes for frames, %d for records", slab, records)
	}
}

// TestRefusalsWithoutRoom: frames beyond the ring, and beyond the budget, are counted, and the next
// record of the port says how many they were.
func TestRefusalsWithoutRoom(t *testing.T) {
	c := newTap(t, Params{Ports: []Direction{RX}, Classes: 0xff, SnapLength: 2176}, 32)
	frame := make([]byte, 2000)
	for range 40 {
		c.Refuse(0, 0, 3, "malformed", frame)
	}
	fit := 0
	for ; c.Peek() != nil; fit++ {
		c.Release()
	}
	if n := c.CountOf(0); fit != 32 || n != (Count{Seen: 40, Full: 8}) {
		t.Errorf("%d captured, %+v", fit, n)
	}
	for range 100 {
		c.Refuse(0, 0, 3, "malformed", frame)
		if r := c.Peek(); r != nil {
			c.Release()
		}
	}
	beyond := c.CountOf(0).Beyond
	const most = MaxBudget / (2000 + Overhead) // without time passing
	if n := c.CountOf(0); beyond != 140-8-most || n.Seen != 140 || n.Full != 8 {
		t.Errorf("%+v", n)
	}
	c.Refuse(1e9, 0, 3, "malformed", frame)
	if r := c.Peek(); r == nil || uint64(r.Beyond) != beyond {
		t.Errorf("%+v, want %d beyond", r, beyond)
	}
}

func TestTapRefuses(t *testing.T) {
	if _, err := New(Params{SnapLength: 64}, 33); err == nil {
		t.Error("33 slots are not a power of two")
	}
}
