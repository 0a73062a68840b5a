// Package memory compares the memory that a switch needs with what the machine and the control
// groups of this process have left. Sizes are in bytes.
package memory

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/config"
)

const (
	// HugepageSize is the size in bytes of the hugepages that a switch uses.
	HugepageSize = 2 << 20
	// HugepageDirectory has the kernel's counters of them.
	HugepageDirectory = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
	cgroupDirectory   = "/sys/fs/cgroup"
)

// Memory of a switch in addition to its frames, as measured on Linux 6.
const (
	program   = 16 << 20 // the program without tables
	perBuffer = 14       // per buffer, in dataplane: the frame, its destination, its place in the free list
	perWorker = 8        // per buffer and worker: the queues
	perPort   = 1        // per buffer and port: the holder
	perPart   = 16       // per buffer, if frames may occupy several: its place in a frame
	perEntry  = 4 * 24   // per entry of the bridge's table, a quarter of whose slots are used
	perSocket = 130      // per buffer and port: the kernel's struct xdp_buff_xsk of the port's socket
)

// Reader returns the contents of a file of /proc or /sys.
type Reader func(path string) (string, error)

// Read is the Reader of this machine.
func Read(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, unmounted); ok {
		controllers, file, _ := strings.Cut(rest, "/")
		directory, err := mountOf(controllers)
		if err != nil {
			return "", err
		}
		path = directory + "/" + file
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

// Need is the memory that a switch needs, in bytes.
type Need struct {
	Frames  uint64 `json:"frames"`  // frame buffers, in huge pages if there are enough and no transmitter
	Program uint64 `json:"program"` // the program and its tables
	Kernel  uint64 `json:"kernel"`  // tables of the kernel, which no control group counts

	size        int    // of a buffer
	fixed       uint64 // independent of the number of buffers
	each        uint64 // per buffer, in all
	transmitter bool   // the frames are in its map, for which the kernel uses small pages
}

// Of returns the memory that a switch with this configuration needs.
func Of(c *config.Config) Need {
	buffers, ports, workers := uint64(c.Memory.Buffers), uint64(len(c.Ports)), uint64(max(1, len(c.Workers)))
	slots := uint64(1) << bits.Len(uint(max(1, c.Forwarding.Table)-1))
	tables, kernel := perBuffer+perWorker*workers+perPort*ports, perSocket*ports
	if slices.ContainsFunc(c.Ports, func(p config.Port) bool { return p.Parts > 1 }) {
		tables += perPart
	}
	n := Need{size: c.Memory.BufferSize, fixed: program + workers*slots*perEntry, transmitter: c.HasTransmitter()}
	n.each = uint64(n.size) + tables + kernel
	n.Frames, n.Program, n.Kernel = buffers*uint64(n.size), n.fixed+buffers*tables, buffers*kernel
	return n
}

// Total returns the sum.
func (n *Need) Total() uint64 { return n.Frames + n.Program + n.Kernel }

// Most returns the number of buffers with which a switch fits into free bytes. It may be 0.
func (n *Need) Most(free uint64) uint64 { return (free - min(free, n.fixed)) / n.each }

// Hugepages returns the number of hugepages for the frames.
func (n *Need) Hugepages() uint64 { return (n.Frames + HugepageSize - 1) / HugepageSize }

// Limit is a limit on memory, of the machine or of a control group.
type Limit struct {
	Place string // "this machine", or a control group with its limit
	Group bool
	Size  uint64 // in total
	Free  uint64 // available, including caches
}

// Limits returns all limits that can be read.
func Limits(read Reader) (all []Limit) {
	if info := Fields(read, "/proc/meminfo"); info["MemAvailable"] != "" {
		all = append(all, Limit{Place: "this machine", Size: kibibytes(info["MemTotal"]),
			Free: kibibytes(info["MemAvailable"])})
	}
	for _, g := range Groups(read, "memory") {
		all = append(all, g.limits(read)...)
	}
	return all
}

// Remedy returns how to make more memory available.
func (l *Limit) Remedy() string {
	if l.Group {
		return "raise its limit (systemd: MemoryMax=, docker: --memory)"
	}
	return "free memory"
}

// Shortage is the reason why a switch does not fit.
type Shortage struct {
	Limit     Limit
	Takes     uint64 // of that limit
	Hugepages uint64 // number needed; 0: the shortage is not of hugepages
	Free      uint64 // number of free hugepages
	Most      uint64 // buffers that would fit; 0: the program alone does not fit, or unknown
}

func (s *Shortage) Error() string {
	if s.Hugepages > 0 {
		return fmt.Sprintf("buffers larger than a page need %d hugepages of 2 MiB, but %d are free: raise "+
			"vm.nr_hugepages, or lower memory.buffers or memory.buffer_size", s.Hugepages, s.Free)
	}
	remedy := s.Limit.Remedy()
	if s.Most > 0 {
		remedy = fmt.Sprintf("lower memory.buffers to %d or less, or %s", s.Most, remedy)
	}
	return fmt.Sprintf("the switch needs %s of memory, but %s has %s left of %s: %s", Text(s.Takes), s.Limit.Place,
		Text(s.Limit.Free), Text(s.Limit.Size), remedy)
}

// Fits returns a *Shortage if the memory is too small, for the exceeded limit with the least left.
// Frames in free hugepages count for no limit; with a transmitter, frames are not in hugepages.
func (n *Need) Fits(read Reader) error {
	free, err := FreeHugepages(read)
	frames := n.Frames
	switch pages := n.Hugepages(); {
	case err == nil && free >= pages:
		if !n.transmitter {
			frames = 0
		}
	case n.size > os.Getpagesize():
		return &Shortage{Hugepages: pages, Free: free}
	}
	short := tightest(read, frames+n.Program, n.Kernel)
	if short == nil {
		return nil
	}
	short.Most = n.Most(short.Limit.Free)
	return short
}

// Room returns nil if there is room for mappings of each bytes and allocated bytes in addition to a
// running switch. Mappings in free hugepages count for no limit.
func Room(read Reader, mappings, each, allocated uint64) *Shortage {
	if free, err := FreeHugepages(read); err == nil && free >= mappings*((each+HugepageSize-1)/HugepageSize) {
		mappings = 0
	}
	return tightest(read, mappings*each+allocated, 0)
}

// tightest returns the exceeded limit with the least left, or nil. The kernel's part counts for no
// control group.
func tightest(read Reader, process, kernel uint64) (worst *Shortage) {
	for _, l := range Limits(read) {
		takes := process
		if !l.Group {
			takes += kernel
		}
		if takes > l.Free && (worst == nil || l.Free < worst.Limit.Free) {
			worst = &Shortage{Limit: l, Takes: takes}
		}
	}
	return worst
}

// Text formats a number of bytes.
func Text(n uint64) string {
	switch {
	case n == math.MaxUint64:
		return "any amount"
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 1<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// FreeHugepages returns the number of free, unreserved hugepages. The kernel counts pages that are
// mapped but not yet touched as free and reserved.
func FreeHugepages(read Reader) (uint64, error) {
	text, err := read(HugepageDirectory + "free_hugepages")
	if err != nil {
		return 0, err
	}
	free, err := strconv.ParseUint(text, 10, 64)
	return free - min(free, number(read, HugepageDirectory+"resv_hugepages")), err
}

// Group is a control group (cgroups(7)) of this process, or one above it.
type Group struct {
	Path      string // the kernel's name
	Directory string // of its files
	Second    bool   // version 2
}

// Groups returns the control groups of this process that a controller may limit, innermost first,
// if they can be read. In version 2, all controllers share a tree; in version 1, each has its own.
func Groups(read Reader, controller string) []Group {
	groups, _ := groupsOf(read, controller)
	return groups
}

// Hidden returns why the limit of this process's control group can't be read, or nil if it can or
// there is no group.
func Hidden(read Reader) error {
	_, err := groupsOf(read, "memory")
	return err
}

func groupsOf(read Reader, controller string) (groups []Group, hidden error) {
	text, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(parts) < 3 {
			continue
		}
		second, of := parts[0] == "0" && parts[1] == "", controller
		if second {
			of = ""
		} else if !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		root, top, err := rootOf(read, parts[1], of)
		if err != nil {
			hidden = fmt.Errorf("can't read the limits of control group %s: no control group file system is mounted "+
				"here, as under `ip netns exec`, and none can be opened: %w: grant the switch cap_sys_admin at the "+
				"start, or mount one at %s", parts[2], err, cgroupDirectory)
		} else {
			groups = append(groups, groupsBelow(root, path.Clean("/"+parts[2]), path.Clean(top), second)...)
		}
		if !second {
			return groups, hidden // version 2 has none of the controllers that version 1 has
		}
	}
	return groups, hidden
}

// groupsBelow returns a group and those above it up to top, whose directory is root. If top is not
// above the group, it belongs to another namespace, and root is all that can be seen.
func groupsBelow(root, at, top string, second bool) (groups []Group) {
	below, inside := at, true
	if top != "/" {
		below, inside = strings.CutPrefix(at, top)
		inside = inside && (below == "" || below[0] == '/')
	}
	if !inside {
		return []Group{{at, root, second}}
	}
	for ; ; at, below = path.Dir(at), path.Dir(below) {
		groups = append(groups, Group{at, path.Join(root, below), second})
		if at == top || at == "/" {
			return groups
		}
	}
}

// limits returns a group's limits on memory. memory.high is one of them: a switch gives no memory
// back, so the kernel would slow it down forever.
func (g *Group) limits(read Reader) (all []Limit) {
	names, used, cached := []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes",
		[]string{"total_inactive_file", "total_active_file"}
	if g.Second {
		names, used, cached = []string{"memory.max", "memory.high"}, "memory.current",
			[]string{"inactive_file", "active_file"}
	}
	for _, name := range names {
		text, err := read(path.Join(g.Directory, name))
		size, err2 := strconv.ParseUint(text, 10, 64)
		if err != nil || err2 != nil || size > math.MaxInt64/2 { // "max", or the equivalent in version 1
			continue
		}
		taken := number(read, path.Join(g.Directory, used))
		stat, _ := read(path.Join(g.Directory, "memory.stat"))
		for line := range strings.Lines(stat) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && slices.Contains(cached, name) {
				pages, _ := strconv.ParseUint(value, 10, 64)
				taken -= min(taken, pages)
			}
		}
		all = append(all, Limit{fmt.Sprintf("control group %s (%s)", g.Path, name), true, size,
			size - min(size, taken)})
	}
	return all
}

func number(read Reader, path string) uint64 {
	text, _ := read(path)
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// Fields returns the lines of a file that have the form "name: value".
func Fields(read Reader, path string) map[string]string {
	all := map[string]string{}
	text, _ := read(path)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all
}

func kibibytes(text string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(text, " kB"), 10, 64)
	return n << 10
}
