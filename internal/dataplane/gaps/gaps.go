// Package gaps measures how long a polling loop is away: the times between its iterations. They
// count in a histogram of fixed size, at the cost of one clock reading an iteration, which the loop
// makes anyway.
package gaps

import (
	"math/bits"
	"slices"
	"time"
)

// The buckets of a Histogram. An octave has eight, so the width of a bucket is at most 1/8 of
// its lower bound.
const (
	subBits = 3
	buckets = 40 << subBits // up to 2^39 ns, about nine minutes
)

// Histogram counts the times between two iterations, in ns. A link's headroom must cover the
// loop's worst gap in addition to the wire.
type Histogram struct {
	Counts [buckets]uint64
	Max    int64 // ns
	// Wait is the longest sum of two successive gaps, ns. A frame that arrives just after an
	// iteration has looked at its port may be found only by the end of the next, so this is the
	// time that a response has to cover (headroom.Params.OwnGap).
	Wait int64
	// Recent is the Wait of the last RecentTime, or of up to a minute more. It is 0 before the
	// first snapshot.
	Recent int64
	// Late counts the gaps longer than Meter.Response was at the time.
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

// Meter measures at every iteration. It knows what an iteration took when the next one begins, so
// it needs no further clock reading.
type Meter struct {
	Response int64 // bound for Histogram.Late, ns
	Last     int64 // when the latest iteration began, ns
	Moved    bool  // the latest iteration moved something; set by the loop
	Work     Work

	histogram Histogram
	recent    recentMax // for Histogram.Recent
	before    int64     // the gap before this one, ns
	running   bool
}

// Observe begins an iteration at now, which never goes back.
func (g *Meter) Observe(now int64) {
	if g.running {
		gap := now - g.Last
		g.histogram.add(gap)
		if gap+g.before > g.Response {
			g.histogram.LateWaits++
			if gap > g.Response {
				g.histogram.Late++
			}
		}
		g.histogram.Wait = max(g.histogram.Wait, gap+g.before)
		g.recent.add(gap+g.before, now)
		g.before = gap
		if g.Moved {
			g.Work.Iterations++
			g.Work.NS += gap
		}
	}
	g.Last, g.running = now, true
}

// At returns the gaps so far, with Recent as of now.
func (g *Meter) At(now int64) Histogram {
	h := g.histogram
	h.Recent = g.recent.most(now)
	return h
}

func (h *Histogram) add(gap int64) {
	if gap > h.Max {
		h.Max = gap
	}
	h.Counts[bucketOf(gap)]++
}

// bucketOf is linear below 8 ns. Above that, it is the octave and the three bits behind the
// leading one.
func bucketOf(gap int64) int {
	v := uint64(max(gap, 0))
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return min((shift+1)<<subBits|int(v>>shift)&(1<<subBits-1), buckets-1)
}

// boundOf returns the largest gap of a bucket, in ns.
func boundOf(bucket int) int64 {
	if bucket < 1<<subBits {
		return int64(bucket)
	}
	shift := bucket>>subBits - 1
	return int64(bucket&(1<<subBits-1)|1<<subBits)<<shift + 1<<shift - 1
}

// Iterations returns the number of gaps measured.
func (h *Histogram) Iterations() uint64 {
	n := uint64(0)
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// AtMost returns the number of gaps no longer than limit, in ns, to within 1/8 of it. It is exact
// for 2^n - 1, where a bucket ends.
func (h *Histogram) AtMost(limit int64) uint64 {
	n := uint64(0)
	for _, c := range h.Counts[:bucketOf(limit)+1] {
		n += c
	}
	return n
}

// Quantile returns the gap, in ns, that a share q (0 … 1) of the iterations did not exceed, to
// within 1/8.
func (h *Histogram) Quantile(q float64) int64 {
	rank := uint64(q * float64(h.Iterations()))
	seen := uint64(0)
	for i, c := range h.Counts {
		if seen += c; seen > rank {
			return min(boundOf(i), h.Max)
		}
	}
	return h.Max
}
