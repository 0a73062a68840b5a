package bench

import (
	"errors"
	"maps"
	"strings"
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
	if len(r.Plots) != 2 {
		t.Errorf("%d plots", len(r.Plots))
	}
	skipWithout(t, r, "rte_ring")
	for _, c := range r.comparisons {
		wantRatios(t, r, c.name)
	}
	if !strings.HasPrefix(r.Machine.Versions[dpdkTestProgram], "DPDK ") {
		t.Errorf("versions %v", r.Machine.Versions)
	}
}

func TestRTERingAbsent(t *testing.T) {
	t.Setenv("PATH", "")
	if _, _, err := measureRTERing(t.Context(), [2]int{0, 1}); !errors.Is(err, ErrAbsent) {
		t.Errorf("without the program: %v", err)
	}
}

func TestRTERingReader(t *testing.T) {
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
	r := rteRingReader{figures: map[rteRing]float64{}}
	for line := range strings.Lines(output) {
		r.read(line)
	}
	if !maps.Equal(r.figures, want) {
		t.Errorf("read %v, want %v", r.figures, want)
	}
}
