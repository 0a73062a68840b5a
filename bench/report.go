package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// Report is the result of a scenario.
type Report struct {
	Scenario string            `json:"scenario"`
	Machine  Machine           `json:"machine"`
	Absent   map[string]string `json:"absent,omitempty"` // forwarders that were not measured, and why
	Trials   []Trial           `json:"trials"`           // in the order of measurement
	Results  []Result          `json:"results"`
	Ratios   map[string]Ratio  `json:"ratios"` // of the first forwarder to each of the others, by "a/b 64 B"
}

// Machine is what figures depend on.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Kernel   string            `json:"kernel"`
	Versions map[string]string `json:"versions"`
}

// Trial is one measurement.
type Trial struct {
	Forwarder string  `json:"forwarder"`
	Length    int     `json:"length"` // of the frames, bytes without FCS
	Round     int     `json:"round"`  // from 0; trials of the same round and length make a pair
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"rate"`      // forwarded, packets/s
	Offered   float64 `json:"offered"`   // sent by the generator, packets/s; near Rate, it is the generator that was measured
	Disturbed float64 `json:"disturbed"` // share of the time in which the forwarder or the generator had no CPU
	Attempts  int     `json:"attempts"`  // of which this was the one disturbed least
}

// Summary describes a set of values.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	CV     float64 `json:"cv"` // standard deviation / mean
}

// Result sums up the trials of one forwarder with one length of frames.
type Result struct {
	Name   string `json:"name"`
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	Summary
}

// Ratio compares two forwarders, trial by trial of the same round.
type Ratio struct {
	Summary
	Pairs []float64 `json:"pairs"`
}

// Summarise returns the summary of at least one value. CV is that of a sample: the deviation is over n-1.
func Summarise(values []float64) Summary {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	s := Summary{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
	mean, squares := 0.0, 0.0
	for _, v := range sorted {
		mean += v / float64(n)
	}
	for _, v := range sorted {
		squares += (v - mean) * (v - mean)
	}
	if n > 1 && mean != 0 {
		s.CV = math.Sqrt(squares/float64(n-1)) / mean
	}
	return s
}

// wireLength is a frame's length with its FCS, by which it is known.
func wireLength(length int) int { return length + 4 }

// summarise fills in the results and the ratios from the trials.
func (r *Report) summarise() {
	type key struct {
		name   string
		length int
	}
	rates := map[key][]float64{}
	var order []key
	for _, t := range r.Trials {
		k := key{t.Forwarder, t.Length}
		if rates[k] == nil {
			order = append(order, k)
		}
		rates[k] = append(rates[k], t.Rate)
	}
	for _, k := range order {
		r.Results = append(r.Results, Result{
			Name: k.name, Metric: fmt.Sprintf("forwarded under overload, %d B", wireLength(k.length)), Unit: "packets/s",
			Summary: Summarise(rates[k]),
		})
		first := order[0].name
		if k.name == first {
			continue
		}
		var pairs []float64
		for round, rate := range rates[k] {
			pairs = append(pairs, rates[key{first, k.length}][round]/rate)
		}
		r.Ratios[fmt.Sprintf("%s/%s %d B", first, k.name, wireLength(k.length))] = Ratio{Summarise(pairs), pairs}
	}
}

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s, %d cores, Linux %s\n", r.Scenario, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel)
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(w, "absent: %s: %s\n", name, r.Absent[name])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tmedian\tmin\tmax\tCV\t\t\n")
	row := func(name, format string, scale float64, s Summary, unit string) {
		mark := ""
		if s.CV > noisy {
			mark = "!"
		}
		fmt.Fprintf(t, "%s\t"+strings.Repeat(format+"\t", 3)+"%.1f %%%s\t%s\t\n",
			name, s.Median/scale, s.Min/scale, s.Max/scale, 100*s.CV, mark, unit)
	}
	for _, v := range r.Results {
		row(v.Name+", "+v.Metric, "%.3f", 1e6, v.Summary, "M"+v.Unit)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		row(name, "%.2f", 1, r.Ratios[name].Summary, "")
	}
	return t.Flush()
}

// thisMachine describes the machine without saying whose it is.
func thisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Kernel: "unknown", Versions: map[string]string{"go": runtime.Version()}}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, found := strings.Cut(string(text), "model name"); found {
			line, _, _ := strings.Cut(rest, "\n")
			m.CPU = strings.Trim(line, "\t :")
		}
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if strings.HasSuffix(d.Path, "/xdp") || strings.HasSuffix(d.Path, "cilium/ebpf") {
				m.Versions[d.Path] = d.Version
			}
		}
	}
	return m
}
