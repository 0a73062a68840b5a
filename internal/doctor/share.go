package doctor

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// What the control group of this process may have of the machine (cgroups(7)): that of a container, or of a unit.

const cgroupDirectory = "/sys/fs/cgroup"

// limits returns what files of a controller say for the control group of this process and for those above it, as far as there are
// any. In version 2 all controllers share a tree; in version 1 each has its own.
func (e *examination) limits(controller, version2, version1 string) (texts []string) {
	text, _ := e.Read("/proc/self/cgroup")
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(parts) < 3 {
			continue
		}
		root, file := cgroupDirectory, version2
		if parts[0] != "0" || parts[1] != "" {
			root, file = path.Join(cgroupDirectory, controller), version1
			if !slices.Contains(strings.Split(parts[1], ","), controller) {
				continue
			}
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			if text, err := e.Read(path.Join(root, at, file)); err == nil {
				texts = append(texts, text)
			}
			if at == "/" {
				break
			}
		}
	}
	return texts
}

// memoryShare returns how much memory the control group lets this process have, in bytes: as much as there is if it doesn't say. What it
// has taken already is small beside that.
func (e *examination) memoryShare() uint64 {
	least := uint64(math.MaxUint64)
	for _, text := range e.limits("memory", "memory.max", "memory.limit_in_bytes") {
		least = min(least, limit(text))
	}
	return least
}

// processorShare looks whether the control group lets workers poll without rest. Version 1 keeps the two numbers in two files.
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
		e.warn("cpus", "", "the control group of this process lets it have the time of %.3g, and %s poll on %d without rest: they are stopped "+
			"whenever that is used up. Start it without such a limit (docker: --cpus, systemd: CPUQuota=)", least, who, len(pollers))
	}
}
