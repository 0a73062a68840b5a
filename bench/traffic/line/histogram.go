package line

import (
	"iter"
	"math"
	"math/bits"
)

// The buckets of a Histogram: 32 per octave, so a bucket is at most 1/32 of its values wide. Below
// 64 ns each ns has its own bucket. Times above MaxTime are in the last bucket. This is the
// log-linear layout of HdrHistogram (hdrhistogram.org) with a fixed size, so that counting does not
// allocate.
const (
	MaxTime    = 1<<timeBits - 1 // ns, more than a minute
	timeBits   = 36
	OctaveBits = 5 // 32 buckets per octave
	Buckets    = (timeBits - OctaveBits + 1) << OctaveBits
)

// Histogram counts times in ns.
type Histogram struct {
	Counts [Buckets]uint64
	Sum    uint64 // exact
	Max    int64  // exact
}

// Record counts n times of ns each. Negative ones count as 0: of two threads, the one that is ahead
// may have read the clock last.
func (h *Histogram) Record(ns int64, n uint64) {
	ns = max(ns, 0)
	h.Counts[bucketOf(ns)] += n
	h.Sum += uint64(ns) * n
	h.Max = max(h.Max, ns)
}

// bucketOf combines the number of bits cut off with the leading bits of ns.
func bucketOf(ns int64) int {
	ns = min(ns, MaxTime)
	cut := max(bits.Len64(uint64(ns))-OctaveBits-1, 0)
	return cut<<OctaveBits + int(ns>>cut)
}

// bounds returns the first and the last ns of bucket i.
func bounds(i int) (from, to int64) {
	cut := max(i>>OctaveBits-1, 0)
	from = int64(i-cut<<OctaveBits) << cut
	return from, from + 1<<cut - 1
}

// All returns the buckets that are not empty, in order: the longest time that may be in each, and
// their counts.
func (h *Histogram) All() iter.Seq2[int64, uint64] {
	return func(yield func(longest int64, n uint64) bool) {
		for i, n := range h.Counts {
			_, to := bounds(i)
			if i == Buckets-1 {
				to = h.Max
			}
			if n > 0 && !yield(min(to, h.Max), n) {
				return
			}
		}
	}
}

// Count returns the number of times.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Mean returns the mean, ns, or 0 without times.
func (h *Histogram) Mean() float64 { return float64(h.Sum) / float64(max(h.Count(), 1)) }

// Quantile returns the ns that the share q of all times, 0 to 1, did not exceed: at most 1/32 more
// than exactly, or 0 without times.
func (h *Histogram) Quantile(q float64) float64 {
	want := max(uint64(math.Ceil(q*float64(h.Count()))), 1)
	var seen uint64
	for longest, n := range h.All() {
		if seen += n; seen >= want {
			return float64(longest)
		}
	}
	return float64(h.Max)
}

// Merge adds the times of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.Sum += other.Sum
	h.Max = max(h.Max, other.Max)
}
