package thread

import (
	"fmt"
	"path"
	"strings"
)

// Starves tells whether threads of this process that sleep and wake up again and again, as a worker does that takes turns with somebody, may
// keep all others from their CPU for seconds, the kernel's own threads too. It reads files by read, which returns their text without
// space around it.
//
// That is a fault of Linux 6.13 to 6.18.44, and of 6.12 from .10 on: whenever a thread falls asleep or wakes up the weight of its group
// changes, and the scheduler then finds what is due to the group that runs more than it was (place_entity in reweight_entity, commit
// 6d71a9c61604, which 101f3498b4bd took back). It takes a group: that of a session (kernel.sched_autogroup_enabled, sched(7)), or a
// control group with the cpu controller (cgroups(7)).
func Starves(read func(file string) (string, error)) bool {
	release, _ := read("/proc/sys/kernel/osrelease")
	var major, minor, patch int
	fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch)
	version := major<<16 | minor<<8 | min(patch, 255)
	if version < 6<<16|12<<8|10 || version > 6<<16|18<<8|44 {
		return false
	}
	autogroup, _ := read("/proc/sys/kernel/sched_autogroup_enabled")
	return autogroup == "1" || hasProcessorGroup(read)
}

// hasProcessorGroup tells whether this process is in a control group, not the root, with the cpu controller.
func hasProcessorGroup(read func(file string) (string, error)) bool {
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(groups) { // number:controllers:path; in version 2 0::path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[2] == "/" {
			continue
		}
		if strings.Contains(","+parts[1]+",", ",cpu,") {
			return true
		}
		if _, err := read(path.Join("/sys/fs/cgroup", parts[2], "cpu.weight")); parts[1] == "" && err == nil {
			return true
		}
	}
	return false
}
