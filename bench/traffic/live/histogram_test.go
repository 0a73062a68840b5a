package live

import (
	"math"
	"math/bits"
	"testing"
)

// TestBucketsLeaveNothingOut: every ns is within the bounds of its bucket, buckets adjoin, and none
// is wider than 1/32 of its values.
func TestBucketsLeaveNothingOut(t *testing.T) {
	next := int64(0)
	for i := range buckets {
		from, to := bounds(i)
		if from != next {
			t.Fatalf("bucket %d begins at %d, the one before ended at %d", i, from, next-1)
		}
		if bucket(from) != i || bucket(to) != i {
			t.Fatalf("bucket %d, %d to %d: the ends are in %d and %d", i, from, to, bucket(from), bucket(to))
		}
		if width := to - from + 1; width > 1 && width*32 > from {
			t.Fatalf("bucket %d, %d to %d, is too wide", i, from, to)
		}
		next = to + 1
	}
	if next != MaxLatency+1 {
		t.Errorf("the last bucket ends at %d, not at %d", next-1, int64(MaxLatency))
	}
	if got := bucket(math.MaxInt64); got != buckets-1 {
		t.Errorf("beyond the last bucket: %d", got)
	}
	if got := bucket(-1); got != 0 {
		t.Errorf("before the first bucket: %d", got)
	}
}

func TestQuantiles(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 {
		t.Errorf("nothing counted: %d, %g", h.Quantile(0.5), h.Mean())
	}
	for ns := range int64(1000) {
		h.Counts[bucket(ns)]++
		h.Sum += uint64(ns)
		h.Max = ns
	}
	for _, test := range []struct {
		q    float64
		want int64
	}{{0, 0}, {0.001, 0}, {0.01, 9}, {0.05, 49}, {0.5, 503}, {0.99, 991}, {1, 999}} {
		if got := h.Quantile(test.q); got != test.want {
			t.Errorf("quantile %g: %d, want %d", test.q, got, test.want)
		}
	}
	var sum Histogram
	sum.Add(&h)
	sum.Add(&h)
	if sum.Count() != 2000 || sum.Mean() != 499.5 || sum.Max != 999 || sum.Quantile(0.5) != 503 {
		t.Errorf("twice: %d, %g, %d, %d", sum.Count(), sum.Mean(), sum.Max, sum.Quantile(0.5))
	}
}

// bucket returns the number of the bucket for ns, as the sink's program computes it: from the 6
// leading bits and the number of bits cut off.
func bucket(ns int64) int {
	ns = min(max(ns, 0), MaxLatency)
	cut := max(bits.Len64(uint64(ns))-octaveBits-1, 0)
	return cut<<octaveBits + int(ns>>cut)
}
