package traffic

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLatencyIsNeverNegative: frames may have been sent after the sink's Step began.
func TestLatencyIsNeverNegative(t *testing.T) {
	var l latency
	for _, ns := range []int64{-100, 40, -1, 20} {
		l.add(ns)
	}
	if got, want := l.stats(),
		(Latency{Mean: 15, P50: 0, P90: 40, P99: 40, P999: 40, P9999: 40, Max: 40}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if (&latency{}).stats() != (Latency{}) {
		t.Error("no frames took time")
	}
}

// TestQuantilesAgreeWithSorting: a quantile is a time that its share of frames did not exceed, at
// most 1/32 too long.
func TestQuantilesAgreeWithSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, 1<<uint(rapid.IntRange(1, 39).Draw(t, "octaves"))), 1, 3000).Draw(t,
			"ns")
		var l latency
		for _, ns := range all {
			l.add(ns)
		}
		slices.Sort(all)
		s := l.stats()
		for share, got := range map[float64]int64{.5: s.P50, .9: s.P90, .99: s.P99, .999: s.P999, .9999: s.P9999} {
			rank := 0
			for float64(rank+1) < share*float64(len(all)) {
				rank++
			}
			if exact := all[rank]; got < exact || got > exact+exact/32 {
				t.Fatalf("%v of %d: %d ns, exactly %d", share, len(all), got, exact)
			}
		}
		if s.Max != all[len(all)-1] {
			t.Fatalf("max %d, not %d", s.Max, all[len(all)-1])
		}
	})
}

// TestBucketsAreContiguous: every time is within the bound of its bucket; times beyond all buckets
// are in the last one.
func TestBucketsAreContiguous(t *testing.T) {
	for bucket := range latencyBuckets - 1 {
		bound := uint64(latencyBound(bucket))
		if latencyBucket(bound) != bucket || latencyBucket(bound+1) != bucket+1 {
			t.Fatalf("bucket %d ends at %d ns, which is in %d; the next is in %d", bucket, bound, latencyBucket(bound),
				latencyBucket(bound+1))
		}
	}
	if latencyBucket(1<<62) != latencyBuckets-1 {
		t.Error("a very long time is beyond the buckets")
	}
}
