package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSummarise(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Summary
	}{
		{[]float64{7}, Summary{7, 7, 7, 0}},
		{[]float64{3, 1, 2}, Summary{2, 1, 3, 0.5}},                         // mean 2, variance (1+0+1)/2 = 1
		{[]float64{4, 1, 3, 2}, Summary{2.5, 1, 4, math.Sqrt(5.0/3) / 2.5}}, // variance 5/3
		{[]float64{2, 4, 4, 4, 5, 5, 7, 9}, Summary{4.5, 2, 9, math.Sqrt(32.0/7) / 5}},
		{[]float64{-2, -4}, Summary{-3, -4, -2, math.Sqrt2 / 3}},
		{[]float64{0, 0}, Summary{}},
		{nil, Summary{}},
	} {
		given := append([]float64(nil), c.values...)
		got := Summarise(c.values)
		if !near(got.Median, c.want.Median) || got.Min != c.want.Min || got.Max != c.want.Max ||
			!near(got.CV, c.want.CV) {
			t.Errorf("%v: %+v, not %+v", c.values, got, c.want)
		}
		for i := range given {
			if given[i] != c.values[i] {
				t.Fatalf("%v became %v", given, c.values)
			}
		}
	}
}

// someReport returns the report of a scenario with known figures: the subject is 2, 3 and 1 times
// as fast as the peer, and takes 50, 40 and 50 ns where the limit is 45.
func someReport(t *testing.T) *Report {
	t.Helper()
	s := Scenario{Name: "some", OneCPU: true, Shows: "what a report looks like",
		Run: func(_ context.Context, _ Options, r *Report) error {
			r.Compare("vs_peer_64B", "rate 64 B", "subject", "peer", Higher)
			r.Compare("vs_peer_time", "time", "subject", "peer", Lower)
			r.Compare("vs_nobody", "rate 64 B", "subject", "nobody", Higher)
			r.Limit("vs_limit_45ns", "time", "subject", 45, Lower)
			for round, rate := range []float64{2e6, 3e6, 1e6} {
				detail := map[string]float64{"seconds": 2, "offered": 4e6}
				r.Add(Trial{Name: "peer", Metric: "rate 64 B", Unit: "packets/s", Round: 2 - round, Value: 1e6})
				r.Add(Trial{Name: "subject", Metric: "rate 64 B", Unit: "packets/s", Round: round, Value: rate,
					Detail: detail})
				r.Add(Trial{Name: "subject", Metric: "time", Unit: "ns", Round: round,
					Value: []float64{50, 40, 50}[round]})
			}
			r.Add(Trial{Name: "peer", Metric: "time", Unit: "ns", Round: 1, Value: 2e3})
			r.Missing("nobody", "it is not installed")
			r.Table(Table{Title: "A table", Head: []string{"N", "lost"}, Rows: [][]string{{"2", "a|b"}, {"4", "0"}}})
			r.Plot(Plot{Name: "rates", Title: "Rates", X: "round", Y: "packets/s",
				Series: []Series{{"subject", [][2]float64{{0, 2e6}, {1, 3e6}}}}})
			r.Note("Nothing is shown but %s:\n\n    a: b\n    c: [d]", "this")
			return nil
		}}
	r, err := Run(t.Context(), s, Options{Seed: 7, Trials: 3, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	r.Machine = Machine{CPU: "some CPU", Cores: 2, Kernel: "6.1", Versions: map[string]string{"peer": "1.0",
		"sluice": "v1"}}
	r.Settings.CPUs = [2]int{0, 1}
	return r
}

func TestRatios(t *testing.T) {
	r := someReport(t)
	if len(r.Results) != 4 || r.Results[1].Name != "subject" || r.Results[1].Median != 2e6 || r.Results[0].CV != 0 {
		t.Errorf("results %+v", r.Results)
	}
	if len(r.Ratios) != 3 {
		t.Errorf("ratios %+v", r.Ratios)
	}
	for name, want := range map[string][]float64{
		"vs_peer_64B": {2, 3, 1}, "vs_peer_time": {50}, "vs_limit_45ns": {0.9, 1.125, 0.9},
	} {
		got := r.Ratios[name]
		if !slices.EqualFunc(got.Pairs, want, near) || got.Summary != Summarise(want) {
			t.Errorf("%s: %+v, not %v", name, got, want)
		}
	}
}

// TestRatiosOfRandomTrials: a ratio pairs values of the same round, whatever the order of the
// trials. Swapping subject and peer gives the reciprocals, and so does swapping the direction.
func TestRatiosOfRandomTrials(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rounds := rapid.IntRange(1, 12).Draw(t, "rounds")
		values := rapid.SliceOfN(rapid.Float64Range(0.1, 1e9), 2*rounds, 2*rounds).Draw(t, "values")
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range values {
				yield(i)
			}
		})).Draw(t, "order")
		r := &Report{Ratios: map[string]Ratio{}}
		for _, i := range order {
			r.Add(Trial{Name: []string{"a", "b"}[i%2], Metric: "m", Round: i / 2, Value: values[i]})
		}
		r.Compare("a/b", "m", "a", "b", Higher)
		r.Compare("b/a", "m", "b", "a", Higher)
		r.Compare("a/b lower", "m", "a", "b", Lower)
		r.summarise()
		for i, pairs := range [][]float64{r.Ratios["a/b"].Pairs, r.Ratios["b/a"].Pairs, r.Ratios["a/b lower"].Pairs} {
			var want []float64
			for round := range rounds {
				a, b := values[2*round], values[2*round+1]
				want = append(want, []float64{a / b, b / a, b / a}[i])
			}
			if got := slices.Sorted(slices.Values(pairs)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Fatalf("%v, not %v", pairs, want)
			}
		}
	})
}

// TestEqual: a value above the target scores like one below it.
func TestEqual(t *testing.T) {
	for _, c := range []struct{ got, want, good float64 }{{4, 4, 1}, {5, 4, 0.8}, {3.2, 4, 0.8}, {0, 4, 0}} {
		if good := Equal.times(c.got, c.want); !near(good, c.good) {
			t.Errorf("%v of %v: %v, not %v", c.got, c.want, good, c.good)
		}
	}
}

// TestNothingIsShown checks that tables and plots without data are left out.
func TestNothingIsShown(t *testing.T) {
	r := &Report{}
	r.Table(Table{Title: "empty", Head: []string{"a"}})
	r.Plot(Plot{Name: "empty", Series: []Series{{Name: "a"}, {Name: "b", Points: [][2]float64{{1, math.NaN()}}}}})
	if len(r.Tables)+len(r.Plots) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestNoFigureIsInvented: values that are not finite are left out and noted.
func TestNoFigureIsInvented(t *testing.T) {
	r := &Report{Ratios: map[string]Ratio{}}
	r.Add(Trial{Name: "a", Metric: "m", Value: math.NaN()})
	r.Add(Trial{Name: "a", Metric: "m", Round: 1, Value: 3, Detail: map[string]float64{"x": math.Inf(1), "y": 1}})
	r.Add(Trial{Name: "a", Metric: "m", Round: 2, Value: 4})
	r.Add(Trial{Name: "b", Metric: "m", Round: 1, Value: 0})
	r.Add(Trial{Name: "b", Metric: "m", Round: 2, Value: 2})
	r.Plot(Plot{Name: "p", Series: []Series{{"s", [][2]float64{{1, math.Inf(-1)}, {2, 2}}}}})
	r.Compare("a/b", "m", "a", "b", Higher)
	r.summarise()
	if len(r.Trials) != 4 || len(r.Trials[0].Detail) != 1 || !slices.Equal(r.Ratios["a/b"].Pairs, []float64{2}) ||
		len(r.Plots[0].Series[0].Points) != 1 {
		t.Errorf("%+v", r)
	}
	if len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "no value (NaN)") ||
		!strings.Contains(r.Notes[1], "division by 0") {
		t.Errorf("%q", r.Notes)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// TestReportAsJSON checks the field names that others rely on, and that a round trip loses nothing.
func TestReportAsJSON(t *testing.T) {
	r := someReport(t)
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"scenario":"some"`,
		`"machine":{"cpu":"some CPU","cores":2,"kernel":"6.1","versions":{"peer":"1.0","sluice":"v1"}}`,
		`"seed":7`, `"partial":false`, `"absent":{"nobody":"it is not installed"}`,
		`{"name":"subject","metric":"rate 64 B","unit":"packets/s","round":0,` +
			`"value":2000000,"detail":{"offered":4000000,"seconds":2}}`,
		`{"name":"subject","metric":"rate 64 B","unit":"packets/s",` +
			`"median":2000000,"min":1000000,"max":3000000,"cv":0.5}`,
		`"vs_peer_64B":{`, `"median":2,"min":1,"max":3,"cv":0.5,"pairs":[2,3,1]}`,
		`"notes":["Nothing is shown but this:\n\n    a: b\n    c: [d]"]`,
	} {
		if !bytes.Contains(encoded, []byte(want)) {
			t.Errorf("no %s in\n%s", want, encoded)
		}
	}
	var back Report
	if err := json.Unmarshal(encoded, &back); err != nil {
		t.Fatal(err)
	}
	r.Comparisons = nil
	if !reflect.DeepEqual(*r, back) {
		t.Errorf("%+v\nbecame\n%+v", *r, back)
	}
}

func TestMachineNamesNobody(t *testing.T) {
	m := thisMachine()
	encoded, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if m.Cores < 1 || m.CPU == "unknown" || m.Kernel == "unknown" || bytes.Contains(encoded, []byte(`"`+host+`"`)) {
		t.Errorf("%s", encoded)
	}
}

// TestBoundsMakeNoRatio: a lower bound enters no ratio.
func TestBoundsMakeNoRatio(t *testing.T) {
	s := Scenario{Name: "some", Run: func(_ context.Context, _ Options, r *Report) error {
		r.Compare("vs_peer", "rate", "subject", "peer", Higher)
		for round, bound := range [][2]bool{{false, false}, {true, false}, {false, true}, {false, false}} {
			r.Add(Trial{Name: "subject", Metric: "rate", Round: round, Value: float64(10 * (round + 1)),
				Bound: bound[0]})
			r.Add(Trial{Name: "peer", Metric: "rate", Round: round, Value: 10, Bound: bound[1]})
		}
		return nil
	}}
	r, err := Run(t.Context(), s, Options{})
	if got := r.Ratios["vs_peer"]; err != nil || !slices.Equal(got.Pairs, []float64{1, 4}) || got.LeftOut != 2 {
		t.Errorf("%+v (%v)", got, err)
	}
	for _, want := range []string{"| subject | rate | ≥ 25 |", "1 4 (and 2 left out"} {
		if text := string(r.Markdown()); !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
