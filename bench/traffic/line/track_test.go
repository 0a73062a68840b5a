package line

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestTrack compares a track with a map that forgets nothing: only a frame that is far behind may
// be stale.
func TestTrack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var got, want Track
		seen := map[uint64]bool{}
		for range 5000 {
			seq := want.Next
			if far := []int64{0, 0, 3, 200, 6000}[random.IntN(5)]; far > 0 {
				seq = uint64(max(0, int64(want.Next)+random.Int64N(2*far)-far))
			} else if random.IntN(2) == 0 {
				seq = want.Next + 63 - want.Next%64 // the end of a block
			}
			first, stale := got.Count(seq), got.Stale > want.Stale
			switch {
			case stale && (want.Next-1)/64-seq/64 >= Blocks:
				want.Stale++
			case seen[seq]:
				want.Duplicates++
			default:
				want.Frames++
				if seq < want.Next {
					want.Reordered++
				}
			}
			want.window = got.window
			if want.Next = max(want.Next, seq+1); got != want || first != (!stale && !seen[seq]) {
				t.Fatalf("frame %d: %v, %+v, want %+v", seq, first, got, want)
			}
			seen[seq] = seen[seq] || !stale
		}
	})
}

func TestTrackForgetsWhatItJumpsOver(t *testing.T) {
	for _, jump := range []uint64{1, 63, 64, 65, 64 * 62, 64 * 63, 64 * 64, 64 * 200} {
		var w Track
		for seq := range uint64(10_000) {
			w.Count(seq)
		}
		last := 10_000 + jump
		w.Count(last)
		for seq := max(10_000, (last/64-(Blocks-1))*64); seq < last; seq++ {
			if !w.Count(seq) {
				t.Fatalf("jump by %d to %d: frame %d does not count", jump, last, seq)
			}
		}
		if w.Count(9_000) || w.Stale+w.Duplicates != 1 || (w.Stale > 0) != (last/64-9_000/64 >= Blocks) {
			t.Errorf("jump by %d to %d: a frame that came long ago: %+v", jump, last, w)
		}
	}
}
