package memory

import (
	"testing"
	"time"

	"sluice/bench/testkit/benchtest"
	"sluice/sched"
)

func TestScenarioSched(t *testing.T) {
	r := benchtest.Quick(t, Schedule)
	for _, size := range schedSizes {
		for _, trial := range benchtest.TrialsOf(t, r, size.String(), schedMetric) {
			if trial.Detail["frames"] < 1000 || trial.Detail["seconds"] <= 0 {
				t.Errorf("%v: %v", size, trial.Detail)
			}
		}
	}
	if len(r.Plots) != 1 || len(r.Plots[0].Series) != 3 {
		t.Errorf("plots %+v", r.Plots)
	}
	benchtest.WantRatios(t, r, "8_queues_vs_1", "8_groups_vs_1", "64_ports_vs_1", "all_vs_1")
}

// TestSchedLoad: dequeued frames return, and no queue runs empty, for schedulers of any size.
func TestSchedLoad(t *testing.T) {
	for _, size := range schedSizes {
		b, err := newSchedLoad(size, 1)
		if err != nil {
			t.Fatal(err)
		}
		before := b.waiting()
		b.Measure(t.Context(), time.Millisecond)
		if after := b.waiting(); before != after || before < schedFrames*9/10 {
			t.Errorf("%v: %d frames before, %d after", size, before, after)
		}
		for _, s := range b.ports {
			if got, want := int(s.Backlogged()), 1<<size.queues-1; got != want {
				t.Errorf("%v: queues %#b have frames, want %#b", size, got, want)
			}
		}
	}
}

// waiting counts the queued frames.
func (b *schedLoad) waiting() (n int) {
	for _, s := range b.ports {
		for q := range sched.Queues {
			n += s.Frames(q)
		}
	}
	return n
}
