// Package screen draws what `sluice top` shows: lines of text, made of a report of a switch and one
// before it. It is a function of these and of the size of the window, and asks neither a clock nor
// a terminal.
package screen

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/state"
)

// Style is how a line looks where lines can look other than plain. None is needed to understand
// what is said.
type Style int

// The styles.
const (
	Plain   Style = iota
	Heading       // of a section
	Good          // nothing was lost
	Bad           // something that must not be
	Faint         // which keys there are
)

// Line is a line of the window: printable ASCII, not longer than the window is wide.
type Line struct {
	Text  string
	Style Style
}

// Section is a part of the view.
type Section int

// The sections. All is all of them, each with its share of the window.
const (
	All Section = iota
	Ports
	Pauses
	Buffers
	Events
	Workers
	Sections // how many there are
)

var sectionNames = [Sections]string{"all", "ports", "pauses", "buffers", "events", "workers"}

// String returns the section's name.
func (s Section) String() string { return sectionNames[s] }

// View is what to draw.
type View struct {
	Now    *state.Switch // nil: there has been none yet
	Before *state.Switch // rates are of the time from this one; nil, or of a run before a restart: there are none

	Trouble string        // why there is nothing newer than Now; "": there is nothing wrong
	Silence time.Duration // how old Now is, where there is trouble

	Section Section
	Scroll  int // how many lines have been scrolled away at the top of each section

	Width, Height int // of the window, in characters; a Height of 0: as many lines as it takes, and no keys
}

// unlimited is a window as high as it takes. Of events it shows as many as a person reads.
const (
	unlimited   = 1 << 30
	plainEvents = 12
	// spaciousHeight is from when on sections have a blank line between them.
	spaciousHeight = 36
)

// Draw returns the lines of the window, Height of them, and how far it makes sense to scroll.
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

// fitted makes all lines as narrow as the window.
func (v *View) fitted(lines []Line) []Line {
	for i := range lines {
		lines[i].Text = fit(strings.TrimRight(lines[i].Text, " "), v.Width)
	}
	return lines
}

// allocate shares the lines of a window out: how many rows each table gets. Each first gets one
// below its heading, which takes some lines of its own; then the rest is dealt one by one to those
// that want more.
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

// table is what a section shows.
type table struct {
	heading string
	rows    []Line // never none
}

// window returns the heading and so many rows below it, from one on, or the last ones if there are
// not so many from there.
func (t *table) window(height, from int) []Line {
	height = min(height, len(t.rows))
	from = max(0, min(from, len(t.rows)-height))
	return append([]Line{{t.heading, Heading}}, t.rows[from:from+height]...)
}

// tables returns the sections that are to be seen.
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

// keys is the last line: what can be typed, and whether there is more to see.
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
