package sched

import (
	"fmt"
	"math"
)

// Limits of a shaper. Its credit, in bit*ns/s, must not overflow an int64 (9.2e18).
const (
	maxRate         = 400_000_000_000 // bit/s
	maxBurst        = 1 << 28         // bytes: 2.1e18 of credit
	maxRefill       = 1 << 62         // 4.6e18 of credit in one step: more than a burst plus the largest debt
	creditPerByte   = 8 * 1_000_000_000
	maxOverhead     = 1 << 10 // bytes
	adviceInterval  = 10_000  // ns between two polls of the port, for the burst that an error recommends
	nanosecondsASec = 1_000_000_000
)

// Shape limits what a group or a queue sends, with a token bucket.
type Shape struct {
	Rate uint64 // bit/s on the wire; 0: none
	// Burst is how many bytes on the wire may leave at once after an idle time; required with a
	// rate. To reach its rate among others in a round, a shaper needs a burst of what the rate
	// earns between two turns.
	Burst int
}

// shaper is a token bucket that is exact to the bit without dividing by the rate: credit is in
// bit*ns/s, so a nanosecond earns the rate and a bit costs 1e9. A frame of any length may leave
// while there is credit; its debt, at most one frame, delays the next one. Credit beyond the burst
// is lost.
type shaper struct {
	rate    int64 // bit/s: the credit that a nanosecond earns
	burst   int64 // the most credit
	perByte int64 // the credit that a byte on the wire costs; 0: unshaped
	longest int64 // ns that certainly fill the bucket, and whose credit doesn't overflow

	credit int64
	last   int64 // ns; time of the last advance
}

// newShaper returns a full bucket, or one that is always open if the rate is 0.
func newShaper(to Shape, p *Params) (shaper, error) {
	if to.Rate == 0 {
		return shaper{burst: 1, credit: 1}, nil
	}
	if to.Rate > maxRate {
		return shaper{}, fmt.Errorf("rate %d bit/s: must be at most %d, or 0 for none", to.Rate, uint64(maxRate))
	}
	if to.Burst < 1 || to.Burst > maxBurst {
		advice := p.MaxFrame + p.Overhead + int(to.Rate/8*adviceInterval/nanosecondsASec)
		return shaper{},
			fmt.Errorf("burst %d B: must be 1 to %d; %d keeps the rate when the port is served every %d ns",
				to.Burst, maxBurst, advice, adviceInterval)
	}
	burst := int64(to.Burst) * creditPerByte
	return shaper{
		rate:    int64(to.Rate),
		burst:   burst,
		perByte: creditPerByte,
		longest: maxRefill / int64(to.Rate),
		credit:  burst,
	}, nil
}

// advance adds the credit for the time since the last advance. Time that goes backwards earns
// nothing.
func (s *shaper) advance(now int64) {
	elapsed := min(max(now-s.last, 0), s.longest)
	s.last = now
	s.credit = min(s.credit+elapsed*s.rate, s.burst)
}

// open reports whether a frame may leave.
func (s *shaper) open() bool { return s.credit > 0 }

// left returns the credit in bytes on the wire, rounded up: a frame may leave while fewer bytes
// have left before it.
func (s *shaper) left() int {
	if s.perByte == 0 {
		return math.MaxInt
	}
	return int((max(s.credit, 0) + creditPerByte - 1) / creditPerByte)
}

// spend pays for bytes on the wire.
func (s *shaper) spend(wire int) { s.credit -= int64(wire) * s.perByte }

// takeOver continues with the credit of old, which does not depend on the rate that earned it.
func (s *shaper) takeOver(old *shaper) {
	if s.perByte != 0 && old.perByte != 0 {
		s.credit, s.last = min(old.credit, s.burst), old.last
	}
}

// limit is a shaper of some of the port's queues: a single one, or all of a group.
type limit struct {
	queues uint8 // bit n: queue n pays
	shaper
}

// limits are the shapers of a port's groups and queues. There are few or none.
type limits struct {
	shaped uint8 // bit n: queue n pays to at least one of them
	all    []limit
}

// add makes queues pay to one shaper, if that has a rate.
func (l *limits) add(queues uint8, s shaper) {
	if s.perByte != 0 && queues != 0 {
		l.shaped |= queues
		l.all = append(l.all, limit{queues, s})
	}
}

// takeOver continues with the credit of old's shapers to which the same queues pay.
func (l *limits) takeOver(old *limits) {
	next := 0 // index in old: both have groups first, then queues, each in order
	for i := range l.all {
		for j := next; j < len(old.all); j++ {
			if old.all[j].queues == l.all[i].queues {
				l.all[i].takeOver(&old.all[j].shaper)
				next = j + 1
				break
			}
		}
	}
}

// advance adds the credit for the time since the last advance, and returns the queues that must
// wait for more.
func (l *limits) advance(now int64) (shut uint8) {
	for i := range l.all {
		s := &l.all[i]
		if s.advance(now); !s.open() {
			shut |= s.queues
		}
	}
	return shut
}

// spend charges for bytes that a queue has sent on the wire, and returns the queues that must now
// wait.
func (l *limits) spend(queue uint8, wire int) (shut uint8) {
	for i := range l.all {
		s := &l.all[i]
		if s.queues>>queue&1 == 0 {
			continue
		}
		if s.spend(wire); !s.open() {
			shut |= s.queues
		}
	}
	return shut
}
