package memory

import (
	"math"
	"strings"
	"testing"
	"time"

	"sluice/bench/sim"
	"sluice/bench/testkit/benchtest"
	"sluice/bench/traffic/line"
	"sluice/internal/dataplane"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
)

func TestScenarioReaction(t *testing.T) {
	r := benchtest.Quick(t, Reaction)
	for _, trial := range benchtest.TrialsOf(t, r, reactionSluice, "max "+metricSteps) {
		if trial.Value != 1 || trial.Detail["crossings"] < 10 {
			t.Errorf("the PFC frame came %v steps later: %v", trial.Value-1, trial.Detail)
		}
		if few := trial.Detail["crossings"] < 1000; few != (len(r.Values(reactionSluice, "p99.9 "+metricSteps)) == 0) {
			t.Errorf("p99.9 of %v crossings: %v", trial.Detail["crossings"],
				r.Values(reactionSluice, "p99.9 "+metricSteps))
		}
	}
	for _, metric := range []string{metricLate, "max " + metricObeying} {
		for _, trial := range benchtest.TrialsOf(t, r, reactionSluice, metric) {
			if trial.Value != 0 {
				t.Errorf("%s: %v", metric, trial.Value)
			}
		}
	}
	benchtest.TrialsOf(t, r, reactionSluice, "p50 "+metricStopping)
	benchtest.TrialsOf(t, r, reactionSluice, "max "+metricSinceThen)
	benchtest.TrialsOf(t, r, reactionSluice, "max "+metricGap) // on a busy machine there are too few for more
	benchtest.TrialsOf(t, r, reactionSluice, "p50 "+metricGapRest)
	benchtest.WantRatios(t, r, "60_quanta_3028_in_flight_1518B")
	if len(r.Tables) != 2 || len(r.Plots) != 1 {
		t.Errorf("%d tables and %d plots", len(r.Tables), len(r.Plots))
	}
}

// TestWorkerThatDoesNotObey: a frame sent after an XOFF fails the trial.
func TestWorkerThatDoesNotObey(t *testing.T) {
	allowed, err := thread.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	x, err := runCrossings(t.Context(), allowed[0], 20*time.Millisecond, crossingPorts, func(p *dataplane.Params) {
		tuneCrossings(p)
		for i := range p.Ports {
			p.Ports[i].Receiver.Priorities = 0
		}
	})
	if err == nil || !strings.Contains(err.Error(), "frames were sent to a peer that had paused them") || x.late == 0 {
		t.Errorf("a worker that ignores PFC: %v", err)
	}
}

// TestObeyingLate has a port take frames of a class 300 ns after it received the XOFF for them, and
// after 500 ns.
func TestObeyingLate(t *testing.T) {
	memory, err := umem.Map(64, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for _, late := range []int64{0, 300, 500} {
		now := int64(0)
		x := newCrossings(func() int64 { return now })
		header := make([]byte, 18)
		header[14] = sim.LosslessCoS << 5
		p := receivingPartner{partner{Null: mem.NewNull(memory.Bytes(), 64, 60, header), crossings: x,
			memory: memory.Bytes()}}
		burst := make([]pmd.Desc, 64)
		step := func(at int64) {
			now, x.now = at, at
			x.steps++
			p.Fill([]uint64{0})
			p.Receive(burst)
		}
		const frame = 2048 // where a frame of the class is
		copy(memory.Bytes()[frame:], header)
		send := func(at int64) {
			now = at
			p.Transmit([]pmd.Desc{{Addr: frame, Len: 60}})
		}
		x.steps = crossingFlow
		step(100)
		send(150)
		step(200)
		if x.state != classRefused {
			t.Fatalf("state %d", x.state)
		}
		if late > 0 {
			send(200 + late)
		}
		x.enter(classStopped)
		x.steps += crossingLinger
		step(1000)
		if x.state != classResumed || x.obeying.Count() != 1 {
			t.Fatalf("state %d, %d times", x.state, x.obeying.Count())
		}
		sinceThen := 150 - 100.0 // from the previous poll
		if late > 0 {
			sinceThen = float64(200 + late - 100)
		}
		got, then := x.obeying.Quantile(1), x.sinceThen.Quantile(1)
		if got != float64(late) || math.Abs(then-sinceThen) > 1 || (x.late > 0) != (late > 0) {
			t.Errorf("%d ns late: %v ns, %v ns from the poll before, %d frames", late, got, then, x.late)
		}
	}
}

// TestGapsByCause: a sleep explains only the gap in which it happened.
func TestGapsByCause(t *testing.T) {
	g := gapTrial{all: new(line.Histogram), rest: new(line.Histogram)}
	g.record(5_000, gapRuntime)
	g.record(30_000, gapInterrupt)
	g.record(40_000, gapRuntime)
	g.record(200_000, gapThread)
	if g.all.Count() != 4 || g.rest.Count() != 3 {
		t.Errorf("%d gaps, %d without those of Go's runtime", g.all.Count(), g.rest.Count())
	}
	for cause, want := range [numGapCauses]int{1, 1, 1} {
		if got := g.causes[cause].count; got != want {
			t.Errorf("%s: %d gaps, want %d", gapCauseNames[cause], got, want)
		}
	}
}

// TestPauseResponse: no frame ends after the bound, and some end just before it.
func TestPauseResponse(t *testing.T) {
	for _, x := range []pauseResponse{{InFlight: 3028, Size: 1514}, {InFlight: 16 << 10, Size: 60},
		{InFlight: 16 << 10, Size: 1514}} {
		x.Pauses, x.Seed = 200, 1
		l, err := x.Run()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: p50 %.0f ns, max %.0f, bound %d", x, l.Quantile(.5), l.Quantile(1), x.Bound())
		if most := l.Quantile(1); most > float64(x.Bound()) || most < 0.75*float64(x.Bound()) {
			t.Errorf("%+v: at most %.0f ns, the bound is %d", x, most, x.Bound())
		}
	}
}
