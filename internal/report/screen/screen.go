// Package screen draws `sluice top`: lines of text, made from a report of a switch and an earlier
// one. The lines depend only on these and on the window size, not on a clock or a terminal.
package screen

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/state"
)

// Style is how a line is highlighted. The text is complete without it.
type Style int

// The styles.
const (
	Plain   Style = iota
	Heading       // heading of a section
	Good          // no lossless drops
	Bad           // a problem
	Faint         // the help on keys
)

// Line is one line of the window: printable ASCII, at most as long as the window is wide.
type Line struct {
	Text  string
	Style Style
}

// Section is one part of the screen.
type Section int

// The sections. All shows all of them, which share the window.
const (
	All Section = iota
	Ports
	Pauses
	Buffers
	Events
	Workers
	Sections // number of sections
)

var sectionNames = [Sections]string{"all", "ports", "pauses", "buffers", "events", "workers"}

// String returns the section's name.
func (s Section) String() string { return sectionNames[s] }

// View is the input of Draw.
type View struct {
	Now    *state.Switch // nil: no report yet
	Before *state.Switch // rates are since this report; no rates if it is nil or from before a restart

	Trouble string        // why there is no newer report than Now; "": no trouble
	Silence time.Duration // age of Now, with Trouble

	Section Section
	Scroll  int // number of rows scrolled away at the top of each section

	Width, Height int // of the window, in characters; Height 0: all rows and no key help
}

// A window of unlimited height shows all rows, but only plainEvents events.
const (
	unlimited   = 1 << 30
	plainEvents = 12
	// spaciousHeight is the height from which a blank line separates the sections.
	spaciousHeight = 36
)

// Draw returns the Height lines of the window, and the largest useful value of Scroll.
func (v *View) Draw() (lines []Line, furthest int) {
	lines = v.top()
	var tables []table
	if v.Now != nil {
		tables = v.tables()
	}
	if v.Height <= 0 {
		for i := range tables {
			lines = append(lines, Line{})
			lines = append(lines, tables[i].window(unlimited, 0)...)
		}
		return v.fitted(lines), 0
	}
	lines = lines[:min(len(lines), max(v.Height-1, 1))]
	gap := 0
	if v.Height >= spaciousHeight {
		gap = 1
	}
	heights := allocate(v.Height-len(lines)-1, 1+gap, tables)
	for i := range tables {
		if heights[i] == 0 {
			continue
		}
		lines = append(lines, make([]Line, gap)...)
		lines = append(lines, tables[i].window(heights[i], v.Scroll)...)
		furthest = max(furthest, len(tables[i].rows)-heights[i])
	}
	for len(lines) < v.Height-1 {
		lines = append(lines, Line{})
	}
	if v.Height > 1 {
		lines = append(lines, Line{v.keys(furthest), Faint})
	}
	return v.fitted(lines), furthest
}

// fitted cuts all lines to the width of the window.
func (v *View) fitted(lines []Line) []Line {
	for i := range lines {
		lines[i].Text = fit(strings.TrimRight(lines[i].Text, " "), v.Width)
	}
	return lines
}

// allocate distributes the lines of the window and returns the number of rows of each table. Each
// table first gets its heading of that many lines and one row; tables with more rows then get one
// row at a time in turn.
func allocate(room, heading int, tables []table) []int {
	rows := make([]int, len(tables))
	for i := range tables {
		if room > heading {
			rows[i] = 1
			room -= heading + 1
		}
	}
	for dealt := true; dealt; {
		dealt = false
		for i := range tables {
			if room > 0 && rows[i] > 0 && rows[i] < len(tables[i].rows) {
				rows[i]++
				room--
				dealt = true
			}
		}
	}
	return rows
}

// table is the content of a section.
type table struct {
	heading string
	rows    []Line // at least one
}

// window returns the heading and height rows starting at row from, or the last height rows if fewer
// are left.
func (t *table) window(height, from int) []Line {
	height = min(height, len(t.rows))
	from = max(0, min(from, len(t.rows)-height))
	return append([]Line{{t.heading, Heading}}, t.rows[from:from+height]...)
}

// tables returns the sections to show.
func (v *View) tables() []table {
	all := []struct {
		section Section
		make    func() table
	}{{Ports, v.ports}, {Pauses, v.pauses}, {Buffers, v.buffers}, {Events, v.events}, {Workers, v.workers}}
	var shown []table
	for _, s := range all {
		if v.Section != All && v.Section != s.section {
			continue
		}
		t := s.make()
		if len(t.rows) == 0 {
			t.rows = []Line{{"none", Plain}}
		}
		shown = append(shown, t)
	}
	return shown
}

// keys returns the last line: the keys, and whether there are more rows below.
func (v *View) keys(furthest int) string {
	var b strings.Builder
	b.WriteString("q quit")
	for s := range Sections {
		if s == v.Section {
			fmt.Fprintf(&b, " [%d %v]", s, s)
		} else {
			fmt.Fprintf(&b, " %d %v", s, s)
		}
	}
	if below := furthest - v.Scroll; below > 0 {
		fmt.Fprintf(&b, "  arrows: %d more", below)
	} else if furthest > 0 {
		b.WriteString("  arrows: end")
	}
	return b.String()
}
