package line

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestWindow compares the window with a map that forgets nothing.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var w Window
		seen := map[uint64]bool{}
		next := uint64(0)
		for range 5000 {
			seq := next
			if far := []int64{0, 0, 3, 200, 6000}[random.IntN(5)]; far > 0 {
				seq = uint64(max(0, int64(next)+random.Int64N(2*far)-far))
			} else if random.IntN(2) == 0 {
				seq = next + 63 - next%64 // the end of a block
			}
			want := Reordered
			switch {
			case seq >= next:
				want = InOrder
			case (next-1)/64-seq/64 >= blocks:
				want = Stale
			case seen[seq]:
				want = Duplicate
			}
			if got := w.See(seq); got != want {
				t.Fatalf("frame %d after %d: %d, want %d", seq, next, got, want)
			}
			seen[seq] = true
			next = max(next, seq+1)
		}
	})
}

func TestWindowForgetsWhatItJumpsOver(t *testing.T) {
	for _, jump := range []uint64{1, 63, 64, 65, 64 * 62, 64 * 63, 64 * 64, 64 * 200} {
		var w Window
		for seq := range uint64(10_000) {
			w.See(seq)
		}
		last := 10_000 + jump
		w.See(last)
		for seq := max(10_000, (last/64-(blocks-1))*64); seq < last; seq++ {
			if got := w.See(seq); got != Reordered {
				t.Fatalf("jump by %d to %d: frame %d is taken for %d", jump, last, seq, got)
			}
		}
	}
}
