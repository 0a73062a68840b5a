package show

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestTables draws random tables. Each value must be in its row below its column's heading, and
// --nonzero must hide the rows that count nothing.
func TestTables(t *testing.T) {
	value := rapid.OneOf(
		rapid.Map(rapid.Uint64(), func(n uint64) any { return n }),
		rapid.Map(rapid.IntRange(-9, 9), func(n int) any { return n }),
		rapid.Map(rapid.StringMatching(`[a-z–µ]{0,12}`), func(s string) any { return s }),
		rapid.Map(rapid.Int64Range(0, 1e15), func(n int64) any { return span(n) }),
		rapid.Map(rapid.IntRange(0, 1e6), func(n int) any { return of{n, n / 2, n%3 == 0} }),
		rapid.Map(rapid.Uint64(), func(n uint64) any { return pair{n, n / 7} }),
		rapid.Map(rapid.Float64Range(0, 1e9), func(f float64) any { return fixed{f, 2, f < 1e3} }),
		rapid.Map(rapid.Bool(), func(b bool) any { return yes{b, "yes"} }),
		rapid.Map(rapid.Uint64(), func(n uint64) any { return bits(n) }),
		rapid.Map(rapid.IntRange(0, 100), func(n int) any { return weight{n, n == 0} }),
	)
	rapid.Check(t, func(t *rapid.T) {
		x := table{title: "of all kinds"}
		for range rapid.IntRange(1, 8).Draw(t, "columns") {
			x.columns = append(x.columns, column{
				head:   rapid.SampledFrom([]string{"HEAD", "A LONG HEAD"}).Draw(t, "head"),
				number: rapid.Bool().Draw(t, "number"), counts: rapid.Bool().Draw(t, "counts"),
			})
		}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			x.rows = append(x.rows, rapid.SliceOfN(value, len(x.columns), len(x.columns)).Draw(t, "row"))
		}
		checkTable(t, &x)
		before := len(x.rows)
		if x.hideZeros(); len(x.rows) > before {
			t.Fatalf("hiding rows makes %d of %d", len(x.rows), before)
		}
		for _, row := range x.rows {
			counts, all := 0, 0
			for i, c := range x.columns {
				if c.counts {
					all++
					if !zero(row[i]) {
						counts++
					}
				}
			}
			if all > 0 && counts == 0 {
				t.Fatalf("%v is still there", row)
			}
		}
	})
}

// checkTable compares the drawn table with its values, column by column.
func checkTable(t *rapid.T, x *table) {
	var b bytes.Buffer
	x.print(&b)
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")[1:] // without the title
	if len(x.rows) == 0 {
		return
	}
	at := 0
	for j, c := range x.columns {
		width := utf8.RuneCountInString(strings.Fields(lines[1])[j])
		for i, line := range slices.Concat(lines[:1], lines[2:]) {
			want := c.head
			if i > 0 {
				want = shown(x.rows[i-1][j])
			}
			cell := []rune(fmt.Sprintf("%-*s", at+width, line))[at : at+width]
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(want))
			if c.number && string(cell) != pad+want || !c.number && string(cell) != want+pad {
				t.Fatalf("column %d of %q is %q, want %q", j, line, string(cell), want)
			}
		}
		at += width + len("  ")
	}
}
