package line

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBucketsLeaveNothingOut: every ns is within the bounds of its bucket, buckets adjoin, and none
// is wider than 1/32 of its values.
func TestBucketsLeaveNothingOut(t *testing.T) {
	next := int64(0)
	for i := range Buckets {
		from, to := bounds(i)
		if from != next {
			t.Fatalf("bucket %d begins at %d, the one before ended at %d", i, from, next-1)
		}
		if bucketOf(from) != i || bucketOf(to) != i {
			t.Fatalf("bucket %d, %d to %d: the ends are in %d and %d", i, from, to, bucketOf(from), bucketOf(to))
		}
		if width := to - from + 1; width > 1 && width*32 > from {
			t.Fatalf("bucket %d, %d to %d, is too wide", i, from, to)
		}
		next = to + 1
	}
	if next != MaxTime+1 {
		t.Errorf("the last bucket ends at %d, not at %d", next-1, int64(MaxTime))
	}
	var h Histogram
	h.Record(math.MaxInt64, 1)
	h.Record(-1, 2)
	if h.Counts[0] != 2 || h.Counts[Buckets-1] != 1 || h.Quantile(1) != math.MaxInt64 {
		t.Errorf("times beyond all buckets: %+v", h)
	}
}

// TestQuantilesAgreeWithSorting: a quantile is a time that its share of times did not exceed, at
// most 1/32 too long.
func TestQuantilesAgreeWithSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, 1<<uint(rapid.IntRange(1, timeBits-1).Draw(t, "octaves"))), 1,
			3000).Draw(t, "ns")
		var h, odd Histogram
		sum := 0.0
		for i, ns := range all {
			[]*Histogram{&h, &odd}[i%2].Record(ns, 1)
			sum += float64(ns)
		}
		h.Merge(&odd)
		slices.Sort(all)
		for _, share := range []float64{0, .5, .9, .99, .999, .9999, 1} {
			rank := 0
			for float64(rank+1) < share*float64(len(all)) {
				rank++
			}
			if exact, got := all[rank], int64(h.Quantile(share)); got < exact || got > exact+exact/32 {
				t.Fatalf("%v of %d: %d ns, exactly %d", share, len(all), got, exact)
			}
		}
		if h.Max != all[len(all)-1] || h.Count() != uint64(len(all)) || h.Mean() != sum/float64(len(all)) {
			t.Fatalf("max %d, not %d; %d of %d; mean %g", h.Max, all[len(all)-1], h.Count(), len(all), h.Mean())
		}
	})
	if h := (&Histogram{}); h.Quantile(.5) != 0 || h.Mean() != 0 {
		t.Errorf("no times: %g, %g", h.Quantile(.5), h.Mean())
	}
}
