package bench

import (
	"errors"
	"maps"
	"testing"
)

func TestScenarioRing(t *testing.T) {
	r := quick(t, ringScenario)
	for _, trial := range ringTrials() {
		for _, got := range trialsOf(t, r, trial.name, trial.metric()) {
			if got.Value <= 0 || got.Unit != "ns" {
				t.Errorf("%s, %s: %v %s", got.Name, got.Metric, got.Value, got.Unit)
			}
		}
	}
	wantRatios(t, r, "vs_channel_one_core", "vs_channel_two_cores")
	skipWithout(t, r, "rte_ring")
	for _, name := range []string{"one_core_1_16B", "one_core_32_16B", "one_core_32_8B", "bulk_one_core_32_16B"} {
		wantRatios(t, r, "vs_rte_ring_"+name)
	}
}

func TestRTERingAbsent(t *testing.T) {
	t.Setenv("PATH", "")
	if _, err := measureRTERing(t.Context(), [2]int{0, 1}); !errors.Is(err, ErrAbsent) {
		t.Errorf("without the program: %v", err)
	}
}

func TestParseRTERing(t *testing.T) {
	const output = `
### Testing single element enq/deq ###
legacy APIs: SP/SC: single: 14.18
legacy APIs: MP/MC: single: 20.28

### Testing burst enq/deq ###
elem APIs: element size 16B: SP/SC: burst (size: 32): 64.25
### Testing empty bulk deq ###
legacy APIs: SP/SC: bulk (size: 8): 9.85
### Testing using two physical cores ###
legacy APIs: SP/SC: bulk (size: 8): 14.72
### Testing using all worker nodes ###
legacy APIs: SP/SC: bulk (size: 8): 1
`
	want := map[rteRing]float64{
		{1, "single", 1, 8}: 14.18, {1, "burst", 32, 16}: 64.25, {2, "bulk", 8, 8}: 14.72,
	}
	if got := parseRTERing([]byte(output)); !maps.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}
