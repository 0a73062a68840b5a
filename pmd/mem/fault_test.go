package mem

import (
	"slices"
	"testing"

	"sluice/pmd"
)

// TestFaults loses the second frame and damages the third. Both take their time on the wire, the
// sender gets its buffers back, the receiver keeps the one it did not need, and each fault has its
// counter.
func TestFaults(t *testing.T) {
	what := map[byte]Fault{1: Deliver, 2: Lose, 3: Corrupt, 4: Deliver}
	var asked, tapped []int64
	w, memory, received := testWire(t, Params{
		Rate: 1e9,
		Fault: func(at int64, toB bool, b []byte) Fault {
			asked = append(asked, at)
			if !toB {
				t.Error("a frame from A was reported as one to A")
			}
			return what[b[0]]
		},
		Tap: func(at int64, _ bool, b []byte) { tapped = append(tapped, at) },
	})
	var burst [4]pmd.Desc
	for i := range burst {
		memory[i*size] = byte(i + 1)
		burst[i] = pmd.Desc{Addr: uint64(i * size), Len: 60}
	}
	w.A.Transmit(burst[:])
	w.Advance(4 * 672)
	if n := w.A.Complete(make([]uint64, 8)); n != 4 {
		t.Errorf("%d buffers of 4 came back", n)
	}
	n := w.B.Receive(burst[:])
	if n != 2 || received[burst[0].Addr] != 1 || received[burst[1].Addr] != 4 {
		t.Errorf("received %d frames, want the first and the fourth", n)
	}
	if s := w.B.Stats(); s.RXDropped != 1 || s.RXCorrupt != 1 || s.Lost() != 1 || s.RXFillEmpty != 0 {
		t.Errorf("after one frame lost and one damaged: %+v", s)
	}
	if w.B.empty.len() != 62 {
		t.Errorf("%d buffers are empty, want 62 of 64", w.B.empty.len())
	}
	if len(asked) != 4 || asked[3] != 4*672 || len(tapped) != 2 || tapped[1] != 4*672 {
		t.Errorf("asked for faults at %d, tapped at %d ns; want 4 and 2, the last at %d", asked, tapped, 4*672)
	}
}

// TestFaultsKnowTheirDirection: Fault and Tap learn which way a frame goes and when it arrives, in
// the first whole nanosecond after 67.2 + 500. A frame that has a fault is counted where it would
// have arrived.
func TestFaultsKnowTheirDirection(t *testing.T) {
	type arrival struct {
		at  int64
		toB bool
	}
	var asked, tapped []arrival
	fault := Deliver
	p := Params{
		Rate: 10e9, Delay: 500,
		Fault: func(at int64, toB bool, _ []byte) Fault { asked = append(asked, arrival{at, toB}); return fault },
		Tap:   func(at int64, toB bool, _ []byte) { tapped = append(tapped, arrival{at, toB}) },
	}
	bothWays(t, p, func(t *testing.T, w *Wire, from, to *Port, _, _ []byte) {
		asked, tapped = nil, nil
		for i, f := range []Fault{Deliver, Lose, Corrupt} {
			fault = f
			from.Transmit([]pmd.Desc{{Addr: 0, Len: 60}})
			w.Advance(int64(i+1) * 568)
		}
		toB := from == w.A
		if want := []arrival{{568, toB}, {2 * 568, toB}, {3 * 568, toB}}; !slices.Equal(asked, want) ||
			!slices.Equal(tapped, want[:1]) {
			t.Errorf("asked %+v, tapped %+v; want %+v, and the first of them", asked, tapped, want)
		}
		if s := to.Stats(); s.RXDropped != 1 || s.RXCorrupt != 1 || from.Stats() != (pmd.Stats{}) {
			t.Errorf("%+v and %+v", s, from.Stats())
		}
	})
}
