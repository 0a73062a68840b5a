// Package budget bounds the iterations of a worker of the dataplane: how many frames it handles
// before it looks at its ports again.
package budget

// Default is the largest budget, and the one that a switch has unless it is given another. A larger
// one gains nothing: an iteration that moves this many frames takes tens of microseconds, and for
// that long a port's device is busy with what it already has.
const Default = 1024

const (
	// Burst is the most frames that a pass takes from a port, or gives to it, at a time. Bursts
	// amortise the index updates of the rings; a longer burst would lose in the first-level cache
	// what it still gains.
	Burst = 64
	// Least is the smallest budget that Of returns. With less, an iteration would spend most of its
	// time on other things than frames.
	Least = Burst
	// LeastBurst is the smallest burst that a port may receive in a pass, unless the budget is
	// smaller.
	LeastBurst = 8
)

// FrameCost bounds the time, in ns, that an iteration takes per frame of its budget: to receive,
// send and take back a frame with cold caches, or to drop it. It converts a response time into a
// budget. `sluice-lab bench run pipeline` and BenchmarkOverload measure a third of it.
const FrameCost = 100

// CopyBytes is how many bytes the loop copies in FrameCost, beyond those of a short frame. 3712
// bytes took 240 to 470 ns, among 0.5 to 4 MiB of buffers.
const CopyBytes = 1536

// LeastResponse returns the shortest time, in ns, that a budget can keep to for a worker with this
// many ports.
func LeastResponse(ports int) int64 { return 4 * FrameCost * int64(max(Least, LeastBurst*ports)) }

// Of returns the budget, in frames, with which the loop looks at each port at least once every ns
// nanoseconds. A port may come first in one iteration and last in the next, so two iterations may
// pass in between. Each of them may exceed its budget by one pass, which is as much again.
func Of(ns int64) int { return int(max(Least, min(Default, ns/(4*FrameCost)))) }

// Budget bounds an iteration over all ports. It counts frames, of which each buffer beyond the
// first counts as one more: those received and copies made of them, those sent, buffers taken back,
// frames that other workers sent, and buffers that they returned. It is spent burst by burst. In
// the first pass of an iteration every port may send a burst and take one back, whatever is left.
type Budget struct {
	Receive, Send, Reap, Cross, Home int // left
	First                            bool
	Size                             int
}

// Renew begins an iteration.
func (b *Budget) Renew() {
	b.Receive, b.Send, b.Reap, b.Cross, b.Home, b.First = b.Size, b.Size, b.Size, b.Size, b.Size, true
}

// Grants reports whether another burst may be spent when this much is left.
func (b *Budget) Grants(left int) bool { return b.First || left > 0 }

// Quantum returns the most frames that each of this many ports receives in a pass. A pass exceeds
// the budget by no more than the smallest bursts require.
func (b *Budget) Quantum(ports int) int {
	return max(min(LeastBurst, b.Size), min(Burst, b.Size/max(1, ports)))
}
