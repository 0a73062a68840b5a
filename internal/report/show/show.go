// Package show makes the tables of `sluice show` from the state of a switch. The text depends only
// on the state and on the options, not on a clock or a terminal.
package show

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"sluice/internal/state"
	"sluice/internal/text/prose"
)

// View is one view of show. Its JSON is a part of the switch's state, and its tables are made from
// that part.
type View struct {
	Draws  Part
	lead   func(*state.Switch) string // lines between the first line and the tables; nil: none
	tables func(*state.Switch) []table
}

// Part is a set of fields of state.Switch that not all views have. The other fields are in every
// view's JSON.
type Part uint8

// The parts.
const (
	PartPorts Part = 1 << iota
	PartAlarms
	PartWorkers
	PartFCoE
	PartFDB // needs a request of its own
)

// Cut removes from a state the parts that are not in the set.
func (p Part) Cut(r *state.Switch) {
	if p&PartPorts == 0 {
		r.Ports = nil
	}
	if p&PartAlarms == 0 {
		r.Alarms = nil
	}
	if p&PartWorkers == 0 {
		r.Workers = nil
	}
	if p&PartFCoE == 0 {
		r.FCoE = nil
	}
	if p&PartFDB == 0 {
		r.FDB = nil
	}
}

// Options are how to print a view.
type Options struct {
	Filter  Filter
	Nonzero bool // hide rows that count nothing
}

// Print writes the view of a state, which Options.Filter has filtered: the first line of all views,
// and then the tables.
func (v *View) Print(w io.Writer, r *state.Switch, first string, o *Options) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, first)
	if v.lead != nil {
		fmt.Fprintln(&b, v.lead(r))
	}
	for _, t := range v.tables(r) {
		if !o.Filter.passes(&t) {
			continue
		}
		if o.Nonzero {
			t.hideZeros()
		}
		fmt.Fprintln(&b)
		t.print(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// conditions returns the lines about the switch as a whole.
func conditions(r *state.Switch) string {
	var out strings.Builder
	up, shut := 0, ""
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.Up {
			up++
		}
		if p.Shut && !p.Loop {
			shut += " " + p.Name
		}
	}
	if r.Version != "" { // older switches don't report it
		fmt.Fprintf(&out, "sluice %s, ", r.Version)
	}
	fmt.Fprintf(&out, "running for %s, %d of %d ports up, pause storms: %d\n", span(r.UptimeNS), up, len(r.Ports),
		r.PauseStorms)
	if shut != "" {
		fmt.Fprintf(&out, "shut by the operator:%s\n", shut)
	}
	if r.CountersCleared != nil {
		fmt.Fprintf(&out, "counters cleared at %s\n", state.Clock(*r.CountersCleared, r.Time))
	}
	if f := r.FCoE; f != nil {
		fmt.Fprintf(&out, "FIP snooping: %s, %s, %s\n", prose.Count(len(f.FCFs), "FCF"),
			prose.Count(len(f.ENodes), "ENode"), prose.Count(len(f.Sessions), "session"))
	}
	k := &r.Configuration
	fmt.Fprintf(&out, "configuration %s, number %d, loaded at %s\n", k.File, k.Generation,
		state.Clock(k.LoadedAt, r.Time))
	if k.Error != "" {
		fmt.Fprintf(&out, "the last reload, at %s, was refused and changed nothing:\n%s\n",
			state.Clock(k.TriedAt, r.Time), k.Error)
	}
	return strings.TrimSuffix(out.String(), "\n")
}
