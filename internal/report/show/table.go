package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/state"
	"sluice/internal/text/prose"
	"sluice/internal/text/units"
)

// table is one table that show prints.
type table struct {
	title   string // above the table; empty: none
	apart   dimension
	columns []column
	rows    [][]any  // one value per column
	body    []string // lines instead of columns and rows
	none    string   // printed if there are no rows
	notes   []string // below the table
}

// column is the heading and format of a column.
type column struct {
	head   string // above the column
	number bool   // right-aligned
	counts bool   // --nonzero hides rows whose counting columns are all zero
	cut    bool   // cut if the table does not fit Width otherwise
}

func text(head string) column   { return column{head: head} }
func number(head string) column { return column{head: head, number: true} }
func count(head string) column  { return column{head: head, number: true, counts: true} }
func long(head string) column   { return column{head: head, cut: true} }

// of is an amount in use and its limit. With open, a limit of 0 means none.
type of struct {
	used, limit int
	open        bool
}

func (o of) String() string {
	if o.limit == 0 && o.open {
		return fmt.Sprint(o.used)
	}
	return fmt.Sprintf("%d/%d", o.used, o.limit)
}

// pair is two related counts.
type pair [2]uint64

func (p pair) String() string { return fmt.Sprintf("%d/%d", p[0], p[1]) }

// fixed is a number with a fixed number of decimals, or absent.
type fixed struct {
	value    float64
	decimals int
	absent   bool
}

func (f fixed) String() string {
	if f.absent {
		return Nothing
	}
	return fmt.Sprintf("%.*f", f.decimals, f.value)
}

// span is a time in ns, printed rounded.
type span int64

func (s span) String() string {
	d := time.Duration(s)
	switch {
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return d.Round(100 * time.Nanosecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// micros is a time in ns, printed in µs.
type micros struct {
	ns       int64
	decimals int
}

func (m micros) String() string { return fixed{float64(m.ns) / 1e3, m.decimals, false}.String() }

// moment is a time, printed with its date unless it is on the same day as now.
type moment struct{ at, now time.Time }

func (m moment) String() string { return state.Clock(m.at, m.now) }

// bits is a rate in bit/s; 0 means none.
type bits uint64

func (b bits) String() string { return Rate(uint64(b)) }

// weight is the weight of a queue or group, or strict priority.
type weight struct {
	value  int
	strict bool
}

func (w weight) String() string {
	if w.strict {
		return "strict"
	}
	return fmt.Sprint(w.value)
}

// yes is a bool, printed as a word if it is true.
type yes struct {
	is   bool
	word string
}

func (y yes) String() string {
	if y.is {
		return y.word
	}
	return Nothing
}

// shown formats the value of a cell.
func shown(v any) string { return printable(OrNothing(fmt.Sprint(v))) }

// printable replaces characters that a terminal may interpret. Text from the network, and names of
// devices, may have any.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// clipped cuts text to a width.
func clipped(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// zero reports whether a value counts as zero for --nonzero.
func zero(v any) bool {
	switch v := v.(type) {
	case of:
		return v.used == 0
	case pair:
		return v == pair{}
	case fixed:
		return v.value == 0
	case yes:
		return !v.is
	case span:
		return v == 0
	}
	return fmt.Sprint(v) == "0"
}

// hideZeros removes rows whose counts are all zero. If no rows are left, the table says so.
func (t *table) hideZeros() {
	if len(t.rows) > 0 {
		t.none = "all are 0"
	}
	t.rows = slices.DeleteFunc(t.rows, func(row []any) bool {
		counted := false
		for i, c := range t.columns {
			if c.counts && !zero(row[i]) {
				return false
			}
			counted = counted || c.counts
		}
		return counted
	})
}

// print writes the table in the layout of SONiC's tools: headings, dashes, rows.
func (t *table) print(w io.Writer) {
	if t.title != "" {
		fmt.Fprintln(w, clipped(printable(t.title), Width))
	}
	for _, line := range t.body {
		fmt.Fprintln(w, printable(line))
	}
	if len(t.rows) > 0 {
		t.printRows(w)
	} else if len(t.body) == 0 {
		fmt.Fprintln(w, OrNothing(t.none))
	}
	for _, note := range t.notes {
		fmt.Fprintln(w, prose.Wrap(printable(note), Width, "  "))
	}
}

// printRows writes headings, dashes and rows.
func (t *table) printRows(w io.Writer) {
	var lines [][]string // one slice per column
	for i, c := range t.columns {
		cells := []string{c.head, ""}
		width := utf8.RuneCountInString(c.head)
		for _, row := range t.rows {
			cells = append(cells, shown(row[i]))
			width = max(width, utf8.RuneCountInString(cells[len(cells)-1]))
		}
		cells[1] = strings.Repeat("-", width)
		lines = append(lines, cells)
	}
	t.fit(lines)
	for line := range len(t.rows) + 2 {
		var b strings.Builder
		for i, c := range t.columns {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", len(lines[i][1])-utf8.RuneCountInString(lines[i][line]))
			if c.number {
				b.WriteString(pad + lines[i][line])
			} else {
				b.WriteString(lines[i][line] + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// shortest is the width to which a column may be cut.
const shortest = 8

// fit cuts columns, the widest first, until the table fits Width. lines has one slice per column,
// whose second element is as wide as the column.
func (t *table) fit(lines [][]string) {
	total := 2 * (len(lines) - 1)
	for i := range lines {
		total += len(lines[i][1])
	}
	for ; total > Width; total-- {
		widest := -1
		for i, c := range t.columns {
			if c.cut && len(lines[i][1]) > shortest && (widest < 0 || len(lines[i][1]) > len(lines[widest][1])) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		lines[widest][1] = lines[widest][1][1:]
	}
	for i, c := range t.columns {
		if !c.cut {
			continue
		}
		width := len(lines[i][1])
		for j, cell := range lines[i] {
			lines[i][j] = clipped(cell, width)
		}
	}
}

// Width is the width to which notes are wrapped; the tables fit it too.
const Width = 80

// Nothing is printed in a table for a missing value.
const Nothing = "–"

// OrNothing returns a text, or Nothing if it is empty.
func OrNothing(text string) string { return cmp.Or(text, Nothing) }

// Rate formats a rate in bit/s as the configuration writes it; 0 is Nothing.
func Rate(rate uint64) string {
	if rate == 0 {
		return Nothing
	}
	return units.Rate(rate)
}
