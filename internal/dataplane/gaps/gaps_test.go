package gaps

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestGapBucketsCoverAllGaps checks that every gap lies within the bounds of its bucket, and that a
// bound is at most 1/8 off.
func TestGapBucketsCoverAllGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.Int64Range(0, 1<<38).Draw(t, "gap")
		i := bucketOf(gap)
		bound := boundOf(i)
		if gap > bound || i > 0 && gap <= boundOf(i-1) {
			t.Fatalf("gap %d is in bucket %d, up to %d", gap, i, bound)
		}
		if bound-gap > gap/8 {
			t.Fatalf("bucket %d has gaps from %d to %d", i, gap, bound)
		}
	})
}

func TestGapQuantiles(t *testing.T) {
	var m Meter
	now := int64(5)
	var gaps []int64
	m.Observe(now)
	for i := range int64(1000) {
		gap := 100 + i*i
		now += gap
		gaps = append(gaps, gap)
		m.Observe(now)
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
	if (&Histogram{}).Quantile(.5) != 0 {
		t.Error("no gaps have a median")
	}
}

// TestRecentMax checks that values younger than RecentTime are kept, and that values older by more
// than a minute are forgotten.
func TestRecentMax(t *testing.T) {
	const minute = int64(time.Minute)
	rapid.Check(t, func(t *rapid.T) {
		type value struct{ at, value int64 }
		var r recentMax
		var all []value
		now := rapid.Int64Range(1, 100*minute).Draw(t, "start")
		for range rapid.IntRange(1, 60).Draw(t, "values") {
			now += rapid.OneOf(rapid.Int64Range(0, minute), rapid.Int64Range(0, 3*minute),
				rapid.Int64Range(0, 40*minute)).Draw(t, "later")
			v := value{now, rapid.Int64Range(0, 1000).Draw(t, "value")}
			r.add(v.value, now)
			all = append(all, v)
			if rapid.Bool().Draw(t, "time passes") {
				now += rapid.Int64Range(0, 20*minute).Draw(t, "silence")
			}
			least, most := int64(0), int64(0)
			for _, v := range all {
				if now-v.at < int64(RecentTime) {
					least = max(least, v.value)
				}
				if now-v.at <= int64(RecentTime)+minute {
					most = max(most, v.value)
				}
			}
			if got := r.most(now); got < least || got > most {
				t.Fatalf("%d, want %d to %d", got, least, most)
			}
		}
	})
}

// TestRecentWait checks that a gap counts as recent for ten minutes, and as the longest for ever.
func TestRecentWait(t *testing.T) {
	var m Meter
	now := int64(time.Second)
	run := func(gap, length time.Duration) {
		for end := now + int64(length); now < end; now += int64(gap) {
			m.Observe(now)
		}
	}
	run(time.Millisecond, time.Second)
	now += int64(time.Second) // a hiccup
	run(time.Millisecond, RecentTime-time.Minute)
	if h := m.At(now); h.Recent != h.Wait || h.Wait < int64(time.Second) {
		t.Errorf("recent %d, longest %d", h.Recent, h.Wait)
	}
	run(time.Millisecond, 3*time.Minute)
	if h := m.At(now); h.Recent != int64(2*time.Millisecond) || h.Wait < int64(time.Second) {
		t.Errorf("later: recent %d, longest %d", h.Recent, h.Wait)
	}
}

// TestWork checks that the time of an iteration, up to the start of the next, counts as work if the
// iteration moved something.
func TestWork(t *testing.T) {
	var m Meter
	now, want := int64(7), Work{}
	for i := range int64(100) {
		m.Observe(now)
		if m.Moved = i%3 == 0; m.Moved {
			want.Iterations++
			want.NS += 10 + i
		}
		now += 10 + i
	}
	m.Observe(now)
	if m.Work != want {
		t.Errorf("%+v, want %+v", m.Work, want)
	}
}
