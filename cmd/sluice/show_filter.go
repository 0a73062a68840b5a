package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/report/show"
)

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
	"dcbx":           {portFilter},
	"drops":          {portFilter, cosFilter},
	"ets":            {portFilter, cosFilter},
	"fcoe":           {portFilter, vlanFilter},
	"fcoe counters":  {portFilter},
	"fcoe enodes":    {portFilter, vlanFilter},
	"fcoe fcfs":      {portFilter, vlanFilter},
	"fcoe sessions":  {portFilter, vlanFilter},
	"fdb":            {portFilter, vlanFilter},
	"lldp":           {portFilter},
	"lldp neighbors": {portFilter},
	"pfc":            {portFilter, cosFilter},
	"pfcwd":          {portFilter, cosFilter},
	"pg":             {portFilter, cosFilter},
	"ports":          {portFilter},
	"queues":         {portFilter, cosFilter},
	"watermarks":     {portFilter, cosFilter},
}

// declareFilters adds to a view, and the views below it, the flags of their filters. above is the
// names of the views above it.
func declareFilters(view *cobra.Command, above string, f *show.Filter) {
	flags, path := view.Flags(), above+view.Name()
	for _, below := range view.Commands() {
		declareFilters(below, path+" ", f)
	}
	for _, name := range filtersOf[path] {
		switch name {
		case portFilter:
			flags.StringSliceVar(&f.Ports, name, nil, "show only these ports (repeatable)")
			cli.CompleteWith(view, name, portNames)
		case cosFilter:
			flags.IntSliceVar(&f.CoS, name, nil, "show only these classes of service, 0 to 7 (repeatable)")
		case vlanFilter:
			flags.IntSliceVar(&f.VLANs, name, nil, "show only these VLANs, 1 to 4094 (repeatable)")
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
func checkRanges(f *show.Filter) error {
	if err := checkCoS(f.CoS); err != nil {
		return err
	}
	for _, vlan := range f.VLANs {
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
