package dataplane

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestGapBucketsCoverAllGaps: every gap lies in the bucket that says it does, and a bucket's bound is at most 1/8 off.
func TestGapBucketsCoverAllGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.Int64Range(0, 1<<38).Draw(t, "gap")
		i := gapBucket(gap)
		bound := gapBound(i)
		if gap > bound || i > 0 && gap <= gapBound(i-1) {
			t.Fatalf("gap %d is in bucket %d, up to %d", gap, i, bound)
		}
		if bound-gap > gap/8 {
			t.Fatalf("bucket %d has gaps from %d to %d", i, gap, bound)
		}
	})
}

func TestGapQuantiles(t *testing.T) {
	var m gapMeter
	now := int64(5)
	var gaps []int64
	m.observe(now)
	for i := range int64(1000) {
		gap := 100 + i*i
		now += gap
		gaps = append(gaps, gap)
		m.observe(now)
	}
	h := &m.histogram
	if h.Iterations() != 1000 || h.Max != 100+999*999 {
		t.Errorf("%d gaps, the longest %d", h.Iterations(), h.Max)
	}
	slices.Sort(gaps)
	for _, q := range []float64{0, .5, .9, .99, .999} {
		want := gaps[int(q*1000)]
		if got := h.Quantile(q); got < want || got > want+want/8 {
			t.Errorf("quantile %v is %d, want %d to %d", q, got, want, want+want/8)
		}
	}
	if (&GapHistogram{}).Quantile(.5) != 0 {
		t.Error("no gaps have a median")
	}
}
