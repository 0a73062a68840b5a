package compare

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"sluice/internal/text/prose"
)

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s, %d cores, Linux %s\n", r.Scenario, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel)
	if r.Partial {
		fmt.Fprintln(w, "partial: the run ended before everything was measured")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(w, "absent: %s: %s\n", name, r.Absent[name])
	}
	rows := [][]string{}
	for _, v := range r.Results {
		cells := v.cells(v.Unit)
		cells[0] = atLeast(v.Bounds) + cells[0]
		rows = append(rows, append([]string{v.Name + ", " + v.Metric}, cells...))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		v := r.Ratios[name]
		unit := "× as good"
		if v.LeftOut > 0 {
			unit = fmt.Sprintf("× as good, in %d of %d rounds", len(v.Pairs), len(v.Pairs)+v.LeftOut)
		}
		rows = append(rows, append([]string{name}, v.cells(unit)...))
	}
	if len(rows) > 0 {
		textTable(w, []string{"", "median", "min", "max", "CV", ""}, rows)
	}
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		textTable(w, t.Head, t.Rows)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\n%s\n", wrapped(note, 110))
	}
	_, err := fmt.Fprintln(w)
	return err
}

// Verbatim begins lines of a note that are not wrapped, as in Markdown.
const Verbatim = "    "

// wrapped returns a note with lines of at most width columns, except for verbatim ones.
func wrapped(note string, width int) string {
	lines := strings.Split(note, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, Verbatim) {
			lines[i] = prose.Wrap(line, width, "")
		}
	}
	return strings.Join(lines, "\n")
}

// textTable writes columns aligned to the right, the first one to the left.
func textTable(w io.Writer, head []string, rows [][]string) {
	rows = append([][]string{head}, rows...)
	width := 0
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[0]))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintf(t, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	_ = t.Flush() // if w fails, the last write reports it
}

// cells returns median, min, max, CV and unit as text, scaled to suit the median. A CV above noisy
// is marked.
func (s Summary) cells(unit string) []string {
	scale, unit := multiple(s.Median, unit)
	mark := ""
	if s.CV > noisy {
		mark = "!"
	}
	return []string{number(s.Median / scale), number(s.Min / scale), number(s.Max / scale),
		fmt.Sprintf("%.1f %%%s", 100*s.CV, mark), unit}
}

// step is a multiple of a unit.
type step struct {
	scale float64
	name  string
}

// multiple returns the multiple of a unit in which a value has few digits, and its name. Other
// units are returned unchanged.
func multiple(value float64, unit string) (scale float64, name string) {
	var steps []step
	switch unit {
	case "ns":
		steps = []step{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}}
	case "packets/s":
		steps = []step{{1e9, "Gpps"}, {1e6, "Mpps"}, {1e3, "kpps"}}
	case "bit/s":
		steps = []step{{1e9, "Gbit/s"}, {1e6, "Mbit/s"}, {1e3, "kbit/s"}}
	}
	for _, s := range steps {
		if math.Abs(value) >= s.scale {
			return s.scale, s.name
		}
	}
	return 1, unit
}

// number formats a value with four digits, or with all digits before the point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) || a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.1f", v)
	case a >= 10:
		return fmt.Sprintf("%.2f", v)
	case a >= 0.01:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2g", v)
}
