package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/state"
)

// filter limits what a view of show prints: to some ports, classes of service and VLANs. An
// empty list lets everything pass.
type filter struct {
	ports []string
	cos   []int
	vlans []int
}

const lastVLAN = 4094 // IEEE 802.1Q, 9.6

// The flags of a filter.
const (
	portFilter = "port"
	cosFilter  = "cos"
	vlanFilter = "vlan"
)

var allFilters = []string{portFilter, cosFilter, vlanFilter}

// filtersOf lists the filters that each view takes. A view that is not listed takes none.
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

// declare gives a view the flags of the filters that it takes.
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

// filterHelp lists, for each filter, the views that take it.
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

// checkRanges rejects numbers that no class or VLAN has.
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

// checkCoS rejects what --cos says if there is no such class of service.
func checkCoS(list []int) error {
	for _, cos := range list {
		if cos < 0 || cos > 7 {
			return cli.Usage(fmt.Errorf("--cos %d: classes of service are 0 to 7", cos))
		}
	}
	return nil
}

// checkPorts rejects a port that the switch does not have.
func (f *filter) checkPorts(r *state.Switch) error {
	var names []string
	for i := range r.Ports {
		names = append(names, r.Ports[i].Name)
	}
	for _, name := range f.ports {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--port %s: the switch has no such port; its ports are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// report returns a report without the ports that the filter leaves out.
func (f *filter) report(r *state.Switch) *state.Switch {
	if len(f.ports) == 0 {
		return r
	}
	only := *r
	only.Ports = nil
	for i := range r.Ports {
		if slices.Contains(f.ports, r.Ports[i].Name) {
			only.Ports = append(only.Ports, r.Ports[i])
		}
	}
	return &only
}

// tables returns what passes the filter. It leaves out a table that does not tell apart what the
// filter names, since the numbers in it are of the others as well.
func (f *filter) tables(all []table) (pass []table) {
	for _, t := range all {
		if t.keep(f.ports, "port") && t.keepCoS(f.cos) && t.keep(words(f.vlans), "vlan") {
			pass = append(pass, t)
		}
	}
	return pass
}

// keepCoS is keep for classes of service, which are rows in some tables and columns in others.
func (t *table) keepCoS(cos []int) bool {
	if len(cos) == 0 || !slices.ContainsFunc(t.columns, column.ofPriority) {
		return t.keep(words(cos), "cos", "priority", "queue", "pg") // beside a queue, pg is an ETS group
	}
	var keys []string
	for _, n := range cos {
		keys = append(keys, priorityKey(n))
	}
	goes := func(c column) bool { return c.ofPriority() && !slices.Contains(keys, c.key) }
	for i, row := range t.rows {
		var rest []any
		for j, value := range row {
			if !goes(t.columns[j]) {
				rest = append(rest, value)
			}
		}
		t.rows[i] = rest
	}
	t.columns = slices.DeleteFunc(t.columns, goes)
	return true
}

// keep removes the rows whose value in a column is not one of those wanted, unless none is
// wanted. The column is the first that has one of the keys; keep reports whether there is one.
func (t *table) keep(wanted []string, keys ...string) bool {
	if len(wanted) == 0 {
		return true
	}
	for _, key := range keys {
		at := slices.IndexFunc(t.columns, func(c column) bool { return c.key == key })
		if at < 0 {
			continue
		}
		if t.rows = slices.DeleteFunc(t.rows, func(row []any) bool {
			return !slices.Contains(wanted, fmt.Sprint(row[at]))
		}); len(t.rows) == 0 && t.none == "" {
			t.none = "none"
		}
		return true
	}
	return false
}

// priorityKey is the key of the column of a class of service in a table with a column for each.
func priorityKey(cos int) string { return fmt.Sprint("priority", cos) }

// ofPriority reports whether a column is that of one class of service.
func (c column) ofPriority() bool {
	return len(c.key) == len("priority0") && strings.HasPrefix(c.key, "priority")
}

// words writes numbers as tables hold them.
func words(numbers []int) (all []string) {
	for _, n := range numbers {
		all = append(all, fmt.Sprint(n))
	}
	return all
}
