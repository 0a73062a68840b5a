package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/state"
)

// table is one table of what `show` prints. Its rows are what programs get and what people see: so the one can't say other
// things than the other.
type table struct {
	key     string // in JSON
	title   string // above the table; empty: none
	columns []column
	rows    [][]any  // a value for each column
	none    string   // in place of a table without rows
	notes   []string // below the table; what they say programs have in a column
}

// column is a column of a table.
type column struct {
	key    string // in JSON
	head   string // above the column; empty: not for people
	number bool   // aligned to the right
	counts bool   // a row in which all columns that count have nothing but zeros is hidden by --nonzero
}

// text, number and count return columns for people and programs, detail one for programs only.
func text(key, head string) column   { return column{key: key, head: head} }
func number(key, head string) column { return column{key: key, head: head, number: true} }
func count(key, head string) column  { return column{key: key, head: head, number: true, counts: true} }
func detail(key string) column       { return column{key: key} }

// cell is a value that people see otherwise than programs.
type cell interface{ String() string }

// of is how much is used of what there is; people see both. 0 is no limit where open.
type of struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
	open  bool
}

func (o of) String() string {
	if o.Limit == 0 && o.open {
		return fmt.Sprint(o.Used)
	}
	return fmt.Sprintf("%d/%d", o.Used, o.Limit)
}

// pair is two counts that belong together.
type pair struct {
	names [2]string
	value [2]uint64
}

func (p pair) String() string { return fmt.Sprintf("%d/%d", p.value[0], p.value[1]) }

// MarshalJSON makes an object of it.
func (p pair) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]uint64{p.names[0]: p.value[0], p.names[1]: p.value[1]})
}

// fixed is a number of which people see so many decimals, and nothing where there is no number.
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

// MarshalJSON writes null where there is no number.
func (f fixed) MarshalJSON() ([]byte, error) {
	if f.absent {
		return []byte("null"), nil
	}
	return json.Marshal(f.value)
}

// span is a time in ns, which people see rounded.
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

// micros is a time in ns, of which people see µs with so many decimals.
type micros struct {
	ns       int64
	decimals int
}

func (m micros) String() string { return fixed{float64(m.ns) / 1e3, m.decimals, false}.String() }

// MarshalJSON writes ns.
func (m micros) MarshalJSON() ([]byte, error) { return json.Marshal(m.ns) }

// moment is a time, which people see from another one.
type moment struct{ at, now time.Time }

func (m moment) String() string { return state.Clock(m.at, m.now) }

// MarshalJSON writes the time.
func (m moment) MarshalJSON() ([]byte, error) { return json.Marshal(m.at) }

// bits is a rate in bit/s, which people see with a unit; 0 is none.
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

// MarshalJSON writes the share, 0 where there is none.
func (w weight) MarshalJSON() ([]byte, error) { return json.Marshal(w.value) }

// yes is a bool, of which people see a word where it is true.
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

// MarshalJSON writes a bool.
func (y yes) MarshalJSON() ([]byte, error) { return json.Marshal(y.is) }

// shown is what people see of a value.
func shown(v any) string {
	switch v := v.(type) {
	case cell:
		return v.String()
	case string:
		return orNothing(v)
	}
	return fmt.Sprint(v)
}

// zero tells whether a value counts nothing.
func zero(v any) bool {
	switch v := v.(type) {
	case of:
		return v.Used == 0
	case pair:
		return v.value == [2]uint64{}
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
	var columns []column
	for i, c := range t.columns {
		if c.head == "" {
			continue
		}
		cells := []string{c.head, ""}
		width := utf8.RuneCountInString(c.head)
		for _, row := range t.rows {
			cells = append(cells, shown(row[i]))
			width = max(width, utf8.RuneCountInString(cells[len(cells)-1]))
		}
		cells[1] = strings.Repeat("-", width)
		lines, columns = append(lines, cells), append(columns, c)
	}
	for line := range len(t.rows) + 2 {
		var b strings.Builder
		for i, c := range columns {
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
		fmt.Fprintln(w, wrapped(note, showWidth))
	}
}

// showWidth is the columns of a window that need not be widened for what `show` prints.
const showWidth = 80

// wrapped breaks a text between words, so that no line has more columns than width but by one long word. Lines behind the first
// are indented.
func wrapped(text string, width int) string {
	const indent = "  "
	var b strings.Builder
	used := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n <= width:
			b.WriteByte(' ')
			used++
		default:
			b.WriteString("\n" + indent)
			used = len(indent)
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// objects returns the rows for programs.
func (t *table) objects() []map[string]any {
	all := make([]map[string]any, len(t.rows))
	for i, row := range t.rows {
		all[i] = make(map[string]any, len(row))
		for j, c := range t.columns {
			all[i][c.key] = row[j]
		}
	}
	return all
}
