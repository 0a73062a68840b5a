package dataplane

import (
	"slices"
	"testing"
)

// TestStepCountsWhatItMoves: a frame goes from a port of one worker to a port of another. Each
// iteration reports the frames and buffers that it moves, and 0 if there are none.
func TestStepCountsWhatItMoves(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	r.introduce()
	r.send(0, data(0, 1, 0, 60, 1))
	var moved [2][]int
	for end := r.now + 2000; r.now < end; r.now += 100 {
		for _, w := range r.wires {
			w.Advance(r.now)
		}
		for i, w := range r.s.Workers {
			if n := w.Step(r.now); n != 0 {
				moved[i] = append(moved[i], n)
			}
		}
	}
	// The first worker receives the frame, and takes its buffer home in the end. The second takes
	// the frame over and sends it in one iteration, and takes back its buffer in another.
	if want := [2][]int{{1, 1}, {2, 1}}; !slices.EqualFunc(moved[:], want[:], slices.Equal) {
		t.Errorf("moved %d, want %d", moved, want)
	}
}
