package sim

import "sluice/pmd/mem"

// readyBytes is what a receiver-ready ordered set (R_RDY) takes on the wire: one transmission word
// of four bytes (FC-FS, primitive signals; also Cisco, "Priority Flow Control: Build Reliable Layer
// 2 Infrastructure", 2009).
const readyBytes = 4

// CreditLink is a link with buffer-to-buffer credits as in Fibre Channel (FC-FS): the sender spends
// a credit on each frame and gets it back, in an R_RDY, when the receiver has emptied the buffer
// that held the frame. There are as many credits as receive buffers, so that nothing is ever lost,
// whatever the distance; a sender without credits waits.
//
// Nothing here polls or decides: when a frame begins follows from when the frame before it ended
// and from when its credit came back. So frames are followed one by one, exactly, in whole
// picoseconds. The other direction carries nothing but R_RDYs.
type CreditLink struct {
	Rate    uint64  // bit/s, each direction
	Metres  float64 // of fibre
	Credits int     // one for each receive buffer; a buffer holds any frame
	Frame   int     // bytes that a frame takes on the wire, the distance to the next included
	Drain   Drain   // how the receiver empties its buffers
}

// CreditUse is what became of a CreditLink.
type CreditUse struct {
	Frames int     // begun by the sender
	Held   int     // receive buffers occupied at once, at most
	Use    float64 // of the link, 0 to 1
}

// Run lets the sender send without end for so many ns. The seed draws the receiver's stalls.
func (l CreditLink) Run(seed uint64, ns int64) CreditUse {
	var (
		slot    = WireTime(l.Frame, l.Rate)
		out     = WireTime(l.Frame, l.Drain.Rate)
		flight  = mem.Length(l.Metres) * 1000
		ready   = WireTime(readyBytes, l.Rate)
		stalls  = l.Drain.stalls(seed)
		emptied = make([]int64, l.Credits) // by frame, modulo credits: when the receiver had its buffer free again, ps
		line    int64                      // when the sender may begin the next frame, ps
		last    int64                      // when the receiver is done with the frame before, ps
		oldest  int                        // the first frame whose buffer was not known to be free
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

// WireTime returns how long so many bytes take at a rate, ps.
func WireTime(bytes int, rate uint64) int64 { return int64(uint64(bytes) * 8 * 1e12 / rate) }
