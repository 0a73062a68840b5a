package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/bench/host/live"
)

// overloaded is what a forwarder does with more than it can take: its maximum receive rate, and what that costs.
type overloaded struct {
	seconds   float64
	frames    tally         // in this time
	rate      float64       // forwarded, packets/s
	offered   float64       // sent by the generator, packets/s
	disturbed float64       // share of the time in which the forwarder or the generator had no CPU
	attempts  int           // of which this was the one disturbed least
	program   time.Duration // that the thread that forwards spent in its program…
	kernel    time.Duration // … and in the kernel; both 0: unknown
	lost      float64       // share of all that was sent, from the first frame to the last
	shared    bool          // the generator shares its CPU with the forwarder
}

// disturbed is the share of its time without a CPU above which a trial is repeated. Whether a trial counts does not
// depend on its result.
const disturbed = 0.02

// metricDiscarded is the frames lost in trials that others disturbed and that were made again, so that what does not
// count is known all the same.
const metricDiscarded = "lost in trials that others disturbed"

// generatorBound tells whether it was the generator that was measured: it had hardly more to offer than came through. If it shares
// its CPU with the forwarder, what both can do on that is the forwarder's rate.
func (o *overloaded) generatorBound() bool { return !o.shared && o.offered < 1.1*o.rate }

// liveAttempts is how often a trial is made that others disturb.
func liveAttempts(o Options) int {
	if o.Quick {
		return 1
	}
	return 4
}

// noteDisturbed says of a trial that others have disturbed it whenever it was tried.
func (r *Report) noteDisturbed(what string, round int, share float64) {
	if share > disturbed {
		r.Note("%s, round %d: others left the forwarder or the generator no CPU for %.0f %% of the time.", what, round+1, 100*share)
	}
}

// overload sends all streams at a rate, 0 for as fast as the generator can, and counts for d what comes through. It takes
// the figures of the first attempt that nobody disturbs, or of the one that was disturbed least.
func (b *bed) overload(ctx context.Context, rate float64, d, warmUp time.Duration, attempts int) (best overloaded, err error) {
	before := b.begin()
	if err := errors.Join(b.setRates(rate), pause(ctx, warmUp)); err != nil {
		return best, err
	}
	from, err := b.look()
	if err != nil {
		return best, err
	}
	const patience = 20 // further attempts, for a forwarder that gets no CPU at all
	for attempt := 1; attempt <= attempts || best.rate == 0 && attempt <= attempts+patience; attempt++ {
		if err := pause(ctx, d); err != nil {
			return best, err
		}
		to, err := b.look()
		if err != nil {
			return best, err
		}
		t := between(from, to)
		if attempt == 1 || best.rate == 0 || t.disturbed < best.disturbed && t.rate > 0 {
			best = t
		}
		if best.attempts = attempt; best.disturbed <= disturbed {
			break
		}
		from = to
	}
	if best.rate == 0 {
		return best, fmt.Errorf("not a frame came through in %v, though some had before", d)
	}
	if err := b.silence(ctx); err != nil {
		return best, err
	}
	best.lost, best.shared = b.count().since(before).loss(), b.beat > 0
	return best, nil
}

// tally is how many frames of all streams, hellos excepted, were sent, and received where they should.
type tally struct{ sent, received uint64 }

// begin has the sinks count from 0 again and returns what count does from then on. To be called when nothing is under way.
func (b *bed) begin() tally {
	for _, s := range b.sinks {
		s.Clear()
	}
	b.begun = tally{sent: b.count().sent}
	return b.begun
}

func (b *bed) count() (t tally) {
	sent, received := b.sent(), b.received()
	for i, s := range b.streams {
		if !s.hello {
			t.sent += sent[i]
			t.received += received[i].Frames
		}
	}
	return t
}

func (t tally) since(before tally) tally {
	return tally{t.sent - before.sent, t.received - before.received}
}

// loss returns the share of what was sent that was not received. To be asked when nothing is under way.
func (t tally) loss() float64 {
	if t.received >= t.sent {
		return 0
	}
	return 1 - float64(t.received)/float64(t.sent)
}

// look is the counters at one moment.
type look struct {
	at        time.Time
	frames    tally
	generator Thread
	forwarder map[string]Thread // none if it does not say
}

// look looks at the counters, and then asks for the threads.
func (b *bed) look() (look, error) {
	l := b.glance()
	return l, b.askThreads(&l)
}

// firstLook is a look after which streams may begin: nothing is done between it and them, as asking for the threads takes some of
// a millisecond, in which nothing would be offered.
func (b *bed) firstLook() (look, error) {
	var threads look
	err := b.askThreads(&threads)
	l := b.glance()
	l.generator, l.forwarder = threads.generator, threads.forwarder
	return l, err
}

// lastLook is a look with which all streams stop: before the threads are asked for, which takes so long that it would make
// some frames late.
func (b *bed) lastLook() (look, error) {
	l := b.glance()
	if err := b.setRates(stopped); err != nil {
		return l, err
	}
	return l, b.askThreads(&l)
}

// glance looks at the counters until nothing has come between them and the clock: a look that took longer is not one moment.
func (b *bed) glance() (l look) {
	const moment, attempts = 50 * time.Microsecond, 100
	for range attempts {
		before := time.Now()
		l.frames = b.count()
		if l.at = time.Now(); l.at.Sub(before) < moment {
			break
		}
	}
	return l
}

// askThreads has the threads say how much they ran.
func (b *bed) askThreads(l *look) (err error) {
	if p, ok := b.forwarder.(interface {
		Threads() (map[string]Thread, error)
	}); ok {
		if l.forwarder, err = p.Threads(); err != nil {
			return err
		}
	}
	spent, err := b.generator.Thread()
	l.generator = Thread{Ran: spent.Ran, Waited: spent.Waited, CPU: cpuName(b.generatorCPU())}
	return err
}

// catchUp returns what the generator makes up for while loss is measured: turns of the forwarder, but no more.
func (b *bed) catchUp() time.Duration {
	const enough = 5 // turns
	return max(live.DefaultCatchUp, enough*b.beat)
}

// between returns the figures of the time between two looks. Threads that may use one CPU only, the generator's among them, take turns
// there: what they wait for each other is no disturbance.
func between(from, to look) overloaded {
	elapsed := to.at.Sub(from.at)
	o := overloaded{seconds: elapsed.Seconds()}
	groups := map[string][]Thread{}
	for number, t := range to.forwarder {
		name := cmp.Or(t.CPU, number)
		groups[name] = append(groups[name], t.since(from.forwarder[number]))
	}
	forwards, polls := busiest(groups)
	if polls {
		t := inTurns(groups[forwards])
		o.program, o.kernel = t.Program, t.Kernel
	}
	generates := cmp.Or(to.generator.CPU, "generator")
	groups[generates] = append(groups[generates], to.generator.since(from.generator))
	without := withoutCPU(elapsed, inTurns(groups[generates]))
	if polls {
		without = max(without, withoutCPU(elapsed, inTurns(groups[forwards])))
	}
	o.frames = to.frames.since(from.frames)
	o.rate, o.offered = float64(o.frames.received)/o.seconds, float64(o.frames.sent)/o.seconds
	o.disturbed = without.Seconds() / o.seconds
	return o
}

// busiest returns the name of the threads that ran most: those that forward.
func busiest(groups map[string][]Thread) (name string, found bool) {
	most := time.Duration(-1)
	for n, list := range groups {
		if ran := inTurns(list).Ran; ran > most {
			most, name = ran, n
		}
	}
	return name, most >= 0
}

// withoutCPU returns for how long, of a time, a thread had no CPU though it wanted one. The kernel knows of a wait only when it is over: a
// thread that has hardly run, and never sleeps, is in the middle of one.
func withoutCPU(elapsed time.Duration, t Thread) time.Duration {
	const hardly = 8 // interrupts, which do not count as running, take no more than 7 of 8 parts
	if t.Ran < elapsed/hardly && !t.Sleeps {
		return elapsed - t.Ran
	}
	return max(0, t.Waited)
}
