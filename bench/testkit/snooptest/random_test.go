package snooptest_test

import (
	"flag"
	"strings"
	"testing"

	"sluice/bench/testkit/snooptest"
)

var (
	seeds  = flag.Int("snoop.seeds", 20, "how many random sequences")
	first  = flag.Uint64("snoop.seed", 1, "seed of the first one")
	events = flag.Int("snoop.events", 5000, "events in each")
)

// TestRandom: engine and model agree after each of 10^5 events.
func TestRandom(t *testing.T) {
	reasons, standing := map[string]int{}, map[int]int{}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		p := newPair()
		p.seldom = 8
		traffic := snooptest.NewTraffic(seed, p.model)
		var all []snooptest.Event
		for range *events {
			e := traffic.Next(p.now)
			all = append(all, e)
			d := p.apply(e)
			if e.Kind == snooptest.Receives {
				reasons[p.reason]++
			}
			standing[len(p.engine.Links())]++
			if d != "" {
				short := shrink(all)
				t.Fatalf("seed %d, event %d, shrunk to %d events:\n%s\n%s", seed, len(all), len(short), show(short),
					disagreement(short))
			}
		}
	}
	t.Log("from seed ", *first, ": events by result ", reasons, ", by standing links ", standing)
}

// disagreement replays events and returns the first disagreement.
func disagreement(of []snooptest.Event) string {
	p := newPair()
	for _, e := range of {
		if d := p.apply(e); d != "" {
			return d
		}
	}
	return ""
}

// shrink leaves out events as long as engine and model still disagree.
func shrink(all []snooptest.Event) []snooptest.Event {
	for size := len(all) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(all); {
			// The time of what is left out passes still, if that is possible.
			var passes int64
			for _, e := range all[i : i+size] {
				passes += e.Step
			}
			without := append(append([]snooptest.Event{}, all[:i]...), all[i+size:]...)
			if i < len(without) {
				without[i].Step += passes
			}
			if disagreement(without) != "" {
				all = without
			} else {
				i += size
			}
		}
	}
	return all
}

func show(all []snooptest.Event) string {
	var lines []string
	for _, e := range all {
		lines = append(lines, e.String())
	}
	return strings.Join(lines, "\n")
}
