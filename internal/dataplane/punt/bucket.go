package punt

import "fmt"

// Limit bounds a stream of frames: over any time t, no more than Burst + Rate × t pass.
type Limit struct {
	Rate  int // frames a second
	Burst int // frames
}

// maxLimit keeps a bucket's arithmetic within 64 bits.
const maxLimit = 1_000_000

// check rejects limits that no bucket can keep.
func (l Limit) check() error {
	if l.Rate < 1 || l.Rate > maxLimit || l.Burst < 1 || l.Burst > maxLimit {
		return fmt.Errorf("%d frames a second in bursts of %d: choose 1 to %d for both", l.Rate, l.Burst, maxLimit)
	}
	return nil
}

// bucket is a token bucket that counts frames. It is exact: credit is counted in parts of a frame
// of 1/1e9, so it earns Rate of them per ns and nothing is rounded.
type bucket struct {
	limit  Limit
	credit int64 // frames × second
	last   int64 // ns, when credit was last added
}

const second = 1_000_000_000 // ns

// newBucket returns a full bucket. The limit is one that check accepts.
func newBucket(l Limit) bucket { return bucket{limit: l, credit: int64(l.Burst) * second} }

// take reports whether a frame may pass at now, in ns, and counts it if so. now never goes back.
func (b *bucket) take(now int64) bool {
	full := int64(b.limit.Burst) * second
	if rate, since := int64(b.limit.Rate), now-b.last; since > (full-b.credit)/rate {
		b.credit = full
	} else {
		b.credit += since * rate
	}
	if b.last = now; b.credit < second {
		return false
	}
	b.credit -= second
	return true
}

// takeOver continues from a bucket with another limit: with its credit, as far as the new burst
// allows. It does nothing if old is the zero bucket.
func (b *bucket) takeOver(old *bucket) {
	if old.limit.Rate > 0 {
		b.credit, b.last = min(old.credit, b.credit), old.last
	}
}
