package thread

import (
	"io/fs"
	"testing"
)

// TestStarves: on kernels with the fault, in a group of either kind.
func TestStarves(t *testing.T) {
	const on, release, groups = "/proc/sys/kernel/sched_autogroup_enabled", "/proc/sys/kernel/osrelease", "/proc/self/cgroup"
	const weight = "/sys/fs/cgroup/system.slice/sluice.service/cpu.weight"
	const version1, version2 = "3:cpu,cpuacct:/a\n0::/", "0::/system.slice/sluice.service"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"a session", map[string]string{release: "6.18.44-cloud", on: "1", groups: "0::/"}, true},
		{"the first with the fault", map[string]string{release: "6.12.10", on: "1"}, true},
		{"a kernel between them", map[string]string{release: "6.14.0-32-generic", on: "1"}, true},
		{"before the fault", map[string]string{release: "6.12.9+deb13-amd64", on: "1"}, false},
		{"after the fault", map[string]string{release: "6.18.45", on: "1"}, false},
		{"a newer one", map[string]string{release: "7.0.0-rc1", on: "1"}, false},
		{"no group", map[string]string{release: "6.18.44", on: "0", groups: "1:cpu:/\n0::/"}, false},
		{"a unit", map[string]string{release: "6.18.44", on: "0", groups: version2, weight: "100"}, true},
		{"a unit without the controller", map[string]string{release: "6.18.44", on: "0", groups: version2}, false},
		{"a group of version 1", map[string]string{release: "6.18.44", groups: version1}, true},
		{"nothing known", nil, false},
	} {
		got := Starves(func(file string) (string, error) {
			if text, ok := test.files[file]; ok {
				return text, nil
			}
			return "", fs.ErrNotExist
		})
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
