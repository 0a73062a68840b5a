package doctor

import (
	"math"
	"path"
	"strconv"
	"strings"

	"sluice/internal/control/memory"
)

// The share of the machine that the control group of this process has (cgroups(7)): that of a
// container or a unit.

// limits returns the contents of a controller's files for the control group of this process and
// those above it, where they exist.
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

// processorShare checks whether the control group lets workers poll without rest. Version 1 keeps
// the two numbers in two files.
func processorShare(e *examination) {
	if e.Running != nil { // it has its own group
		return
	}
	least := math.Inf(1) // CPUs
	for _, text := range e.limits("cpu", "cpu.max", "cpu.cfs_quota_us") {
		quota, period, one := strings.Cut(text, " ") // µs per period
		if !one {
			period = "100000" // the default in version 1
		}
		if q, err := strconv.ParseFloat(quota, 64); err == nil && q > 0 { // otherwise "max" or -1
			if p, err := strconv.ParseFloat(period, 64); err == nil && p > 0 {
				least = min(least, q/p)
			}
		}
	}
	if pollers, who := e.pollers(); least <= float64(len(pollers)) {
		e.warn("cpus", "", "the control group of this process has the time of %.3g CPUs, but %s poll on %d without "+
			"rest: the kernel stops them whenever that time is used up. Start the switch without such a limit "+
			"(docker: --cpus, systemd: CPUQuota=)", least, who, len(pollers))
	}
}
