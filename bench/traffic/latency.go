package traffic

import "math/bits"

// The buckets of a latency: 32 per octave, so a bucket is at most 1/32 wider than its lower bound.
// This is the log-linear layout of HdrHistogram (hdrhistogram.org) with a fixed size, so that
// counting does not allocate.
const (
	latencySubBits = 5
	latencyBuckets = 36 << latencySubBits // up to 2^40 ns, about 18 minutes
)

// latency counts the latencies of frames, ns.
type latency struct {
	n        uint64 // frames
	sum, max int64
	counts   [latencyBuckets]uint64
}

// add counts one frame. If a sink's thread was delayed between reading the clock and receiving,
// frames may have been sent after its Step began. They count as 0 ns.
func (l *latency) add(ns int64) {
	ns = max(ns, 0)
	l.n++
	l.sum += ns
	l.max = max(l.max, ns)
	l.counts[latencyBucket(uint64(ns))]++
}

// latencyBucket is linear below 32 ns; above, it combines the octave and the five bits after the
// leading one.
func latencyBucket(ns uint64) int {
	shift := max(bits.Len64(ns)-latencySubBits-1, 0)
	return min(shift<<latencySubBits+int(ns>>shift), latencyBuckets-1)
}

// latencyBound returns the longest time in a bucket, ns.
func latencyBound(bucket int) int64 {
	shift := max(bucket>>latencySubBits-1, 0)
	return int64(bucket-shift<<latencySubBits+1)<<shift - 1
}

// stats returns the mean, the quantiles and the maximum, or zeros without frames.
func (l *latency) stats() (s Latency) {
	if l.n == 0 {
		return s
	}
	s.Mean, s.Max = l.sum/int64(l.n), l.max
	quantiles := []struct {
		share float64
		to    *int64
	}{{.5, &s.P50}, {.9, &s.P90}, {.99, &s.P99}, {.999, &s.P999}, {.9999, &s.P9999}}
	seen, q := uint64(0), 0
	for bucket, n := range l.counts {
		seen += n
		for q < len(quantiles) && float64(seen) >= quantiles[q].share*float64(l.n) {
			*quantiles[q].to = min(latencyBound(bucket), l.max)
			q++
		}
	}
	return s
}
