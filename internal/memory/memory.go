// Package memory compares the memory that a switch takes with what the machine and the control
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
	// HugepageSize is that of the hugepages that a switch uses, in bytes.
	HugepageSize = 2 << 20
	// HugepageDirectory is where the kernel counts them.
	HugepageDirectory = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
	cgroupDirectory   = "/sys/fs/cgroup"
)

// What a switch takes beside its frames, as measured on Linux 6.
const (
	program   = 16 << 20 // the program itself, without tables
	perBuffer = 14       // dataplane: the frame, where it is bound, its place among the free ones
	perWorker = 8        // of each buffer: the queues
	perPort   = 1        // of each buffer: who holds it
	perEntry  = 4 * 24   // of the bridge's table, a quarter of whose slots are in use
	perSocket = 130      // of each buffer: the kernel's, struct xdp_buff_xsk of each port's socket
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

// Need is what a switch takes.
type Need struct {
	Frames  uint64 `json:"frames"`  // buffers, in hugepages if there are enough and there is no transmitter
	Program uint64 `json:"program"` // the program and its tables
	Kernel  uint64 `json:"kernel"`  // the kernel's tables, which count for no control group

	size        int    // of a buffer
	fixed       uint64 // what does not depend on the number of buffers
	each        uint64 // what a buffer takes in all
	transmitter bool   // the frames are in its map, which the kernel makes of small pages
}

// Of returns what a switch with a configuration takes.
func Of(c *config.Config) Need {
	buffers, ports, workers := uint64(c.Memory.Buffers), uint64(len(c.Ports)), uint64(max(1, len(c.Workers)))
	slots := uint64(1) << bits.Len(uint(max(1, c.Forwarding.Table)-1))
	tables, kernel := perBuffer+perWorker*workers+perPort*ports, perSocket*ports
	n := Need{size: c.Memory.BufferSize, fixed: program + workers*slots*perEntry, transmitter: c.HasTransmitter()}
	n.each = uint64(n.size) + tables + kernel
	n.Frames, n.Program, n.Kernel = buffers*uint64(n.size), n.fixed+buffers*tables, buffers*kernel
	return n
}

// Total returns the sum.
func (n *Need) Total() uint64 { return n.Frames + n.Program + n.Kernel }

// Most returns with how many buffers a switch would fit if so much is free. It may be 0.
func (n *Need) Most(free uint64) uint64 { return (free - min(free, n.fixed)) / n.each }

// Hugepages returns how many hugepages the frames take.
func (n *Need) Hugepages() uint64 { return (n.Frames + HugepageSize - 1) / HugepageSize }

// Limit is what may be taken in a place: of the machine, or of a control group.
type Limit struct {
	Place string // "this machine", or a control group with its limit
	Group bool
	Size  uint64 // of all
	Free  uint64 // that may still be taken, with what is only cached
}

// Limits returns those that there are, as far as they can be read.
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

// Remedy says how more of it comes free.
func (l *Limit) Remedy() string {
	if l.Group {
		return "raise its limit (systemd: MemoryMax=, docker: --memory)"
	}
	return "free memory"
}

// Shortage is why a switch does not fit.
type Shortage struct {
	Limit     Limit
	Takes     uint64 // of that
	Hugepages uint64 // needed; 0: the shortage is not of these
	Free      uint64 // hugepages
	Most      uint64 // buffers that would fit; 0: not even the program does, or that is not known
}

func (s *Shortage) Error() string {
	if s.Hugepages > 0 {
		return fmt.Sprintf("buffers larger than a page take %d hugepages of 2 MiB, and %d are free: set more aside "+
			"(vm.nr_hugepages), or lower "+
			"memory.buffers or memory.buffer_size", s.Hugepages, s.Free)
	}
	remedy := s.Limit.Remedy()
	if s.Most > 0 {
		remedy = fmt.Sprintf("lower memory.buffers to %d or less, or %s", s.Most, remedy)
	}
	return fmt.Sprintf("the switch takes %s of memory, and %s has %s left of %s: %s", Text(s.Takes), s.Limit.Place,
		Text(s.Limit.Free),
		Text(s.Limit.Size), remedy)
}

// Fits returns a *Shortage if the memory is too small: of the limits that are exceeded, the one
// that leaves the least. Frames in hugepages that are free count for no limit; with a transmitter
// there are none in hugepages.
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

// Room returns nil if there is room beside a switch that runs for a number of mappings of so many
// bytes each, and for what is to be allocated. Mappings in hugepages that are free count for no
// limit.
func Room(read Reader, mappings, each, allocated uint64) *Shortage {
	if free, err := FreeHugepages(read); err == nil && free >= mappings*((each+HugepageSize-1)/HugepageSize) {
		mappings = 0
	}
	return tightest(read, mappings*each+allocated, 0)
}

// tightest returns of the limits that are exceeded the one that leaves the least, nil if none is.
// What the kernel takes counts for no control group.
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

// Text writes a number of bytes.
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

// FreeHugepages returns how many hugepages nobody has. Those that somebody has mapped and not
// touched yet are free to the kernel's mind, but reserved.
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
	Path      string // as the kernel names it
	Directory string // of its files
	Second    bool   // version 2
}

// Groups returns the control groups of this process that a controller may limit, the innermost
// first, as far as they can be read. In version 2 all controllers share a tree; in version 1 each
// has its own.
func Groups(read Reader, controller string) []Group {
	groups, _ := groupsOf(read, controller)
	return groups
}

// Hidden returns why the limit of this process's control group can't be read, nil if it can, or
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
			hidden = fmt.Errorf("the limits of control group %s can't be read: no file system of control groups is "+
				"mounted here, as under ip netns exec, "+
				"and none can be opened: %w: give the switch cap_sys_admin at the start, or mount one at %s", parts[2],
				err, cgroupDirectory)
		} else {
			groups = append(groups, groupsBelow(root, path.Clean("/"+parts[2]), path.Clean(top), second)...)
		}
		if !second {
			return groups, hidden // version 2 has no controller that version 1 has
		}
	}
	return groups, hidden
}

// groupsBelow returns a group and those above it up to top, whose directory is root. A top that is
// not above it is that of another namespace, and then all that can be seen.
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

// limits returns what a group limits memory to. Beyond memory.high the kernel slows the process
// down without end, since a switch gives no memory back.
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
		if err != nil || err2 != nil || size > math.MaxInt64/2 { // "max", or version 1's way to say so
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
