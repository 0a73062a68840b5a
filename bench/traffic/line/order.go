package line

// Order classifies a frame by its sequence number.
type Order uint8

// What a frame may be.
const (
	InOrder   Order = iota // higher than all before
	Reordered              // lower than an earlier one, and not seen yet (RFC 4737, 3.3)
	Duplicate
	Stale // too old to distinguish reordered from duplicate
)

// blocks is the number of remembered blocks of 64 sequence numbers, a power of two. It includes the
// block being filled.
const blocks = 64

// Window remembers which of the latest sequence numbers were seen, in a ring of bitmap blocks (RFC
// 6479).
type Window struct {
	Next uint64 // the highest sequence number seen, plus 1
	seen [blocks]uint64
}

// See returns what a frame is by its sequence number, and remembers it.
func (w *Window) See(seq uint64) Order {
	block, bit := seq/64, uint64(1)<<(seq%64)
	if seq >= w.Next {
		w.advance(block)
		w.Next = seq + 1
		w.seen[block%blocks] |= bit
		return InOrder
	}
	latest := (w.Next - 1) / 64
	switch {
	case latest-block >= blocks:
		return Stale
	case w.seen[block%blocks]&bit != 0:
		return Duplicate
	}
	w.seen[block%blocks] |= bit
	return Reordered
}

// advance clears the blocks after the latest one, up to block, the new latest.
func (w *Window) advance(block uint64) {
	latest := (w.Next + 63) / 64 // first block that was never written
	for b := max(latest, block-min(block, blocks-1)); b <= block; b++ {
		w.seen[b%blocks] = 0
	}
}
