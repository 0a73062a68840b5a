package pfc

import (
	"math"
	"math/rand/v2"
	"testing"
)

// partner pauses priority 3 again and again. It tells the truth about itself: closed and open are
// what it did, whatever the port's worker saw of it.
type partner struct {
	cycles func() (closed, open int64) // ns of the next pause, and ns until the one after that
	single bool                        // one XOFF for all of a pause, which runs out; else refreshed, with XON
	speed  uint64
	at     int64     // when the next pause begins
	frames []arrival // of the last pause, to come
	spans  []span    // pauses so far
}

type span struct{ from, to int64 }

// next returns when the partner's next frame arrives.
func (p *partner) next() int64 {
	if len(p.frames) == 0 {
		closed, open := p.cycles()
		end := p.at + closed
		if p.single {
			quanta := uint16(closed * int64(p.speed) / QuantumBits / 1e9)
			end = p.at + pauseTime(quanta, p.speed)
			p.frames = append(p.frames, arrival{p.at, *tell(3, quanta)})
		} else {
			p.frames = pausing(8, p.at, end)
		}
		p.spans = append(p.spans, span{p.at, end})
		p.at = end + open
	}
	return p.frames[0].at
}

// leastOpen returns the smallest share of any stretch of so many ns in which it did not pause.
func (p *partner) leastOpen(ns int64) float64 {
	least := 1.0
	for i, first := range p.spans { // the worst stretch begins with a pause, or ends with one
		for _, from := range []int64{first.from, first.to - ns} {
			closed := int64(0)
			for _, s := range p.spans[max(0, i-2000):min(len(p.spans), i+2000)] {
				closed += max(0, min(s.to, from+ns)-max(s.from, from))
			}
			if from >= 0 && from+ns <= p.at {
				least = min(least, 1-float64(closed)/float64(ns))
			}
		}
	}
	return least
}

// worker runs a port's receiver and watchdog in iterations of up to 50 µs. It is frozen at random
// times, before or after it reads frames, and reads only some at a time.
type worker struct {
	*rand.Rand
	receiver *Receiver
	watchdog *Watchdog
	freeze   func() (after, ns int64) // nil: never
	clock    int64
	thaw     int64 // when the next freeze begins
	first    int64 // when the first storm began; never: not yet
}

func newWorker(t *testing.T, rng *rand.Rand, speed uint64) *worker {
	return &worker{
		Rand: rng, receiver: newReceiver(t, 0xff, speed), first: never,
		watchdog: newWatchdog(t, WatchdogParams{Priorities: 0xff, Detection: detection, Restoration: restoration,
			Action: Drop, Seed: rng.Uint64()}),
	}
}

func (w *worker) stall() {
	if w.freeze == nil || w.clock < w.thaw {
		return
	}
	after, ns := w.freeze()
	w.clock += ns
	w.thaw = w.clock + after
}

func (w *worker) run(p *partner, until int64) {
	for w.clock < until {
		now, before := w.clock, w.IntN(2) == 0
		if before {
			w.stall()
		}
		for range 1 + w.IntN(2) { // passes
			for n := 0; n < 32 && p.next() <= w.clock; n++ {
				w.receiver.ReceiveLate(now, w.clock-now, &p.frames[0].f)
				p.frames = p.frames[1:]
			}
			s := Sight{Paused: w.receiver.Paused(now), Resumed: w.receiver.Resumed(), Waiting: 8}
			if w.watchdog.Observe(now, s) != 0 {
				w.first = min(w.first, now)
			}
		}
		if !before {
			w.stall()
		}
		w.clock += 1 + w.Int64N(50_000)
	}
}

// between draws from a range evenly by magnitude.
func between(rng *rand.Rand, low, high int64) int64 {
	return int64(float64(low) * math.Pow(float64(high)/float64(low), rng.Float64()))
}

// open are the cycles of a partner that stays open for at least 1 % of each detection time.
func open(rng *rand.Rand) func() (closed, open int64) {
	longest, most := between(rng, millisecond, detection*97/100), between(rng, 1, 40)
	return func() (int64, int64) {
		closed := between(rng, millisecond/2, longest)
		return closed, max(200_000, closed/50, longest/50, closed*rng.Int64N(most+1)/20)
	}
}

// shut are the cycles of one that is open for at most 0.5 % of the time.
func shut(rng *rand.Rand) func() (closed, open int64) {
	longest := between(rng, 20_000, 10*detection)
	return func() (int64, int64) {
		closed := between(rng, 10_000, longest)
		open := rng.Int64N(closed/200 + 1)
		if open < 100_000 { // XON for less than an iteration or two
			open = 0
		}
		return closed, open
	}
}

// freezes are stalls of up to most ns each.
func freezes(rng *rand.Rand, most int64) func() (after, ns int64) {
	mean := between(rng, millisecond, 500*millisecond)
	return func() (int64, int64) { return rng.Int64N(2 * mean), between(rng, millisecond, most) }
}

// TestOpenPartnerIsNoStorm: a partner that lets frames out for at least 1 % of each detection time
// is never in a storm, however the worker is frozen.
func TestOpenPartnerIsNoStorm(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := &partner{cycles: open(rng), single: seed%3 == 0, speed: 10 * gigabit}
		if p.single {
			p.speed = gigabit / 10 // a pause may last 335 ms
		}
		w := newWorker(t, rng, p.speed)
		if seed%4 > 0 {
			w.freeze = freezes(rng, 10_000*millisecond)
		}
		w.run(p, 20_000*millisecond)
		if least := p.leastOpen(detection); least < 0.01 {
			t.Fatalf("seed %d: the partner was open for %f of a detection time: the test tests nothing", seed, least)
		} else if w.first != never {
			t.Errorf("seed %d: storm at %d, though the partner was open for %f of each detection time", seed, w.first,
				least)
		}
	}
}

// TestShutPartnerIsFound: a partner that lets frames out for at most 0.5 % of the time is in a
// storm within 3 detection times.
func TestShutPartnerIsFound(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := &partner{cycles: shut(rng), speed: 10 * gigabit}
		w := newWorker(t, rng, p.speed)
		w.run(p, 4*detection)
		if w.first < detection || w.first > 3*detection+millisecond {
			t.Errorf("seed %d: storm at %d, want within 3 times %d ns", seed, w.first, detection)
		}
	}
}

// TestFrozenWorkerFindsAStorm: a partner that never resumes is found by a worker that is frozen for
// half of the time, and often for longer than a pause lasts.
func TestFrozenWorkerFindsAStorm(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := &partner{cycles: func() (int64, int64) { return 100 * detection, 0 }, speed: 10 * gigabit}
		w := newWorker(t, rng, p.speed)
		w.freeze = func() (after, ns int64) { return rng.Int64N(20 * millisecond), rng.Int64N(20 * millisecond) }
		if w.run(p, 20*detection); w.first > 4*detection {
			t.Errorf("seed %d: storm at %d", seed, w.first)
		}
	}
}

// TestStormEnds: the storm of a partner that is open for at least 1 % of each detection time again
// ends within two of them and the restoration time, and no other begins.
func TestStormEnds(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		p := &partner{cycles: shut(rng), speed: 10 * gigabit}
		w := newWorker(t, rng, p.speed)
		from := 4*detection + rng.Int64N(10*detection)
		w.run(p, from)
		p.frames, p.at, p.cycles = nil, w.clock, open(rng)
		w.run(p, w.clock+20*detection)
		s := w.watchdog.Stats(w.clock)
		e := s.History.All()
		if last := e[len(e)-1]; last.Storming || s.Storms[3] != 1 ||
			last.At > from+2*detection+restoration+millisecond {
			t.Errorf("seed %d: open from %d on, %+v", seed, from, e)
		}
	}
}

// TestJitter: each storm is detected within a sixteenth of the detection time after it, at another
// time for each seed, priority and storm, but always the same for the same ones. Of three switches
// that stop each other in a circle, one is the first by 100 µs.
func TestJitter(t *testing.T) {
	const most = detection + detection/16
	p := WatchdogParams{Priorities: 0xff, Detection: detection, Restoration: restoration, Action: Drop}
	storms := func(seed uint64) []StormEvent {
		p.Seed = seed
		w := newWatchdog(t, p)
		watch(w, 0, 2*detection, 20_000, Sight{Paused: 0x0c, Waiting: 0x0c})
		w.Reset(2 * detection)
		watch(w, 2*detection, 4*detection, 20_000, Sight{Paused: 0x0c, Waiting: 0x0c})
		s := w.Stats(4 * detection)
		e := s.History.All()
		for i, want := range []bool{true, true, false, false, true, true} {
			at := e[i].At % (2 * detection)
			if e[i].Storming != want || want && (at < detection || at > most+20_000) {
				t.Fatalf("seed %d: %+v", seed, e)
			}
		}
		return e
	}
	close := 0
	for seed := uint64(1); seed <= 300; seed += 3 {
		first, second := int64(never), int64(never)
		for s := range uint64(3) {
			e := storms(seed + s)
			if e[0].At == e[4].At-2*detection && e[0].At == e[1].At {
				t.Errorf("seed %d: no jitter: %+v", seed+s, e)
			}
			if again := storms(seed + s); again[0] != e[0] || again[4] != e[4] {
				t.Errorf("seed %d: %+v, then %+v", seed+s, e, again)
			}
			for _, storm := range e[:2] {
				if storm.Priority == 3 {
					first, second = min(first, storm.At), min(second, max(first, storm.At))
				}
			}
		}
		if second-first < 100_000 {
			close++
		}
	}
	if close > 10 {
		t.Errorf("%d of 100 circles had two first switches", close)
	}
}
