package doctor

import (
	"math"
	"path"
	"strconv"
	"strings"

	"sluice/internal/memory"
)

// What the control group of this process may have of the machine (cgroups(7)): that of a container,
// or of a unit.

// limits returns what files of a controller say for the control group of this process and for those
// above it, as far as there are any.
func (e *examination) limits(controller, version2, version1 string) (texts []string) {
	for _, g := range memory.Groups(e.Read, controller) {
		file := version1
		if g.Second {
			file = version2
		}
		if text, err := e.Read(path.Join(g.Directory, file)); err == nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// processorShare looks whether the control group lets workers poll without rest. Version 1 keeps
// the two numbers in two files.
func processorShare(e *examination) {
	if e.Running != nil { // in a group of its own
		return
	}
	least := math.Inf(1) // CPUs
	for _, text := range e.limits("cpu", "cpu.max", "cpu.cfs_quota_us") {
		quota, period, one := strings.Cut(text, " ") // µs, in each period
		if !one {
			period = "100000" // the default of version 1
		}
		if q, err := strconv.ParseFloat(quota, 64); err == nil && q > 0 { // else "max", or -1
			if p, err := strconv.ParseFloat(period, 64); err == nil && p > 0 {
				least = min(least, q/p)
			}
		}
	}
	if pollers, who := e.pollers(); least <= float64(len(pollers)) {
		e.warn("cpus", "", "the control group of this process lets it have the time of %.3g, and %s poll on %d "+
			"without rest: they are stopped "+
			"whenever that is used up. Start it without such a limit (docker: --cpus, systemd: CPUQuota=)", least, who,
			len(pollers))
	}
}
