package bench

import "testing"

func TestScenarioReaction(t *testing.T) {
	r := quick(t, reactionScenario)
	for _, trial := range trialsOf(t, r, reactionSluice, metricSteps) {
		if trial.Value != 1 || trial.Detail["crossings"] < 10 {
			t.Errorf("the PFC frame came %v steps later: %v", trial.Value-1, trial.Detail)
		}
	}
	for _, trial := range trialsOf(t, r, reactionSluice, metricLate) {
		if trial.Value != 0 {
			t.Errorf("%v frames were sent to a peer that had stopped them", trial.Value)
		}
	}
	trialsOf(t, r, reactionSluice, "p50 "+metricTold)
	trialsOf(t, r, reactionSluice, "max "+metricHeard)
	trialsOf(t, r, reactionSluice, "max "+metricGap) // on a busy machine there are too few for more
	trialsOf(t, r, reactionSluice, "p50 "+metricGapRest)
	wantRatios(t, r, "same_step", "60_quanta_3028_in_flight_1518B")
	if len(r.Tables) != 2 || len(r.Plots) != 1 {
		t.Errorf("%d tables and %d plots", len(r.Tables), len(r.Plots))
	}
}

// TestPauseResponse: no frame ends later than the bound says, and some end almost as late.
func TestPauseResponse(t *testing.T) {
	for _, x := range []pauseResponse{{InFlight: 3028, Size: 1514}, {InFlight: 16 << 10, Size: 60}, {InFlight: 16 << 10, Size: 1514}} {
		x.Pauses, x.Seed = 200, 1
		l, err := x.Run()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: p50 %.0f ns, max %.0f, bound %d", x, l.At(.5), l.At(1), x.Bound())
		if most := l.At(1); most > float64(x.Bound()) || most < 0.75*float64(x.Bound()) {
			t.Errorf("%+v: at most %.0f ns, the bound is %d", x, most, x.Bound())
		}
	}
}
