package thread

import "testing"

func TestFrequency(t *testing.T) {
	for cpuinfo, want := range map[string]float64{
		"flags\t\t: fpu constant_tsc\nbogomips\t: 5000.50\nclflush size\t: 64\n": 2500.25e6,
		"flags\t\t: fpu tsc\nbogomips\t: 5000.50\n":                              0, // not constant
		"flags\t\t: constant_tsc\nbogomips\t: many\n":                            0,
		"Features\t: fp asimd\n":                                                 0,
		"":                                                                       0,
	} {
		if got := frequencyIn(cpuinfo); got != want {
			t.Errorf("%q: %g, want %g", cpuinfo, got, want)
		}
	}
}
