package line

// Blocks is the number of blocks of 64 sequence numbers that a Track remembers, a power of two.
const Blocks = 64

// Track counts the frames of a flow by their sequence numbers. Each frame counts once: in Frames,
// Duplicates or Stale.
type Track struct {
	Next       uint64 // the highest sequence number seen, plus 1
	Frames     uint64 // each once
	Reordered  uint64 // of Frames, those after one with a higher sequence number (RFC 4737, 3.3)
	Duplicates uint64
	Stale      uint64 // too late to tell from duplicates: about 4000 sequence numbers behind

	// Which of the latest sequence numbers were seen. Block n is in slot n % Blocks, which holds n,
	// so a new block need not clear the slots of skipped blocks (compare RFC 6479).
	window [Blocks]struct{ block, seen uint64 }
}

// Count counts a frame, and reports whether it arrived for the first time.
func (t *Track) Count(seq uint64) bool {
	block, bit := seq/64, uint64(1)<<(seq%64)
	slot := &t.window[block%Blocks]
	late := seq < t.Next
	switch {
	case late && slot.block > block:
		t.Stale++
		return false
	case slot.block != block:
		slot.block, slot.seen = block, 0
	case slot.seen&bit != 0:
		t.Duplicates++
		return false
	}
	slot.seen |= bit
	t.Frames++
	if late {
		t.Reordered++
	}
	t.Next = max(t.Next, seq+1)
	return true
}
