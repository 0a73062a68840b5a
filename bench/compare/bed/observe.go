package bed

import (
	"context"
	"errors"
	"time"

	"sluice/bench/compare"
	"sluice/bench/traffic/live"
	"sluice/internal/frame"
)

// Observation is the result for all streams of a bed during a time.
type Observation struct {
	Seconds float64
	Streams []Observed
	Hosts   []Pauses

	Disturbed float64 // share of the time in which the forwarder or the generator had no CPU
	Attempts  int     // number of attempts, of which this was the least disturbed
	Discarded uint64  // frames lost in the other attempts
}

// Observed is the result for one stream.
type Observed struct {
	Rate           float64 // packets/s that arrived during the observation
	Sent, received uint64  // frames, from the first to the last
	Disordered     uint64  // frames received reordered, or more than once
}

// Pauses are the pauses that one host received during the observation.
type Pauses struct {
	Frames float64    // PFC and PAUSE frames per second
	Paused [8]float64 // share of the time in which a priority was paused
}

// Lost returns how many frames of a stream were lost.
func (o *Observed) Lost() uint64 { return o.Sent - min(o.Sent, o.received) }

// Lost returns how many frames of all streams were lost.
func (o *Observation) Lost() (n uint64) {
	for i := range o.Streams {
		n += o.Streams[i].Lost()
	}
	return n
}

// Observe sends each stream at its rate, in packets/s, lets them settle, observes them for d, and
// stops them. Like Overload, it repeats disturbed attempts.
func (b *Bed) Observe(ctx context.Context, rates []float64, settle, d time.Duration, attempts int) (best Observation,
	err error) {
	lost := uint64(0)
	for attempt := 1; attempt <= attempts; attempt++ {
		o, err := b.observeOnce(ctx, rates, settle, d)
		if err != nil {
			return best, err
		}
		lost += o.Lost()
		if attempt == 1 || o.Disturbed < best.Disturbed {
			best = o
		}
		if best.Attempts = attempt; best.Disturbed <= compare.Disturbed {
			break
		}
	}
	best.Discarded = lost - best.Lost()
	return best, nil
}

// observeOnce counts disturbance from the first frame on, like loss.
func (b *Bed) observeOnce(ctx context.Context, rates []float64, settle, d time.Duration) (o Observation, err error) {
	b.Begin()
	before := b.Sent()
	begin, err := b.look()
	if err != nil {
		return o, err
	}
	var errs []error
	for i, rate := range rates {
		errs = append(errs, b.SetRate(i, rate))
	}
	if err := errors.Join(append(errs, Pause(ctx, settle))...); err != nil {
		return o, err
	}
	from := b.Statistics()
	if err := Pause(ctx, d); err != nil {
		return o, err
	}
	to := b.Statistics()
	end, err := b.look()
	if err != nil {
		return o, err
	}
	if err := b.Silence(ctx); err != nil {
		return o, err
	}
	o.Seconds, o.Disturbed = to.At.Sub(from.At).Seconds(), between(begin, end).Disturbed
	sent, received := b.Sent(), b.received()
	first, last := b.OfStreams(from.Hosts), b.OfStreams(to.Hosts)
	for i, r := range received {
		o.Streams = append(o.Streams, Observed{
			Rate: float64(last[i].Frames-first[i].Frames) / o.Seconds,
			Sent: sent[i] - before[i], received: r.Frames, Disordered: r.Reordered + r.Duplicates + r.Stale,
		})
	}
	for i := range b.Sinks {
		o.Hosts = append(o.Hosts, pausesOf(&from.Control[i], &to.Control[i], o.Seconds))
	}
	return o, nil
}

// Statistics is a reading of the sinks' counters.
type Statistics struct {
	At      time.Time
	Hosts   [][]live.Counters   // by host, then by stream
	Control []live.ControlStats // by host
}

// Statistics returns the hosts' counters so far.
func (b *Bed) Statistics() Statistics {
	s := Statistics{At: time.Now(), Hosts: b.counters()}
	for _, sink := range b.Sinks {
		s.Control = append(s.Control, sink.Control())
	}
	return s
}

// pausesOf returns the pauses that a host received between two readings.
func pausesOf(from, to *live.ControlStats, seconds float64) Pauses {
	h := Pauses{Frames: float64(to.PFC-from.PFC+to.Pause-from.Pause) / seconds}
	for p := range h.Paused {
		h.Paused[p] = (to.Paused[p] - from.Paused[p]).Seconds() / seconds
	}
	return h
}

// LineRate returns the packets/s of a length, without FCS, on a line of speed bit/s.
func LineRate(speed uint64, length int) float64 {
	return float64(speed) / 8 / float64(length+frame.WireOverhead)
}

// Jain returns Jain's fairness index: 1 if all values are equal, 1/n if one has everything, NaN if
// all are zero. Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and
// Discrimination for Resource Allocation in Shared Computer Systems", 1984.
func Jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(values)) * squares)
}
