package sched

import "fmt"

// Limits of a shaper. Its credit, in bit*ns/s, must not overflow an int64 (9.2e18).
const (
	maxRate         = 400_000_000_000 // bit/s
	maxBurst        = 1 << 28         // bytes: 2.1e18 of credit
	maxRefill       = 1 << 62         // 4.6e18 of credit in one step: more than a burst and all that can be owed
	creditPerByte   = 8 * 1_000_000_000
	maxOverhead     = 1 << 10 // bytes
	adviceInterval  = 10_000  // ns between two looks at the port, for the burst that an error recommends
	nanosecondsASec = 1_000_000_000
)

// shaper is a token bucket that is exact to the bit, without a division: credit is counted in bit*ns/s, so that a
// nanosecond earns the rate and a bit costs 1e9. A frame goes while there is credit, whatever its length; the debt
// of at most one frame delays the next. What is earned beyond the burst is lost.
type shaper struct {
	rate     int64 // bit/s: credit a nanosecond earns
	burst    int64 // most credit
	perByte  int64 // credit a byte costs; 0: unshaped
	overhead int   // bytes on the wire beyond a frame's length
	longest  int64 // ns that are sure to fill the bucket, and whose earnings don't overflow

	credit int64
	last   int64 // ns; time of the last advance
}

// newShaper returns a full bucket, or one that costs nothing when the rate is 0.
func newShaper(p Params) (shaper, error) {
	if p.Overhead < 0 || p.Overhead > maxOverhead {
		return shaper{}, fmt.Errorf("overhead %d B: must be 0 to %d; Ethernet's is 24", p.Overhead, maxOverhead)
	}
	if p.Rate == 0 {
		return shaper{burst: 1, credit: 1}, nil
	}
	if p.Rate > maxRate {
		return shaper{}, fmt.Errorf("rate %d bit/s: must be at most %d, or 0 for none", p.Rate, uint64(maxRate))
	}
	if p.Burst < 1 || p.Burst > maxBurst {
		advice := p.MaxFrame + p.Overhead + int(p.Rate/8*adviceInterval/nanosecondsASec)
		return shaper{}, fmt.Errorf("burst %d B: must be 1 to %d; %d keeps the rate when the port is served every %d ns",
			p.Burst, maxBurst, advice, adviceInterval)
	}
	burst := int64(p.Burst) * creditPerByte
	return shaper{
		rate:     int64(p.Rate),
		burst:    burst,
		perByte:  creditPerByte,
		overhead: p.Overhead,
		longest:  maxRefill / int64(p.Rate),
		credit:   burst,
	}, nil
}

// advance earns the credit of the time since the last advance. Time that goes backwards earns nothing.
func (s *shaper) advance(now int64) {
	elapsed := min(max(now-s.last, 0), s.longest)
	s.last = now
	s.credit = min(s.credit+elapsed*s.rate, s.burst)
}

// open says whether a frame may go.
func (s *shaper) open() bool { return s.credit > 0 }

// spend pays for a frame.
func (s *shaper) spend(length int) {
	s.credit -= int64(length+s.overhead) * s.perByte
}
