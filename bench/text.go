package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s, %d cores, Linux %s\n", r.Scenario, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel)
	if r.Partial {
		fmt.Fprintln(w, "partial: it ended before all was measured")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(w, "absent: %s: %s\n", name, r.Absent[name])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tmedian\tmin\tmax\tCV\t\t\n")
	for _, v := range r.Results {
		fmt.Fprintf(t, "%s\t%s\t\n", v.Name+", "+v.Metric, strings.Join(v.cells(v.Unit), "\t"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		fmt.Fprintf(t, "%s\t%s\t\n", name, strings.Join(r.Ratios[name].cells(times), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, table := range r.Tables {
		fmt.Fprintf(w, "\n%s\n", table.Title)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, row := range append([][]string{table.Head}, table.Rows...) {
			fmt.Fprintf(t, "%s\t\n", strings.Join(row, "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "%s\n", note)
	}
	return nil
}

// times is the unit of a ratio.
const times = "×"

// cells returns median, min, max, CV and unit as people read them, in the multiple of the unit that suits the median.
// A CV over the threshold is marked.
func (s Summary) cells(unit string) []string {
	scale, unit := multiple(s.Median, unit)
	mark := ""
	if s.CV > noisy {
		mark = "!"
	}
	return []string{number(s.Median / scale), number(s.Min / scale), number(s.Max / scale),
		fmt.Sprintf("%.1f %%%s", 100*s.CV, mark), unit}
}

// multiple returns the multiple of a unit in which a value has few digits, and what it is in the unit.
func multiple(value float64, unit string) (scale float64, name string) {
	type step struct {
		scale  float64
		prefix string
	}
	var steps []step
	switch {
	case unit == "ns":
		steps = []step{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}}
		unit = ""
	case strings.HasSuffix(unit, "/s"):
		steps = []step{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}
	}
	for _, s := range steps {
		if math.Abs(value) >= s.scale {
			return s.scale, s.prefix + unit
		}
	}
	if unit == "" && len(steps) > 0 {
		unit = "ns"
	}
	return 1, unit
}

// number writes a value with four digits, or all those before the point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e15:
		return fmt.Sprintf("%.0f", v)
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.1f", v)
	case a >= 10:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}
