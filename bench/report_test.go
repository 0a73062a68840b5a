package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

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
	} {
		given := append([]float64(nil), c.values...)
		got := Summarise(c.values)
		if !near(got.Median, c.want.Median) || got.Min != c.want.Min || got.Max != c.want.Max || !near(got.CV, c.want.CV) {
			t.Errorf("%v: %+v, not %+v", c.values, got, c.want)
		}
		for i := range given {
			if given[i] != c.values[i] {
				t.Fatalf("%v became %v", given, c.values)
			}
		}
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
