package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/config"
)

func parse(t interface{ Fatal(...any) }, text string) *config.Config {
	c, err := config.Parse("switch.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// machine holds the files of a machine.
type machine map[string]string

func (m machine) read(path string) (string, error) {
	text, ok := m[path]
	if !ok {
		return "", fs.ErrNotExist
	}
	return text, nil
}

// drawMachine draws a machine with groups of either version, and returns what each limit leaves.
func drawMachine(t *rapid.T) (m machine, free uint64, groups []uint64) {
	size := func(label string) uint64 { return rapid.Uint64Range(1, 4<<20).Draw(t, label) << 10 }
	m, free = machine{}, size("available")
	m["/proc/meminfo"] = fmt.Sprintf("MemTotal:  8388608 kB\nMemAvailable:  %d kB", free>>10)
	second := rapid.Bool().Draw(t, "version 2")
	root, limit, used, cached, none := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
		"total_inactive_file", "9223372036854771712"
	m["/proc/self/cgroup"] = "9:cpu:/x\n4:memory:/a/b\n0::/"
	if second {
		root, limit, used, cached, none = "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "max"
		m["/proc/self/cgroup"] = "0::/a/b"
	}
	for _, at := range []string{root, root + "/a", root + "/a/b"} {
		if rapid.Bool().Draw(t, "unlimited") {
			m[at+"/"+limit] = none
			continue
		}
		most := size("limit")
		taken := rapid.Uint64Range(0, 5<<30).Draw(t, "taken")
		pages := rapid.Uint64Range(0, taken).Draw(t, "cached")
		m[at+"/"+limit], m[at+"/"+used] = fmt.Sprint(most), fmt.Sprint(taken)
		m[at+"/memory.stat"] = fmt.Sprintf("anon 5\n%s %d\nshmem 7", cached, pages)
		left := uint64(0)
		if taken-pages < most {
			left = most - (taken - pages)
		}
		groups = append(groups, left)
	}
	return m, free, groups
}

// TestFits: a switch fits if it fits the machine and each of its control groups. With the
// recommended number of buffers, it fits.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, free, groups := drawMachine(t)
		text := func(buffers uint64) string {
			return fmt.Sprintf("memory: {buffers: %d}\nports: [{device: sw0, speed: 1G}, {device: sw1, speed: 1G}]\n",
				buffers)
		}
		need := Of(parse(t, text(rapid.Uint64Range(256, 4<<20).Draw(t, "buffers"))))
		want := need.Total() <= free
		for _, left := range groups {
			want = want && need.Frames+need.Program <= left
		}
		err := need.Fits(m.read)
		var short *Shortage
		if (err == nil) != want || err != nil &&
			(!errors.As(err, &short) || !strings.Contains(err.Error(), short.Limit.Place)) {
			t.Fatalf("%+v on %v: %v", need, m, err)
		}
		if short == nil || short.Most < 256 {
			return
		}
		less := Of(parse(t, text(short.Most)))
		if err := less.Fits(m.read); err != nil {
			t.Fatalf("%d buffers: %v, as recommended by %v", short.Most, err, short)
		}
	})
}

// TestHugepages: frames in free hugepages count for no limit, and buffers larger than a page need
// hugepages.
func TestHugepages(t *testing.T) {
	const ports = "ports: [{device: sw0, speed: 1G}]\n"
	small := Of(parse(t, "memory: {buffers: 1048576}\n"+ports)) // 2 GiB
	large := Of(parse(t, "memory: {buffers: 1024, buffer_size: 65536B}\n"+ports))
	m := machine{"/proc/meminfo": "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB"}
	for _, c := range []struct {
		free        string
		small, wide bool
	}{{"", false, false}, {"31", false, false}, {"32", false, true}, {"1023", false, true}, {"1024", true, true}} {
		if m[HugepageDirectory+"free_hugepages"] = c.free; c.free == "" {
			delete(m, HugepageDirectory+"free_hugepages")
		}
		if err := small.Fits(m.read); (err == nil) != c.small {
			t.Errorf("%q hugepages: %v", c.free, err)
		}
		if err := large.Fits(m.read); (err == nil) != c.wide || err != nil &&
			!strings.Contains(err.Error(), "32 hugepages") {
			t.Errorf("%q hugepages: %v", c.free, err)
		}
	}
}

// TestReservedHugepages: hugepages reserved by others are not free.
func TestReservedHugepages(t *testing.T) {
	need := Of(parse(t, "memory: {buffers: 1048576}\nports: [{device: sw0, speed: 1G}]\n")) // 1024 hugepages
	m := machine{"/proc/meminfo": "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB", HugepageDirectory +
		"free_hugepages": "1030"}
	for reserved, fits := range map[string]bool{"0": true, "6": true, "7": false, "1031": false} {
		m[HugepageDirectory+"resv_hugepages"] = reserved
		if err := need.Fits(m.read); (err == nil) != fits {
			t.Errorf("%s reserved: %v", reserved, err)
		}
	}
}

// TestTransmitterWithoutHugepages: with a transmitter, the frames are in its map, for which the
// kernel uses no hugepages.
func TestTransmitterWithoutHugepages(t *testing.T) {
	text := "memory: {buffers: 1048576}\nports: [{device: sw0, speed: 1G}]\n"
	m := machine{"/proc/meminfo": "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB", HugepageDirectory +
		"free_hugepages": "1024"}
	with, without := Of(parse(t, text+"transmitter: {cpu: worker}\n")), Of(parse(t, text))
	if err := without.Fits(m.read); err != nil {
		t.Error(err)
	}
	if err := with.Fits(m.read); err == nil || !strings.Contains(err.Error(), "the switch needs 2.") {
		t.Errorf("with a transmitter: %v", err)
	}
}

// TestHigh: memory.high, which would slow the switch down forever, is a limit as well.
func TestHigh(t *testing.T) {
	need := Of(parse(t, "ports: [{device: sw0, speed: 1G}]\n"))
	m := machine{"/proc/self/cgroup": "0::/a", "/sys/fs/cgroup/a/memory.max": "max",
		"/sys/fs/cgroup/a/memory.high": "50000000"}
	if err := need.Fits(m.read); err == nil ||
		!strings.Contains(err.Error(), "control group /a (memory.high) has 47 MiB left of 47 MiB") {
		t.Error(err)
	}
}

// TestUnknown: if nothing can be read, nothing is refused.
func TestUnknown(t *testing.T) {
	need := Of(parse(t, "memory: {buffers: 16777216}\nports: [{device: sw0, speed: 1G}]\n"))
	if err := need.Fits(machine{}.read); err != nil {
		t.Error(err)
	}
}

// TestGroupsElsewhere: the file system of control groups is found where it is mounted, and read
// without a mount if it is not mounted. If that fails, the reason is reported.
func TestGroupsElsewhere(t *testing.T) {
	need := Of(parse(t, "ports: [{device: sw0, speed: 1G}]\n"))
	const sysfs, limit = "22 1 0:21 / /sys rw - sysfs home rw\n", "50000000"
	for _, c := range []struct {
		name, cgroup, mounts, directory, file string
		hidden                                bool
	}{
		{"2, under ip netns exec", "0::/a", sysfs, "cgroup:", "memory.max", false},
		{"1, under ip netns exec", "4:memory,x:/a\n0::/", sysfs, "cgroup:memory,x", "memory.limit_in_bytes", false},
		{"2, in vain", "0::/a", sysfs, "", "", true},
		{"1, in vain", "4:memory:/a\n0::/", sysfs, "", "", true},
		{"2, elsewhere", "0::/a", sysfs + "23 1 0:22 / /cg rw - cgroup2 none rw\n", "/cg", "memory.max", false},
		{"1, of a container", "4:memory:/b/a", "23 1 0:22 /b /cg rw - cgroup none rw,memory\n", "/cg",
			"memory.limit_in_bytes", false},
	} {
		m := machine{"/proc/self/cgroup": c.cgroup, "/proc/self/mountinfo": c.mounts}
		if c.directory != "" {
			m[c.directory+"/cgroup.procs"], m[c.directory+"/a/"+c.file] = "1", limit
		}
		if err := need.Fits(m.read); (err == nil) != c.hidden || err != nil &&
			!strings.Contains(err.Error(), "/a ("+c.file+") has 47 MiB left") {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := Hidden(m.read); (err != nil) != c.hidden {
			t.Errorf("%s: hidden: %v", c.name, err)
		}
	}
}

// TestUnmounted reads this machine's control groups as if none were mounted.
func TestUnmounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to open a file system")
	}
	hides := func(file string) (string, error) {
		if file == "/proc/self/mountinfo" {
			return "", nil
		}
		return Read(file)
	}
	if err := Hidden(hides); err != nil {
		t.Error(err)
	}
	seen := Groups(hides, "memory")
	if want := Groups(Read, "memory"); len(seen) == 0 || len(seen) != len(want) || len(Opened()) == 0 {
		t.Fatalf("%v, want %v", seen, want)
	}
	if _, err := Read(seen[0].Directory + "/cgroup.procs"); err != nil {
		t.Error(err)
	}
}

// TestLongFrames: where frames may occupy several buffers, a table says which.
func TestLongFrames(t *testing.T) {
	const text = "memory: {buffers: 1048576}\nports: [{device: sw0, speed: 1G, mtu: %d}]\n"
	short, long := Of(parse(t, fmt.Sprintf(text, 1646))), Of(parse(t, fmt.Sprintf(text, 1647)))
	if more := long.Total() - short.Total(); more != 16<<20 {
		t.Errorf("frames of several buffers need %d bytes more, want 16 for each buffer", more)
	}
	if most := long.Most(long.Total()); most != 1<<20 {
		t.Errorf("%d buffers fit into what 1048576 need", most)
	}
}
