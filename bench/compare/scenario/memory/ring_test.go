package memory

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"sluice/bench/compare/bed"
	"sluice/bench/testkit/benchtest"
)

func TestScenarioRing(t *testing.T) {
	r := benchtest.Quick(t, Ring)
	for _, trial := range ringTrials() {
		for _, got := range benchtest.TrialsOf(t, r, trial.name, trial.metric()) {
			if got.Value <= 0 || got.Unit != "ns" {
				t.Errorf("%s, %s: %v %s", got.Name, got.Metric, got.Value, got.Unit)
			}
		}
	}
	benchtest.WantRatios(t, r, "vs_channel_one_core", "vs_channel_two_cores")
	if len(r.Plots) != 2 {
		t.Errorf("%d plots", len(r.Plots))
	}
	benchtest.SkipWithout(t, r, "rte_ring")
	for _, c := range r.Comparisons {
		benchtest.WantRatios(t, r, c.Name)
	}
	if !strings.HasPrefix(r.Machine.Versions[bed.DPDKTestProgram], "DPDK ") {
		t.Errorf("versions %v", r.Machine.Versions)
	}
}

func TestRTERingAbsent(t *testing.T) {
	t.Setenv("PATH", "")
	if _, _, err := bed.MeasureRTERing(t.Context(), [2]int{0, 1}); !errors.Is(err, bed.ErrAbsent) {
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
	want := map[bed.RTERing]float64{
		{Cores: 1, Kind: "single", Burst: 1, Bytes: 8}:  14.18,
		{Cores: 1, Kind: "burst", Burst: 32, Bytes: 16}: 64.25,
		{Cores: 2, Kind: "bulk", Burst: 8, Bytes: 8}:    14.72,
	}
	r := bed.RTERingReader{Figures: map[bed.RTERing]float64{}}
	for line := range strings.Lines(output) {
		r.Read(line)
	}
	if !maps.Equal(r.Figures, want) {
		t.Errorf("read %v, want %v", r.Figures, want)
	}
}
