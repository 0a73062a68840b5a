package cells

import "fmt"

// REDParams is random early detection on one egress queue (S. Floyd, V. Jacobson, "Random Early
// Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993):
// the deeper the queue, the more frames are marked or dropped, so senders slow down before it is
// full. Depths are in cells.
//
//	depth        chance
//	below Min    0
//	Min to Max   from 0 to Probability, in proportion
//	above Max    1
type REDParams struct {
	Min, Max    int     // 0 and 0: none
	Probability float64 // 0 to 1
	// Smoothing sets how slowly the average depth follows the actual one: each frame moves it by
	// 2^-Smoothing of the difference. 0 uses the actual depth, as data-centre switches do (M.
	// Alizadeh et al., "Data Center TCP", SIGCOMM 2010).
	Smoothing int
}

const (
	maxSmoothing = 16
	chanceBits   = 16 // of chances, which are in 2^-16
	depthBits    = maxSmoothing
)

// red is the state of one queue.
type red struct {
	min, max  int32  // cells
	chance    uint32 // at max, in 2^-chanceBits
	smoothing uint8
	depth     int64 // smoothed, cells in 2^-depthBits
}

func (p *REDParams) check() error {
	switch {
	case p.Min < 0 || p.Max > maxCells || p.Min > p.Max:
		return fmt.Errorf("early detection from %d to %d cells: want 0 ≤ min ≤ max ≤ %d", p.Min, p.Max, maxCells)
	case !(p.Probability >= 0 && p.Probability <= 1):
		return fmt.Errorf("early detection with probability %v: must be 0 to 1", p.Probability)
	case p.Smoothing < 0 || p.Smoothing > maxSmoothing:
		return fmt.Errorf("early detection smoothed by 2^-%d: must be 0 to %d", p.Smoothing, maxSmoothing)
	}
	return nil
}

func newRED(p REDParams) red {
	return red{
		min: int32(p.Min), max: int32(p.Max), smoothing: uint8(p.Smoothing),
		chance: uint32(p.Probability*(1<<chanceBits) + .5),
	}
}

// Early reports whether a frame about to be charged to an egress queue is to be marked, or dropped
// if it can't be marked. The probability depends on the queue's depth.
func (m *Manager) Early(port, queue int) bool {
	r := &m.reds[port*Priorities+queue]
	r.depth += (int64(m.queues[port*Priorities+queue].used)<<depthBits - r.depth) >> r.smoothing
	depth := int32(r.depth >> depthBits)
	switch {
	case depth < r.min || r.max == 0:
		return false
	case depth > r.max || r.max == r.min:
		return true
	}
	chance := uint64(r.chance) * uint64(depth-r.min) / uint64(r.max-r.min)
	return m.random()>>(64-chanceBits) < chance
}

// random returns 64 random bits (G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software
// 8(14), 2003).
func (m *Manager) random() uint64 {
	x := m.state
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	m.state = x
	return x
}
