package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/state"
)

// filter limits a view to some ports, classes of service and VLANs. An empty list means all.
type filter struct {
	ports []string
	cos   []int
	vlans []int
}

const lastVLAN = 4094 // IEEE 802.1Q, 9.6

// The flags of the filters.
const (
	portFilter = "port"
	cosFilter  = "cos"
	vlanFilter = "vlan"
)

var allFilters = []string{portFilter, cosFilter, vlanFilter}

// filtersOf lists the filters of each view. Other views have none.
var filtersOf = map[string][]string{
	"drops":      {portFilter, cosFilter},
	"ets":        {portFilter, cosFilter},
	"fdb":        {portFilter, vlanFilter},
	"pfc":        {portFilter, cosFilter},
	"pfcwd":      {portFilter, cosFilter},
	"pg":         {portFilter, cosFilter},
	"ports":      {portFilter},
	"queues":     {portFilter, cosFilter},
	"watermarks": {portFilter, cosFilter},
}

// declare adds to a view the flags of its filters.
func (f *filter) declare(view *cobra.Command) {
	flags := view.Flags()
	for _, name := range filtersOf[view.Name()] {
		switch name {
		case portFilter:
			flags.StringSliceVar(&f.ports, name, nil, "show only these ports (repeatable)")
			cli.CompleteWith(view, name, portNames)
		case cosFilter:
			flags.IntSliceVar(&f.cos, name, nil, "show only these classes of service, 0 to 7 (repeatable)")
		case vlanFilter:
			flags.IntSliceVar(&f.vlans, name, nil, "show only these VLANs, 1 to 4094 (repeatable)")
		}
	}
}

// filterHelp lists, for each filter, the views that have it.
func filterHelp() string {
	var b strings.Builder
	for _, name := range allFilters {
		var views []string
		for view, takes := range filtersOf {
			if slices.Contains(takes, name) {
				views = append(views, view)
			}
		}
		slices.Sort(views)
		fmt.Fprintf(&b, "  --%-5s %s\n", name, strings.Join(views, ", "))
	}
	return b.String()
}

// checkRanges rejects numbers outside the range of classes and VLANs.
func (f *filter) checkRanges() error {
	if err := checkCoS(f.cos); err != nil {
		return err
	}
	for _, vlan := range f.vlans {
		if vlan < 1 || vlan > lastVLAN {
			return cli.Usage(fmt.Errorf("--vlan %d: VLANs are 1 to %d", vlan, lastVLAN))
		}
	}
	return nil
}

// checkCoS rejects values of --cos outside 0 to 7.
func checkCoS(list []int) error {
	for _, cos := range list {
		if cos < 0 || cos > 7 {
			return cli.Usage(fmt.Errorf("--cos %d: classes of service are 0 to 7", cos))
		}
	}
	return nil
}

// checkPorts rejects ports that the switch does not have.
func (f *filter) checkPorts(r *state.Switch) error {
	var names []string
	for i := range r.Ports {
		names = append(names, r.Ports[i].Name)
	}
	for _, name := range f.ports {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--port %s: the switch has no such port; its ports are %s", name,
				strings.Join(names, ", "))
		}
	}
	return nil
}

// dimension is a set of properties that filters select by. A table, or a part of the state, that
// does not separate by a selected dimension is hidden, because its numbers would include everything
// else.
type dimension uint8

const (
	byPort dimension = 1 << iota
	byCoS
	byVLAN
)

// names returns the dimensions that the filter selects by.
func (f *filter) names() (all dimension) {
	if len(f.ports) > 0 {
		all |= byPort
	}
	if len(f.cos) > 0 {
		all |= byCoS
	}
	if len(f.vlans) > 0 {
		all |= byVLAN
	}
	return all
}

// passes reports whether a table separates all dimensions that the filter selects by.
func (f *filter) passes(t *table) bool { return f.names()&^t.apart == 0 }

// apply removes from the state all that the filter excludes.
func (f *filter) apply(r *state.Switch) {
	r.Ports = slices.DeleteFunc(r.Ports, func(p state.Port) bool { return lacks(f.ports, p.Name) })
	for i := range r.Ports {
		p := &r.Ports[i]
		other := func(t state.Transition) bool { return lacks(f.cos, int(t.CoS)) }
		p.ByCoS = slices.DeleteFunc(p.ByCoS, func(c state.CoS) bool { return lacks(f.cos, c.CoS) })
		p.Drops = slices.DeleteFunc(p.Drops, func(d state.Drop) bool { return lacks(f.cos, d.CoS) })
		p.PausedPeer, p.Paused = slices.DeleteFunc(p.PausedPeer, other), slices.DeleteFunc(p.Paused, other)
		p.Storms = slices.DeleteFunc(p.Storms, func(e state.StormEvent) bool { return lacks(f.cos, int(e.CoS)) })
	}
	r.Alarms = slices.DeleteFunc(r.Alarms, func(a state.Alarm) bool {
		return lacks(f.ports, a.Port) ||
			lacks(f.cos, a.CoS)
	})
	r.FDB = slices.DeleteFunc(r.FDB, func(e state.FDBEntry) bool {
		return lacks(f.ports, e.Port) ||
			lacks(f.vlans, int(e.VLAN))
	})
	if f.names() != 0 {
		r.Workers = nil
	}
	if f.names()&byVLAN != 0 {
		r.Ports = nil
	}
}

// lacks reports whether value is excluded by a list. An empty list excludes nothing.
func lacks[T comparable](wanted []T, value T) bool {
	return len(wanted) > 0 && !slices.Contains(wanted, value)
}
