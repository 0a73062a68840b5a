package compare

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a forwarder in virtual time. Frames beyond its capacity wait in its buffer; frames
// beyond the buffer are lost.
type model struct {
	capacity float64 // frames/s
	buffer   float64 // frames
	worse    float64 // additional frames lost for each frame in excess
	limit    float64 // frames/s that the generator can send; 0: any
	stalls   float64 // probability, per trial, that the generator stalls for a fiftieth of it
	seen     float64 // share of a trial's time that the trial reports as taken by other processes when they disturb it
	// probability, per second, that other processes take the CPU for a while and a hundredth of a
	// second's frames are lost
	others float64
	chance *rand.Rand

	trials  int
	elapsed time.Duration // of virtual time
	first   float64       // rate of the first trial
}

func (m *model) Measure(_ context.Context, rate float64, d time.Duration) (Load, error) {
	if m.trials++; m.trials == 1 {
		m.first = rate
	}
	m.elapsed += d
	l := Load{Offered: rate * d.Seconds()}
	if l.Sent = l.Offered; m.limit > 0 {
		l.Sent = min(l.Sent, m.limit*d.Seconds())
	}
	if m.stalls > 0 && m.chance.Float64() < m.stalls {
		l.Sent *= 0.98
	}
	excess := max(0, l.Sent-m.capacity*d.Seconds())
	l.Growing = excess > 0
	l.Received = max(0, l.Sent-(1+m.worse)*max(0, excess-m.buffer))
	if m.others > 0 && m.chance.Float64() < 1-math.Pow(1-m.others, d.Seconds()) {
		l.Received -= min(l.Received, 0.01*m.capacity)
		l.Disturbed = m.seen
	}
	l.Loss = (l.Sent - l.Received) / l.Sent
	return l, nil
}

// TestSearchFindsCapacity searches deterministic models. The NDR is their capacity, the PDR the
// rate at which they lose half a percent. Both are found to within the width and never above.
func TestSearchFindsCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := SearchParams{Min: 1000, Max: 1e7, Goals: []float64{0, 0.005}, Trial: time.Second}
		p.Width = rapid.Float64Range(0.001, 0.1).Draw(t, "width")
		p.Final = p.Trial * time.Duration(rapid.IntRange(1, 20).Draw(t, "final"))
		p.Sum = p.Final * time.Duration(rapid.IntRange(1, 5).Draw(t, "sum"))
		p.Exceed = rapid.Float64Range(0, 0.9).Draw(t, "exceed")
		m := &model{capacity: math.Exp(rapid.Float64Range(math.Log(1.01*p.Min), math.Log(p.Max)).Draw(t, "capacity"))}
		lossy := *m
		got, err := Search(t.Context(), p, func(ctx context.Context, rate float64, d time.Duration) (Load, error) {
			l, err := lossy.Measure(ctx, rate, d)
			l.Growing = false // otherwise there would be no PDR above the NDR
			return l, err
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, goal := range p.Goals {
			want := min(m.capacity/(1-goal), p.Max)
			rate := got.Goals[i].Rate
			if rate > want*(1+1e-9) || rate < want*(1-p.Width)*(1-1e-9) {
				t.Errorf("loss ratio %v: found %v of %v, to a width of %v", goal, rate, want, p.Width)
			}
			if bound := rate == p.Max; got.Goals[i].Bound != bound {
				t.Errorf("loss ratio %v: %v up to %v is a bound: %t", goal, rate, p.Max, !bound)
			}
		}
		if lossy.first != p.Max || lossy.trials > 250 {
			t.Errorf("first trial at %v; %d trials in all", lossy.first, lossy.trials)
		}
	})
}

// TestSearchGrowingQueues uses a buffer that hides any loss: only the guard finds the capacity.
func TestSearchGrowingQueues(t *testing.T) {
	m := &model{capacity: 5e5, buffer: math.Inf(1)}
	p := SearchParams{Min: 1, Max: 1e6, Goals: []float64{0, 0.005}, Trial: time.Second, Final: 4 * time.Second}
	got, err := Search(t.Context(), p, m.Measure)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range got.Goals {
		if f.Rate > m.capacity || f.Rate < 0.995*m.capacity {
			t.Errorf("goal %v: %v of %v", p.Goals[i], f.Rate, m.capacity)
		}
	}
}

// TestSearchLimits searches forwarders that keep up with everything or with nothing, and one behind
// a generator that is slower than it is.
func TestSearchLimits(t *testing.T) {
	for _, c := range []struct {
		what     string
		model    model
		min, max float64
		bound    bool
	}{
		{"as fast as Max", model{capacity: 2e6}, 1e6, 1e6, true},
		{"slower than Min", model{capacity: 50}, 0, 0, false},
		{"as fast as Min", model{capacity: 100}, 100, 100, false},
		{"the generator is slower", model{capacity: 2e6, limit: 3e5}, 0.98 * 3e5, 3e5 / (1 - 0.005), true},
		{"nothing arrives", model{}, 0, 0, false},
	} {
		p := SearchParams{Min: 100, Max: 1e6, Goals: []float64{0}, Trial: time.Second, Final: 3 * time.Second}
		got, err := Search(t.Context(), p, c.model.Measure)
		if err != nil {
			t.Fatal(err)
		}
		if f := got.Goals[0]; f.Rate < c.min || f.Rate > c.max*1.000001 || f.Bound != c.bound {
			t.Errorf("%s: %v, not from %v to %v; a bound: %t", c.what, f.Rate, c.min, c.max, f.Bound)
		}
	}
}

// TestSearchDoesNotBlameTheForwarder for a stalling generator: such trials are repeated.
func TestSearchDoesNotBlameTheForwarder(t *testing.T) {
	p := SearchParams{Min: 1000, Max: 1e6, Goals: []float64{0}, Trial: 200 * time.Millisecond, Final: time.Second,
		Attempts: 20}
	for seed := range uint64(50) {
		m := &model{capacity: 4e5, stalls: 0.3, chance: rand.New(rand.NewPCG(seed, 1))}
		got, err := Search(t.Context(), p, m.Measure)
		if err != nil {
			t.Fatal(err)
		}
		f := got.Goals[0]
		if f.Rate > m.capacity || f.Rate < 0.995*m.capacity || f.Bound || got.Discarded == 0 || got.Doubtful > 0 ||
			got.Trials != m.trials {
			t.Errorf("seed %d: %+v of %v after %d trials", seed, got, m.capacity, m.trials)
		}
	}
}

// TestSearchIsABoundOrRight where inconclusive trials can't be repeated.
func TestSearchIsABoundOrRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			capacity: math.Exp(rapid.Float64Range(math.Log(500), math.Log(2e6)).Draw(t, "capacity")),
			stalls:   rapid.Float64Range(0.01, 0.9).Draw(t, "stalls"),
			chance:   rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
		}
		p := SearchParams{Min: 1000, Max: 1e6, Goals: []float64{0}, Trial: time.Second}
		p.Final = p.Trial * time.Duration(rapid.IntRange(1, 5).Draw(t, "final"))
		p.Sum = p.Final * time.Duration(rapid.IntRange(1, 5).Draw(t, "sum"))
		p.Exceed = rapid.Float64Range(0, 0.9).Draw(t, "exceed")
		got, err := Search(t.Context(), p, m.Measure)
		if err != nil {
			t.Fatal(err)
		}
		f, want := got.Goals[0], m.capacity
		if want < p.Min {
			want = 0
		}
		if f.Rate > want || !f.Bound && f.Rate < 0.995*want || m.trials > 300 {
			t.Errorf("found %v of %v, a bound: %t, in %d trials", f.Rate, want, f.Bound, m.trials)
		}
	})
}

// TestSearchDoesNotBlameTheForwarderForOthers: a trial that fails while other processes have the
// CPU is repeated. If repeating does not help, the result is only a bound. The frames lost
// meanwhile are reported.
func TestSearchDoesNotBlameTheForwarderForOthers(t *testing.T) {
	p := SearchParams{Min: 1, Max: 1000, Goals: []float64{0}, Trial: time.Second}
	always := func(_ context.Context, rate float64, d time.Duration) (Load, error) {
		return Load{Offered: rate, Sent: rate, Received: rate / 2, Loss: 0.5, Disturbed: 1}, nil
	}
	got, err := Search(t.Context(), p, always)
	if f := got.Goals[0]; err != nil || f.Rate != 0 || !f.Bound || got.Doubtful == 0 || got.Lost != 0 {
		t.Errorf("nobody had a CPU: %+v (%v)", got, err)
	}
	p.Attempts = 20
	m := &model{capacity: 500, others: 0.5, seen: 0.1, chance: rand.New(rand.NewPCG(1, 1))}
	got, err = Search(t.Context(), p, m.Measure)
	if err != nil || got.Goals[0].Rate < 0.995*500 || got.Discarded == 0 || got.Lost < 4.99*float64(got.Discarded) ||
		got.Doubtful > 0 {
		t.Errorf("others had the CPU: %+v (%v)", got, err)
	}
	if f := got.Goals[0]; f.Trials == 0 || f.Loss > 0 || f.Received != f.Offered || f.Disturbed > 0 {
		t.Errorf("what decided: %+v", f)
	}
}

// TestSearchAmongOthers disturbs trials at random. If one trial decides, the search often finds too
// little; with a majority of five it does not, and it never finds too much.
func TestSearchAmongOthers(t *testing.T) {
	const capacity, searches = 4e5, 200
	p := SearchParams{Min: 1000, Max: 1e6, Goals: []float64{0}, Trial: 200 * time.Millisecond, Final: time.Second}
	majority := p
	majority.Sum, majority.Exceed = 5*time.Second, 0.5
	low := func(p SearchParams) (n int) {
		for seed := range uint64(searches) {
			m := &model{capacity: capacity, worse: 0.1, others: 0.1, chance: rand.New(rand.NewPCG(seed, 1))}
			got, err := Search(t.Context(), p, m.Measure)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			rate := got.Goals[0].Rate
			if rate > capacity || m.elapsed > 3*time.Minute {
				t.Errorf("seed %d: found %v of %v after %v", seed, rate, capacity, m.elapsed)
			}
			if rate < (1-0.005)*capacity {
				n++
			}
		}
		return n
	}
	one, several := low(p), low(majority)
	t.Logf("seeds 0 to %d: too low in %d searches of %d; by majority in %d", searches-1, one, searches, several)
	if several > searches/20 || one < 4*several {
		t.Errorf("too low in %d searches of %d, by majority in %d", one, searches, several)
	}
}

func TestSearchRefuses(t *testing.T) {
	good := SearchParams{Min: 1, Max: 10, Goals: []float64{0}, Trial: time.Second}
	for want, spoil := range map[string]func(p *SearchParams){
		"rates above 0":          func(p *SearchParams) { p.Min = 0 },
		"the lower one first":    func(p *SearchParams) { p.Max = 0.5 },
		"a width of":             func(p *SearchParams) { p.Width = -1 },
		"none may be shorter":    func(p *SearchParams) { p.Final = time.Millisecond },
		"trials of 0s":           func(p *SearchParams) { p.Trial = 0 },
		"in all 1s":              func(p *SearchParams) { p.Final, p.Sum = 2*time.Second, time.Second },
		"without a goal":         func(p *SearchParams) { p.Goals = nil },
		"a loss ratio of 1":      func(p *SearchParams) { p.Goals = []float64{1} },
		"a loss ratio of NaN":    func(p *SearchParams) { p.Goals = []float64{math.NaN()} },
		"a share of 1 of the":    func(p *SearchParams) { p.Exceed = 1 },
		"search from NaN to 10:": func(p *SearchParams) { p.Min = math.NaN() },
	} {
		p := good
		spoil(&p)
		if _, err := Search(t.Context(), p, (&model{}).Measure); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// TestSearchStops ends with the error that stops the search.
func TestSearchStops(t *testing.T) {
	p := SearchParams{Min: 1, Max: 10, Goals: []float64{0}, Trial: time.Second}
	broken := errors.New("broken")
	_, err := Search(t.Context(), p, func(context.Context, float64, time.Duration) (Load, error) {
		return Load{},
			broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	_, err = Search(t.Context(), p, func(context.Context, float64, time.Duration) (Load, error) { return Load{}, nil })
	if err == nil || !strings.Contains(err.Error(), "nothing was offered") {
		t.Errorf("nothing offered: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := &model{capacity: 5}
	_, err = Search(ctx, p, func(ctx context.Context, rate float64, d time.Duration) (Load, error) {
		if m.trials == 3 {
			cancel()
		}
		return m.Measure(ctx, rate, d)
	})
	if !errors.Is(err, context.Canceled) || m.trials != 4 {
		t.Errorf("%v after %d trials", err, m.trials)
	}
}
