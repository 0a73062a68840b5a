package live

import (
	"iter"
)

// Histogram counts latencies in buckets, 32 an octave: a bucket is at most 1/32 of its values wide. Below 64 ns there is
// a bucket for each ns. What is above MaxLatency is counted as that.
type Histogram struct {
	Counts [buckets]uint64
	Sum    uint64 // ns, exact
	Max    int64  // ns, exact
}

// MaxLatency is the highest latency that has a bucket of its own: ns.
const MaxLatency = 1<<36 - 1

const buckets = 1024

// Bucket is one bucket of a Histogram.
type Bucket struct {
	From, To int64 // ns, To included
	Count    uint64
}

// Buckets returns the buckets that are not empty, in order.
func (h *Histogram) Buckets() iter.Seq[Bucket] { panic("not yet") }

// Count returns how many latencies were counted.
func (h *Histogram) Count() uint64 { panic("not yet") }

// Mean returns the mean, ns; 0 if there is none.
func (h *Histogram) Mean() float64 { panic("not yet") }

// Quantile returns the ns that the share q of all latencies, 0 to 1, did not exceed: the upper end of a bucket, but never
// more than Max; 0 if there is none.
func (h *Histogram) Quantile(q float64) int64 { panic("not yet") }

// Add adds what other has counted.
func (h *Histogram) Add(other *Histogram) { panic("not yet") }
