package bed

import (
	"context"
	"time"

	"sluice/bench/compare"
	"sluice/bench/traffic/line"
	"sluice/bench/traffic/live"
)

// Latency is the result of a latency trial.
type Latency struct {
	Rate      float64 // packets/s
	Seconds   float64
	Sent      uint64
	Lost      float64       // share
	Forgone   time.Duration // delay of the schedule at the end of the trial…
	PutOff    time.Duration // … and before: none, or it would hide latency
	Disturbed float64       // share of the time in which the forwarder or the generator had no CPU
	Attempts  int           // number of attempts, of which this was the least disturbed
	Discarded float64       // frames lost in the other attempts

	FromSchedule, FromWire line.Histogram
}

// Latency offers the first stream at a rate for d, or longer until a frame is sent. A frame that
// the generator sends late counts from when it was due, so the generator catches up without limit
// until the trial ends. Like Overload, Latency repeats disturbed trials.
func (b *Bed) Latency(ctx context.Context, rate float64, d time.Duration, attempts int) (best *Latency, err error) {
	lost := 0.0
	for attempt := 1; attempt <= attempts; attempt++ {
		l, err := b.latencyOnce(ctx, rate, d)
		if err != nil {
			return nil, err
		}
		lost += l.Lost * float64(l.Sent)
		if attempt == 1 || l.Disturbed < best.Disturbed {
			best = l
		}
		if best.Attempts = attempt; best.Disturbed <= compare.Disturbed {
			break
		}
	}
	best.Discarded = lost - best.Lost*float64(best.Sent)
	return best, nil
}

func (b *Bed) latencyOnce(ctx context.Context, rate float64, d time.Duration) (*Latency, error) {
	const (
		most       = 20 // times d, for a generator that gets no CPU at all
		everything = time.Hour
	)
	b.generator.SetCatchUp(everything)
	defer b.generator.SetCatchUp(live.DefaultCatchUp)
	before, forgone := b.Begin(), b.forgone()
	from, err := b.firstLook()
	if err != nil {
		return nil, err
	}
	if err := b.SetRate(0, rate); err != nil {
		return nil, err
	}
	for range most {
		if err := Pause(ctx, d); err != nil {
			return nil, err
		}
		if b.count().Sent > before.Sent {
			break
		}
	}
	putOff := b.forgone() - forgone
	b.generator.SetCatchUp(live.DefaultCatchUp) // any further delay when the streams stop is given up and counted
	to, err := b.lastLook()
	if err != nil {
		return nil, err
	}
	if err := b.Silence(ctx); err != nil {
		return nil, err
	}
	all, got := b.count().Since(before), b.Sinks[b.Streams[0].To].Read().Flows[0]
	return &Latency{
		Rate: rate, Seconds: to.At.Sub(from.At).Seconds(), Sent: all.Sent, Lost: all.loss(),
		Forgone: b.forgone() - forgone, PutOff: putOff,
		Disturbed: between(from, to).Disturbed, FromSchedule: got.FromSchedule, FromWire: got.FromWire,
	}, nil
}

// forgone returns how far the first stream's schedule was postponed so far.
func (b *Bed) forgone() time.Duration {
	for _, s := range b.generator.Sent() {
		if s.ID == 0 {
			return s.Forgone
		}
	}
	return 0
}
