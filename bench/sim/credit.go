package sim

import "sluice/pmd/mem"

// readyBytes is the wire time of a receiver-ready ordered set (R_RDY): one transmission word of
// four bytes (FC-FS, primitive signals; also Cisco, "Priority Flow Control: Build Reliable Layer 2
// Infrastructure", 2009).
const readyBytes = 4

// CreditLink is a link with buffer-to-buffer credits as in Fibre Channel (FC-FS). The sender spends
// a credit on each frame. The receiver returns it in an R_RDY when it has emptied the frame's
// buffer. There are as many credits as receive buffers, so nothing is ever lost, at any distance; a
// sender without credits waits.
//
// Nothing polls or decides: a frame begins when the frame before it has ended and its credit has
// come back. So the simulation follows every frame exactly, in whole picoseconds. The other
// direction carries only R_RDYs.
type CreditLink struct {
	Rate    uint64  // bit/s, each direction
	Metres  float64 // of fibre
	Credits int     // one for each receive buffer; a buffer holds any frame
	Frame   int     // bytes that a frame takes on the wire, including the gap to the next
	Drain   Drain   // how the receiver empties its buffers
}

// CreditUse is the result of a CreditLink.
type CreditUse struct {
	Frames int     // that the sender began to send
	Held   int     // most receive buffers occupied at once
	Use    float64 // of the link, 0 to 1
}

// Run sends continuously for ns nanoseconds. The seed draws the receiver's stalls.
func (l CreditLink) Run(seed uint64, ns int64) CreditUse {
	var (
		slot    = WireTime(l.Frame, l.Rate)
		out     = WireTime(l.Frame, l.Drain.Rate)
		flight  = mem.Length(l.Metres) * 1000
		ready   = WireTime(readyBytes, l.Rate)
		stalls  = l.Drain.stalls(seed)
		emptied = make([]int64, l.Credits) // by frame, modulo credits: when the receiver emptied its buffer, ps
		line    int64                      // when the sender may begin the next frame, ps
		last    int64                      // when the receiver has drained the previous frame, ps
		oldest  int                        // the first frame whose buffer is not yet known to be free
		use     CreditUse
	)
	for n := 0; ; n++ {
		begin := line
		if n >= l.Credits {
			begin = max(begin, emptied[n%l.Credits]+ready+flight)
		}
		if begin >= ns*1000 {
			use.Use = float64(int64(use.Frames)*slot) / float64(ns*1000)
			return use
		}
		line = begin + slot
		arrived := line + flight
		for oldest < n && emptied[oldest%l.Credits] <= arrived {
			oldest++
		}
		last = stalls.pass(max(arrived, last)) + out
		emptied[n%l.Credits] = last
		use.Frames++
		use.Held = max(use.Held, n-oldest+1)
	}
}

// WireTime returns the time that bytes take at a rate, ps.
func WireTime(bytes int, rate uint64) int64 { return int64(uint64(bytes) * 8 * 1e12 / rate) }
