package bed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/bench/compare"
)

// Overloaded is a forwarder's behaviour under overload: its maximum receive rate, and the cost.
type Overloaded struct {
	Seconds   float64
	Frames    tally         // in this time
	Rate      float64       // forwarded, packets/s
	Offered   float64       // sent by the generator, packets/s
	Disturbed float64       // share of the time in which the forwarder or the generator had no CPU
	Attempts  int           // number of attempts, of which this was the least disturbed
	Program   time.Duration // time that the forwarding thread spent in its program…
	Kernel    time.Duration // … and in the kernel; both 0: unknown
	Lost      float64       // share of all frames sent, from the first to the last
}

// GeneratorBound reports whether the generator was the bottleneck: it offered hardly more than came
// through.
func (o *Overloaded) GeneratorBound() bool { return o.Offered < 1.1*o.Rate }

// Overload sends all streams at a rate, 0 for as fast as the generator can, and counts for d the
// frames that come through. It returns the first undisturbed attempt, or the least disturbed one.
func (b *Bed) Overload(ctx context.Context, rate float64, d time.Duration, attempts int) (best Overloaded, err error) {
	before := b.Begin()
	if err := errors.Join(b.setRates(rate), Pause(ctx, warmUpTime)); err != nil {
		return best, err
	}
	from, err := b.look()
	if err != nil {
		return best, err
	}
	const patience = 20 // further attempts, for a forwarder that gets no CPU at all
	for attempt := 1; attempt <= attempts || best.Rate == 0 && attempt <= attempts+patience; attempt++ {
		if err := Pause(ctx, d); err != nil {
			return best, err
		}
		to, err := b.look()
		if err != nil {
			return best, err
		}
		t := between(from, to)
		if attempt == 1 || best.Rate == 0 || t.Disturbed < best.Disturbed && t.Rate > 0 {
			best = t
		}
		if best.Attempts = attempt; best.Disturbed <= compare.Disturbed {
			break
		}
		from = to
	}
	if best.Rate == 0 {
		return best, fmt.Errorf("no frame came through in %v, although some had before", d)
	}
	if err := b.Silence(ctx); err != nil {
		return best, err
	}
	best.Lost = b.count().Since(before).loss()
	return best, nil
}

// tally counts the frames of all streams except hellos: sent, and received at their destination.
type tally struct{ Sent, Received uint64 }

// Begin resets the sinks' counters and returns the tally to subtract from later ones. Call it when
// no frames are in flight.
func (b *Bed) Begin() tally {
	for _, s := range b.Sinks {
		s.Clear()
	}
	b.begun = tally{Sent: b.count().Sent}
	return b.begun
}

// count returns the frames sent and received so far.
func (b *Bed) count() (t tally) {
	sent, received := b.Sent(), b.received()
	for i, s := range b.Streams {
		if !s.Hello {
			t.Sent += sent[i]
			t.Received += received[i].Frames
		}
	}
	return t
}

// Since returns the difference to an earlier tally.
func (t tally) Since(before tally) tally {
	return tally{t.Sent - before.Sent, t.Received - before.Received}
}

// loss returns the share of frames sent that were not received. Call it when no frames are in
// flight.
func (t tally) loss() float64 {
	if t.Received >= t.Sent {
		return 0
	}
	return 1 - float64(t.Received)/float64(t.Sent)
}

// look is a reading of the counters at one moment.
type look struct {
	At        time.Time
	Frames    tally
	Generator Thread
	Forwarder map[string]Thread // nil if it does not provide them
}

// look reads the counters, and then the threads' times.
func (b *Bed) look() (look, error) {
	l := b.glance()
	return l, b.askThreads(&l)
}

// firstLook is the reading before streams start. It reads the counters last: reading the threads'
// times takes a fraction of a millisecond, in which nothing would be offered.
func (b *Bed) firstLook() (look, error) {
	var threads look
	err := b.askThreads(&threads)
	l := b.glance()
	l.Generator, l.Forwarder = threads.Generator, threads.Forwarder
	return l, err
}

// lastLook is the reading with which all streams stop. It stops them before it reads the threads'
// times, which takes so long that some frames would be late.
func (b *Bed) lastLook() (look, error) {
	l := b.glance()
	if err := b.setRates(Stopped); err != nil {
		return l, err
	}
	return l, b.askThreads(&l)
}

// glance reads the counters until a reading is short enough to count as one moment.
func (b *Bed) glance() (l look) {
	const moment, attempts = 50 * time.Microsecond, 100
	for range attempts {
		before := time.Now()
		l.Frames = b.count()
		if l.At = time.Now(); l.At.Sub(before) < moment {
			break
		}
	}
	return l
}

// askThreads reads how long the threads ran.
func (b *Bed) askThreads(l *look) (err error) {
	if p, ok := b.Forwarder.(interface {
		Threads() (map[string]Thread, error)
	}); ok {
		if l.Forwarder, err = p.Threads(); err != nil {
			return err
		}
	}
	spent, err := b.generator.Thread()
	l.Generator = Thread{Ran: spent.Ran, Waited: spent.Waited, CPU: cpuName(b.CPUs[1])}
	return err
}

// between returns the figures between two looks. Threads that may use only one CPU, including the
// generator's, take turns there: the time that they wait for each other is not a disturbance.
func between(from, to look) Overloaded {
	elapsed := to.At.Sub(from.At)
	o := Overloaded{Seconds: elapsed.Seconds()}
	groups := map[string][]Thread{}
	for number, t := range to.Forwarder {
		name := cmp.Or(t.CPU, number)
		groups[name] = append(groups[name], t.Since(from.Forwarder[number]))
	}
	forwards, polls := busiest(groups)
	if polls {
		t := inTurns(groups[forwards])
		o.Program, o.Kernel = t.Program, t.Kernel
	}
	generates := cmp.Or(to.Generator.CPU, "generator")
	groups[generates] = append(groups[generates], to.Generator.Since(from.Generator))
	without := withoutCPU(elapsed, inTurns(groups[generates]))
	if polls {
		without = max(without, withoutCPU(elapsed, inTurns(groups[forwards])))
	}
	o.Frames = to.Frames.Since(from.Frames)
	o.Rate, o.Offered = float64(o.Frames.Received)/o.Seconds, float64(o.Frames.Sent)/o.Seconds
	o.Disturbed = without.Seconds() / o.Seconds
	return o
}

// busiest returns the name of the threads that ran most, which are those that forward.
func busiest(groups map[string][]Thread) (name string, found bool) {
	most := time.Duration(-1)
	for n, list := range groups {
		if ran := inTurns(list).Ran; ran > most {
			most, name = ran, n
		}
	}
	return name, most >= 0
}

// withoutCPU returns for how much of elapsed a thread wanted a CPU and had none. The kernel counts
// a wait only when it is over: a thread that has hardly run, and never sleeps, is still waiting.
func withoutCPU(elapsed time.Duration, t Thread) time.Duration {
	const hardly = 8 // interrupts, which do not count as running, take at most 7 of 8 parts
	if t.Ran < elapsed/hardly && !t.Sleeps {
		return elapsed - t.Ran
	}
	return max(0, t.Waited)
}
