package cells

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// redQueue returns a manager with early detection on queue 2 of port 0, which holds depth cells.
func redQueue(t fataler, p REDParams, depth int) *Manager {
	t.Helper()
	params := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, 1), Seed: 7}
	params.Ports[0].Queues[2].RED = p
	m := newManager(t, params)
	if depth > 0 {
		m.Enqueue(0, 2, 0, depth)
	}
	return m
}

// share returns the fraction of n frames for which Early reports true.
func share(m *Manager, n int) float64 {
	hits := 0
	for range n {
		if m.Early(0, 2) {
			hits++
		}
	}
	return float64(hits) / float64(n)
}

// TestREDMarksByDepth uses the criteria of the Linux kernel's self-test of sch_red: nothing below
// 2/3 of the limit, at least 95 % above 3/2 of it.
func TestREDMarksByDepth(t *testing.T) {
	const limit = 300
	for depth, want := range map[int]float64{limit * 2 / 3: 0, limit * 3 / 2: 1} {
		if got := share(redQueue(t, REDParams{Min: limit, Max: limit + 1, Probability: 1}, depth),
			10_000); got != want {
			t.Errorf("depth %d, limit %d: %v marked, want %v", depth, limit, got, want)
		}
	}
}

// TestREDProbability compares the share of marked frames with the straight line from Min to Max.
func TestREDProbability(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := REDParams{Min: rapid.IntRange(0, 100).Draw(t, "min"), Probability: rapid.Float64Range(0, 1).Draw(t,
			"probability")}
		p.Max = p.Min + rapid.IntRange(1, 100).Draw(t, "width")
		depth := rapid.IntRange(0, 250).Draw(t, "depth")
		want := p.Probability * float64(depth-p.Min) / float64(p.Max-p.Min)
		switch {
		case depth < p.Min:
			want = 0
		case depth > p.Max:
			want = 1
		}
		const n = 20_000
		got := share(redQueue(t, p, depth), n)
		if allowed := 5*math.Sqrt(want*(1-want)/n) + 1e-4; math.Abs(got-want) > allowed { // five standard deviations
			t.Fatalf("%+v at depth %d: %v marked, want %v", p, depth, got, want)
		}
	})
}

// TestREDAcrossTakeOvers: chance goes on where it was, however often a manager takes over.
func TestREDAcrossTakeOvers(t *testing.T) {
	const n = 2000
	m, marked := redQueue(t, REDParams{Min: 10, Max: 20, Probability: 1}, 15), 0
	for range n {
		next := redQueue(t, REDParams{Min: 10, Max: 20, Probability: 1}, 0)
		next.TakeOver(m)
		if m = next; m.Early(0, 2) {
			marked++
		}
	}
	if marked < n*4/10 || marked > n*6/10 {
		t.Errorf("%d of %d frames marked, want half of them", marked, n)
	}
}

// TestREDAtItsEnds: at Min no frame is marked, nor below Max if the probability is 0. At Max and
// probability 1, each is.
func TestREDAtItsEnds(t *testing.T) {
	const n = 1 << 20 // chances are in 2^-16
	for _, c := range []struct {
		depth       int
		probability float64
		want        float64
	}{{10, 1, 0}, {15, 0, 0}, {20, 0, 0}, {20, 1, 1}, {21, 0, 1}} {
		p := REDParams{Min: 10, Max: 20, Probability: c.probability}
		if got := share(redQueue(t, p, c.depth), n); got != c.want {
			t.Errorf("depth %d, probability %v from 10 to 20: %v marked, want %v", c.depth, c.probability, got, c.want)
		}
	}
}

// TestRandom has the first numbers of Marsaglia's generator with the shifts 13, 7 and 17, from the
// seed in his paper.
func TestRandom(t *testing.T) {
	m := &Manager{state: 88172645463325252}
	for _, want := range []uint64{8748534153485358512, 3040900993826735515, 3453997556048239312} {
		if got := m.random(); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}

// TestREDSmoothing: a short burst is not congestion, a long one is. After n frames the smoothed
// depth is within (1 - 2^-s)^n of the actual one.
func TestREDSmoothing(t *testing.T) {
	m := redQueue(t, REDParams{Min: 50, Max: 50, Smoothing: 6}, 100)
	n := 0
	for !m.Early(0, 2) {
		n++
	}
	if want := math.Log(.5) / math.Log(1-1./64); math.Abs(float64(n)-want) > 2 {
		t.Errorf("half of the depth counts after %d frames, want %.0f", n, want)
	}
}

func TestREDRefusals(t *testing.T) {
	for _, p := range []REDParams{{}, {Min: 1, Max: 1}, {Max: maxCells, Probability: 1, Smoothing: maxSmoothing}} {
		redQueue(t, p, 0)
	}
	for _, p := range []REDParams{
		{Min: -1}, {Min: 2, Max: 1}, {Max: maxCells + 1}, {Max: 1, Probability: 1.1}, {Probability: -.1},
		{Probability: math.NaN()},
		{Smoothing: -1}, {Smoothing: maxSmoothing + 1},
	} {
		params := Params{CellSize: 160, Cells: 1, Ports: make([]PortParams, 1)}
		params.Ports[0].Queues[2].RED = p
		if _, err := NewManager(params); err == nil {
			t.Errorf("%+v: accepted", p)
		}
	}
}
