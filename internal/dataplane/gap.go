package dataplane

import (
	"math/bits"
	"slices"
	"time"
)

// The buckets of a GapHistogram. An octave has eight, so the width of a bucket is at most 1/8 of
// its lower bound.
const (
	gapSubBits = 3
	gapBuckets = 40 << gapSubBits // up to 2^39 ns, about nine minutes
)

// GapHistogram counts the times between two iterations, in ns. A link's headroom must cover the
// loop's worst gap in addition to the wire.
type GapHistogram struct {
	Counts [gapBuckets]uint64
	Max    int64 // ns
	// Wait is the longest sum of two successive gaps, ns. A frame that arrives just after an
	// iteration has looked at its port may be found only by the end of the next, so this is the
	// time that a response has to cover (headroom.Params.OwnGap).
	Wait int64
	// Recent is the Wait of the last RecentTime, or of up to a minute more. It is 0 before the
	// first snapshot.
	Recent int64
	// Late counts the gaps longer than the shortest PortParams.Response that the worker's ports had
	// at the time.
	Late uint64
	// LateWaits counts the sums of two successive gaps that were longer than that; Wait is the
	// longest such sum.
	LateWaits uint64
}

// RecentTime is the time that "recent" covers. It is counted in minutes.
const (
	RecentTime    = recentMinutes * time.Minute
	recentMinutes = 10
)

// recentMax keeps the largest of recent values: one for each past minute, and one for the current
// minute.
type recentMax struct {
	minutes [recentMinutes + 1]int64
	current int   // index into minutes
	ends    int64 // end of the current minute, ns; 0: no value yet
}

// add takes a value at time now, which never goes back.
func (r *recentMax) add(value, now int64) {
	if now >= r.ends {
		r.turn(now)
	}
	r.minutes[r.current] = max(r.minutes[r.current], value)
}

// turn advances to the minute of now and forgets minutes that are too old.
func (r *recentMax) turn(now int64) {
	const minute = int64(time.Minute)
	if r.ends == 0 {
		r.ends = now + minute
	}
	for range r.minutes {
		if now < r.ends {
			return
		}
		r.current = (r.current + 1) % len(r.minutes)
		r.minutes[r.current] = 0
		r.ends += minute
	}
	r.ends = max(r.ends, now+minute) // nothing is recent any more
}

// most returns the largest recent value.
func (r *recentMax) most(now int64) int64 {
	r.add(0, now)
	return slices.Max(r.minutes[:])
}

// Work counts the iterations that moved something, and the time that they took, up to the start of
// the next.
type Work struct {
	Iterations uint64
	NS         int64
}

// gapMeter measures at every iteration. It knows what an iteration took when the next one begins,
// so it needs no further clock reading.
type gapMeter struct {
	histogram GapHistogram
	response  int64     // bound for GapHistogram.Late, ns
	recent    recentMax // for GapHistogram.Recent
	work      Work
	last      int64
	before    int64 // the gap before this one, ns
	running   bool
	moved     bool // the last iteration moved something
}

func (g *gapMeter) observe(now int64) {
	if g.running {
		gap := now - g.last
		g.histogram.add(gap)
		if gap+g.before > g.response {
			g.histogram.LateWaits++
			if gap > g.response {
				g.histogram.Late++
			}
		}
		g.histogram.Wait = max(g.histogram.Wait, gap+g.before)
		g.recent.add(gap+g.before, now)
		g.before = gap
		if g.moved {
			g.work.Iterations++
			g.work.NS += gap
		}
	}
	g.last, g.running = now, true
}

// at returns the gaps so far, with Recent as of now.
func (g *gapMeter) at(now int64) GapHistogram {
	h := g.histogram
	h.Recent = g.recent.most(now)
	return h
}

func (h *GapHistogram) add(gap int64) {
	if gap > h.Max {
		h.Max = gap
	}
	h.Counts[gapBucket(gap)]++
}

// gapBucket is linear below 8 ns. Above that, it is the octave and the three bits behind the
// leading one.
func gapBucket(gap int64) int {
	v := uint64(max(gap, 0))
	if v < 1<<gapSubBits {
		return int(v)
	}
	shift := bits.Len64(v) - gapSubBits - 1
	return min((shift+1)<<gapSubBits|int(v>>shift)&(1<<gapSubBits-1), gapBuckets-1)
}

// gapBound returns the largest gap of a bucket, in ns.
func gapBound(bucket int) int64 {
	if bucket < 1<<gapSubBits {
		return int64(bucket)
	}
	shift := bucket>>gapSubBits - 1
	return int64(bucket&(1<<gapSubBits-1)|1<<gapSubBits)<<shift + 1<<shift - 1
}

// Iterations returns the number of gaps measured.
func (h *GapHistogram) Iterations() uint64 {
	n := uint64(0)
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// AtMost returns the number of gaps no longer than limit, in ns, to within 1/8 of it. It is exact
// for 2^n - 1, where a bucket ends.
func (h *GapHistogram) AtMost(limit int64) uint64 {
	n := uint64(0)
	for _, c := range h.Counts[:gapBucket(limit)+1] {
		n += c
	}
	return n
}

// Quantile returns the gap, in ns, that a share q (0 … 1) of the iterations did not exceed, to
// within 1/8.
func (h *GapHistogram) Quantile(q float64) int64 {
	rank := uint64(q * float64(h.Iterations()))
	seen := uint64(0)
	for i, c := range h.Counts {
		if seen += c; seen > rank {
			return min(gapBound(i), h.Max)
		}
	}
	return h.Max
}
