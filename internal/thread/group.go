package thread

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Starves tells whether threads of this process that sleep and wake up again and again, as a worker
// does that takes turns with somebody, may keep all others from their CPU for seconds, the kernel's
// own threads too; and if so, whether it is because they are grouped by session. It reads files by
// read, which returns their text without space around it.
//
// That is a fault of Linux 6.13 to 6.18.44, and of 6.12 from .10 on: whenever a thread falls asleep
// or wakes up the weight of its group changes, and the scheduler then finds what is due to the
// group that runs more than it was (place_entity in reweight_entity, commit 6d71a9c61604, which
// 101f3498b4bd took back). It takes a group: that of a control group with the cpu controller
// (cgroups(7)) or else, in the root, that of a session (kernel.sched_autogroup_enabled, sched(7)).
// Seen on 6.18.44; the versions are those that are told of the two commits, and 6.19 and every
// later 6.12 are taken to have the first one only.
func Starves(read func(file string) (string, error)) (yes, bySession bool) {
	release, _ := read("/proc/sys/kernel/osrelease")
	major, minor, patch := KernelVersion(release)
	faulty := major == 6 && (minor == 12 && patch >= 10 || minor > 12 && minor < 18 || minor == 18 && patch < 45 ||
		minor == 19)
	if !faulty {
		return false, false
	}
	if hasProcessorGroup(read) {
		return true, false
	}
	autogroup, _ := read("/proc/sys/kernel/sched_autogroup_enabled")
	return autogroup == "1", autogroup == "1"
}

// hasProcessorGroup tells whether this process is in a control group with the cpu controller, or
// below one. The root is none.
func hasProcessorGroup(read func(file string) (string, error)) bool {
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(groups) { // number:controllers:path, in version 1; 0::path in version 2
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[1] != "":
			if slices.Contains(strings.Split(parts[1], ","), "cpu") && parts[2] != "/" {
				return true
			}
		default: // a container may see its own group as /, and that one has the file
			for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
				if _, err := read(path.Join("/sys/fs/cgroup", at, "cpu.weight")); err == nil {
					return true
				}
				if at == "/" {
					break
				}
			}
		}
	}
	return false
}

// KernelVersion returns the numbers of a kernel's release, such as 6, 18 and 44 of 6.18.44-amd64
// (uname(2)). What is not there is 0.
func KernelVersion(release string) (major, minor, patch int) {
	_, _ = fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch)
	return major, minor, patch
}
