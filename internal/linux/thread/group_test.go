package thread

import (
	"io/fs"
	"testing"
)

// TestStarves covers kernels with the fault and without, and groups of both kinds.
func TestStarves(t *testing.T) {
	const on, release, groups = "/proc/sys/kernel/sched_autogroup_enabled", "/proc/sys/kernel/osrelease",
		"/proc/self/cgroup"
	const slice = "/sys/fs/cgroup/system.slice"
	const version1, version2 = "3:cpu,cpuacct:/a\n0::/", "0::/system.slice/sluice.service"
	for _, test := range []struct {
		name           string
		files          map[string]string
		yes, bySession bool
	}{
		{"a session", map[string]string{release: "6.18.44-cloud", on: "1", groups: "0::/"}, true, true},
		{"the first with the fault", map[string]string{release: "6.12.10", on: "1"}, true, true},
		{"a kernel between them", map[string]string{release: "6.14.0-32-generic", on: "1"}, true, true},
		{"before the fault", map[string]string{release: "6.12.9+deb13-amd64", on: "1"}, false, false},
		{"after the fault", map[string]string{release: "6.18.45", on: "1"}, false, false},
		{"a newer one", map[string]string{release: "7.1.0-rc1", on: "1"}, false, false},
		{"no group", map[string]string{release: "6.18.44", on: "0", groups: "1:cpu:/\n0::/"}, false, false},
		{"a unit", map[string]string{release: "6.18.44", on: "0", groups: version2, slice +
			"/sluice.service/cpu.weight": "100"}, true, false},
		{"a unit of a slice", map[string]string{release: "6.18.44", on: "1", groups: version2, slice +
			"/cpu.weight": "100"}, true, false},
		{"a unit without the controller", map[string]string{release: "6.18.44", on: "0", groups: version2}, false,
			false},
		{"a container", map[string]string{release: "6.18.44", on: "1", groups: "0::/",
			"/sys/fs/cgroup/cpu.weight": "100"}, true, false},
		{"a group of version 1", map[string]string{release: "6.18.44", groups: version1}, true, false},
		{"nothing known", nil, false, false},
	} {
		yes, bySession := Starves(func(file string) (string, error) {
			if text, ok := test.files[file]; ok {
				return text, nil
			}
			return "", fs.ErrNotExist
		})
		if yes != test.yes || bySession != test.bySession {
			t.Errorf("%s: %v, by session %v; want %v, %v", test.name, yes, bySession, test.yes, test.bySession)
		}
	}
}
