package bench

import (
	"context"
	"errors"
	"time"

	"sluice/bench/host/live"
)

// observation is what happened to the streams of a bed while they ran.
type observation struct {
	seconds float64
	streams []observed
	hosts   []heard

	disturbed float64 // share of the time in which the forwarder or the generator had no CPU
	attempts  int     // of which this was the one disturbed least
	discarded uint64  // frames lost in the others
}

// observed is what happened to one stream.
type observed struct {
	rate           float64 // packets/s that came, in the time observed
	sent, received uint64  // frames, from the first to the last
	disordered     uint64  // of those received: reordered, or more than once
}

// heard is what one host was told in the time observed.
type heard struct {
	frames float64    // of PFC, and PAUSE, a second
	paused [8]float64 // share of the time in which a priority was paused
}

// lost returns how many frames of a stream were lost.
func (o *observed) lost() uint64 { return o.sent - min(o.sent, o.received) }

// lost returns how many frames of all streams were lost.
func (o *observation) lost() (n uint64) {
	for i := range o.streams {
		n += o.streams[i].lost()
	}
	return n
}

// observe sends each stream at its rate, in packets/s, observes them for d after they have settled, and stops them. Like
// overload, it repeats what others disturb.
func (b *bed) observe(ctx context.Context, rates []float64, settle, d time.Duration, attempts int) (best observation, err error) {
	lost := uint64(0)
	for attempt := 1; attempt <= attempts; attempt++ {
		o, err := b.observeOnce(ctx, rates, settle, d)
		if err != nil {
			return best, err
		}
		lost += o.lost()
		if attempt == 1 || o.disturbed < best.disturbed {
			best = o
		}
		if best.attempts = attempt; best.disturbed <= disturbed {
			break
		}
	}
	best.discarded = lost - best.lost()
	return best, nil
}

// observeOnce tells of disturbance from the first frame on, for what is lost is counted from there.
func (b *bed) observeOnce(ctx context.Context, rates []float64, settle, d time.Duration) (o observation, err error) {
	b.begin()
	before := b.sent()
	begin, err := b.look()
	if err != nil {
		return o, err
	}
	var errs []error
	for i, rate := range rates {
		errs = append(errs, b.setRate(i, rate))
	}
	if err := errors.Join(append(errs, pause(ctx, settle))...); err != nil {
		return o, err
	}
	from := b.statistics()
	if err := pause(ctx, d); err != nil {
		return o, err
	}
	to := b.statistics()
	end, err := b.look()
	if err != nil {
		return o, err
	}
	if err := b.silence(ctx); err != nil {
		return o, err
	}
	o.seconds, o.disturbed = to.at.Sub(from.at).Seconds(), between(begin, end).disturbed
	sent, received := b.sent(), b.received()
	first, last := b.ofStreams(from.hosts), b.ofStreams(to.hosts)
	for i, r := range received {
		o.streams = append(o.streams, observed{
			rate: float64(last[i].Frames-first[i].Frames) / o.seconds,
			sent: sent[i] - before[i], received: r.Frames, disordered: r.Reordered + r.Duplicates + r.Stale,
		})
	}
	for i := range b.sinks {
		o.hosts = append(o.hosts, hearing(&from.control[i], &to.control[i], o.seconds))
	}
	return o, nil
}

// statistics is what the sinks have counted up to a moment.
type statistics struct {
	at      time.Time
	hosts   [][]live.Counters   // by host, then by stream
	control []live.ControlStats // by host
}

func (b *bed) statistics() statistics {
	s := statistics{at: time.Now(), hosts: b.counters()}
	for _, sink := range b.sinks {
		s.control = append(s.control, sink.Control())
	}
	return s
}

// hearing returns what a host was told between two looks.
func hearing(from, to *live.ControlStats, seconds float64) heard {
	h := heard{frames: float64(to.PFC-from.PFC+to.Pause-from.Pause) / seconds}
	for p := range h.paused {
		h.paused[p] = (to.Paused[p] - from.Paused[p]).Seconds() / seconds
	}
	return h
}

// wireOverhead is what a frame takes on a wire beside its bytes without FCS: FCS, preamble and gap.
const wireOverhead = 4 + 8 + 12

// lineRate returns how many packets/s of a length, without FCS, a line of so many bit/s carries.
func lineRate(speed uint64, length int) float64 {
	return float64(speed) / 8 / float64(length+wireOverhead)
}

// jain returns Jain's fairness index: 1 if all are equal, 1/n if one has everything, not a number if nobody has anything. Source: R. Jain, D. Chiu, W. Hawe,
// "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared Computer Systems", 1984.
func jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(values)) * squares)
}
