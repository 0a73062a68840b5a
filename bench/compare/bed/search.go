package bed

import (
	"context"
	"errors"
	"sluice/bench/compare"
	"time"
)

// warmUpTime is how long a forwarder is loaded before measurements.
const warmUpTime = 300 * time.Millisecond

// WarmUp offers the first stream at a rate before measurements.
func (b *Bed) WarmUp(ctx context.Context, rate float64) error {
	b.Begin()
	return errors.Join(b.SetRate(0, rate), Pause(ctx, warmUpTime), b.Silence(ctx))
}

// Measure offers a rate for d; see compare.Search.
func (b *Bed) Measure(ctx context.Context, rate float64, d time.Duration) (l compare.Load, err error) {
	before := b.Begin()
	from, err := b.firstLook()
	if err != nil {
		return l, err
	}
	if err := errors.Join(b.SetRate(0, rate), Pause(ctx, d/2)); err != nil {
		return l, err
	}
	half := b.count().Since(before)
	if err := Pause(ctx, d/2); err != nil {
		return l, err
	}
	to, err := b.lastLook()
	if err != nil {
		return l, err
	}
	if err := b.Silence(ctx); err != nil {
		return l, err
	}
	all, seconds := b.count().Since(before), to.At.Sub(from.At).Seconds()
	return compare.Load{
		Offered: rate * seconds, Sent: float64(all.Sent), Received: float64(all.Received),
		Loss:    all.loss(),
		Growing: growing(half, to.Frames.Since(before)), Disturbed: between(from, to).Disturbed, Seconds: seconds,
	}, nil
}

// growing reports whether more frames were in flight at the end of a trial than in the middle, by
// more than a burst and more than the loss that PDR allows.
func growing(half, end tally) bool {
	const burst, share = 256, 0.005
	behind := func(t tally) float64 { return float64(t.Sent) - float64(t.Received) }
	return behind(end)-behind(half) > max(burst, share*float64(end.Sent-half.Sent))
}
