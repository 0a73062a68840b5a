package sched

import (
	"fmt"
	"math"
)

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

// Shape limits what a group or a queue sends, by a token bucket.
type Shape struct {
	Rate uint64 // bit/s on the wire; 0: none
	// Burst is how many bytes on the wire may leave at once after a silence; needed with a rate. To
	// keep its rate beside others in a round, the burst must be what the rate earns between two
	// turns.
	Burst int
}

// shaper is a token bucket that is exact to the bit, without a division: credit is counted in
// bit*ns/s, so that a nanosecond earns the rate and a bit costs 1e9. A frame goes while there is
// credit, whatever its length; the debt of at most one frame delays the next. What is earned beyond
// the burst is lost.
type shaper struct {
	rate    int64 // bit/s: credit a nanosecond earns
	burst   int64 // most credit
	perByte int64 // credit a byte on the wire costs; 0: unshaped
	longest int64 // ns that are sure to fill the bucket, and whose earnings don't overflow

	credit int64
	last   int64 // ns; time of the last advance
}

// newShaper returns a full bucket, or one that costs nothing when the rate is 0.
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

// advance earns the credit of the time since the last advance. Time that goes backwards earns
// nothing.
func (s *shaper) advance(now int64) {
	elapsed := min(max(now-s.last, 0), s.longest)
	s.last = now
	s.credit = min(s.credit+elapsed*s.rate, s.burst)
}

// open says whether a frame may go.
func (s *shaper) open() bool { return s.credit > 0 }

// left returns how many bytes on the wire use up the credit: a frame may go as long as fewer have
// gone before it.
func (s *shaper) left() int {
	if s.perByte == 0 {
		return math.MaxInt
	}
	return int((max(s.credit, 0) + creditPerByte - 1) / creditPerByte)
}

// spend pays for bytes on the wire.
func (s *shaper) spend(wire int) { s.credit -= int64(wire) * s.perByte }

// takeOver goes on with the credit of old. Credit does not depend on the rate at which it was
// earned.
func (s *shaper) takeOver(old *shaper) {
	if s.perByte != 0 && old.perByte != 0 {
		s.credit, s.last = min(old.credit, s.burst), old.last
	}
}

// limit is a shaper that some of the port's queues share: one alone, or all of a group.
type limit struct {
	queues uint8 // bit n: queue n pays
	shaper
}

// limits are all shapers of a port but its own. There are few or none of them.
type limits struct {
	shaped uint8 // bit n: queue n pays to one of them at least
	all    []limit
}

// add makes queues pay to one shaper, if that is one that limits anything.
func (l *limits) add(queues uint8, s shaper) {
	if s.perByte != 0 && queues != 0 {
		l.shaped |= queues
		l.all = append(l.all, limit{queues, s})
	}
}

// takeOver goes on with the credit of old, where the same queues pay to one shaper.
func (l *limits) takeOver(old *limits) {
	next := 0 // of old's: both have groups first, then queues, each in their order
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

// advance earns the credit of the time since the last advance, and returns the queues that must
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

// spend pays for bytes that a queue has sent on the wire, and returns the queues that must wait now
// because of that.
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
