package show

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/state"
)

// Filter limits a view to some ports, classes of service and VLANs. An empty list means all.
type Filter struct {
	Ports []string
	CoS   []int
	VLANs []int
}

// CheckPorts rejects ports that the switch does not have.
func (f *Filter) CheckPorts(r *state.Switch) error {
	var names []string
	for i := range r.Ports {
		names = append(names, r.Ports[i].Name)
	}
	for _, name := range f.Ports {
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
func (f *Filter) names() (all dimension) {
	if len(f.Ports) > 0 {
		all |= byPort
	}
	if len(f.CoS) > 0 {
		all |= byCoS
	}
	if len(f.VLANs) > 0 {
		all |= byVLAN
	}
	return all
}

// passes reports whether a table separates all dimensions that the filter selects by.
func (f *Filter) passes(t *table) bool { return f.names()&^t.apart == 0 }

// Apply removes from the state all that the filter excludes.
func (f *Filter) Apply(r *state.Switch) {
	r.Ports = slices.DeleteFunc(r.Ports, func(p state.Port) bool { return lacks(f.Ports, p.Name) })
	for i := range r.Ports {
		p := &r.Ports[i]
		other := func(t state.Transition) bool { return lacks(f.CoS, int(t.CoS)) }
		p.ByCoS = slices.DeleteFunc(p.ByCoS, func(c state.CoS) bool { return lacks(f.CoS, c.CoS) })
		p.Drops = slices.DeleteFunc(p.Drops, func(d state.Drop) bool { return lacks(f.CoS, d.CoS) })
		p.PausedPeer, p.Paused = slices.DeleteFunc(p.PausedPeer, other), slices.DeleteFunc(p.Paused, other)
		p.Storms = slices.DeleteFunc(p.Storms, func(e state.StormEvent) bool { return lacks(f.CoS, int(e.CoS)) })
	}
	r.Alarms = slices.DeleteFunc(r.Alarms, func(a state.Alarm) bool {
		return lacks(f.Ports, a.Port) ||
			lacks(f.CoS, a.CoS)
	})
	r.FDB = slices.DeleteFunc(r.FDB, func(e state.FDBEntry) bool {
		return lacks(f.Ports, e.Port) ||
			lacks(f.VLANs, int(e.VLAN))
	})
	if r.FCoE != nil {
		f.filterFCoE(r.FCoE)
	}
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
