package thread

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Starves reports whether threads of this process that repeatedly sleep and wake up, like a worker
// that takes turns with a partner, may keep all other threads from their CPU for seconds, the
// kernel's own included; and if so, whether the cause is their grouping by session. read returns
// the text of a file without surrounding space.
//
// The fault is in Linux 6.13 to 6.18.44, and in 6.12 from 6.12.10 on. When a thread falls asleep or
// wakes up, the weight of its group changes, and the scheduler then credits the running group with
// more than it was due (place_entity in reweight_entity, commit 6d71a9c61604, which 101f3498b4bd
// reverted). The fault needs a group: that of a control group with the cpu controller (cgroups(7))
// or, in the root, that of a session (kernel.sched_autogroup_enabled, sched(7)). It was seen on
// 6.18.44. The versions are those reported to have the two commits; 6.19 and every later 6.12 are
// assumed to have only the first.
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

// hasProcessorGroup reports whether this process is in a control group with the cpu controller, or
// below one. The root does not count.
func hasProcessorGroup(read func(file string) (string, error)) bool {
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(groups) { // version 1: number:controllers:path; version 2: 0::path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[1] != "":
			if slices.Contains(strings.Split(parts[1], ","), "cpu") && parts[2] != "/" {
				return true
			}
		default: // a container may see its own group as /, which then has the file
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

// KernelVersion returns the numbers of a kernel release, such as 6, 18 and 44 for 6.18.44-amd64
// (uname(2)). Missing ones are 0.
func KernelVersion(release string) (major, minor, patch int) {
	_, _ = fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch)
	return major, minor, patch
}
