package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/prose"
	"sluice/internal/state"
)

// table is one table of what `show` prints for people.
type table struct {
	title   string // above the table; empty: none
	apart   dimension
	columns []column
	rows    [][]any  // a value for each column
	none    string   // in place of a table without rows
	notes   []string // below the table
}

// column is a column of a table.
type column struct {
	head   string // above the column
	number bool   // aligned to the right
	counts bool   // a row in which all columns that count have nothing but zeros is hidden by --nonzero
}

func text(head string) column   { return column{head: head} }
func number(head string) column { return column{head: head, number: true} }
func count(head string) column  { return column{head: head, number: true, counts: true} }

// of is how much is used of what there is. 0 is no limit where open.
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

// pair is two counts that belong together.
type pair [2]uint64

func (p pair) String() string { return fmt.Sprintf("%d/%d", p[0], p[1]) }

// fixed is a number with so many decimals; absent is that there is none.
type fixed struct {
	value    float64
	decimals int
	absent   bool
}

func (f fixed) String() string {
	if f.absent {
		return nothing
	}
	return fmt.Sprintf("%.*f", f.decimals, f.value)
}

// span is a time in ns, rounded.
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

// micros is a time in ns, in µs with so many decimals.
type micros struct {
	ns       int64
	decimals int
}

func (m micros) String() string { return fixed{float64(m.ns) / 1e3, m.decimals, false}.String() }

// moment is a time, seen from another one.
type moment struct{ at, now time.Time }

func (m moment) String() string { return state.Clock(m.at, m.now) }

// bits is a rate in bit/s; 0 is none.
type bits uint64

func (b bits) String() string { return rateText(uint64(b)) }

// weight is a share, or that strict ones come first.
type weight struct {
	value  int
	strict bool
}

func (w weight) String() string {
	if w.strict {
		return "first"
	}
	return fmt.Sprint(w.value)
}

// yes is a bool, as a word where it is true.
type yes struct {
	is   bool
	word string
}

func (y yes) String() string {
	if y.is {
		return y.word
	}
	return nothing
}

// shown is what stands in a table for a value.
func shown(v any) string { return orNothing(fmt.Sprint(v)) }

// zero tells whether a value counts nothing.
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

// hideZeros takes the rows away that count nothing. If none is left, that is what is said.
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

// print writes the table as SONiC's tools do: heads, dashes, rows.
func (t *table) print(w io.Writer) {
	if t.title != "" {
		fmt.Fprintln(w, t.title)
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(w, orNothing(t.none))
		return
	}
	var lines [][]string // by column
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
	for _, note := range t.notes {
		fmt.Fprintln(w, prose.Wrap(note, showWidth, "  "))
	}
}

// showWidth is the columns of a window that need not be widened for what `show` prints.
const showWidth = 80
