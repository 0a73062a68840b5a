package live

import (
	"iter"
	"math"
)

// Histogram counts latencies in buckets, 32 per octave: a bucket is at most 1/32 of its values
// wide. Below 64 ns each ns has its own bucket. Latencies above MaxLatency count as MaxLatency.
type Histogram struct {
	Counts [buckets]uint64
	Sum    uint64 // ns, exact
	Max    int64  // ns, exact
}

// MaxLatency is the highest latency that is counted exactly: ns, more than a minute.
const MaxLatency = 1<<latencyBits - 1

const (
	latencyBits = 36
	octaveBits  = 5 // 32 buckets an octave
	buckets     = (latencyBits - octaveBits + 1) << octaveBits
)

// Bucket is one bucket of a Histogram.
type Bucket struct {
	From, To int64 // ns, To included
	Count    uint64
}

// bounds returns the first and the last ns of bucket i.
func bounds(i int) (from, to int64) {
	cut := max(i>>octaveBits-1, 0)
	from = int64(i-cut<<octaveBits) << cut
	return from, from + 1<<cut - 1
}

// Buckets returns the buckets that are not empty, in order.
func (h *Histogram) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		for i, n := range h.Counts {
			if n == 0 {
				continue
			}
			from, to := bounds(i)
			if !yield(Bucket{From: from, To: to, Count: n}) {
				return
			}
		}
	}
}

// Count returns the number of latencies.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Mean returns the mean, ns, or 0 if there are no latencies.
func (h *Histogram) Mean() float64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return float64(h.Sum) / float64(n)
}

// Quantile returns the ns that the share q of all latencies, 0 to 1, did not exceed: the upper end
// of a bucket, at most Max, or 0 if there are no latencies.
func (h *Histogram) Quantile(q float64) int64 {
	want := max(uint64(math.Ceil(q*float64(h.Count()))), 1)
	var seen uint64
	for b := range h.Buckets() {
		if seen += b.Count; seen >= want {
			return min(b.To, h.Max)
		}
	}
	return h.Max
}

// Add adds the counts of other.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.Sum += other.Sum
	h.Max = max(h.Max, other.Max)
}
