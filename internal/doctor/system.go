package doctor

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/control/memory"
	"sluice/internal/linux/confine"
	"sluice/internal/linux/thread"
	"sluice/pmd/afxdp"
)

// The checks of the machine as a whole.

const (
	hugepageSize      = memory.HugepageSize
	hugepageDirectory = memory.HugepageDirectory
)

// configuration reports errors in the file, or that there is none.
func configuration(e *examination) {
	const subject = "configuration"
	var all config.Errors
	var one *config.Error
	switch {
	case errors.As(e.Problem, &all):
	case errors.As(e.Problem, &one):
		all = config.Errors{one}
	case e.Problem != nil:
		e.fail(subject, "", "%v", e.Problem)
	case e.Config == nil:
		e.ok(subject, "none given, so only the machine is checked: name a file with -c")
	default:
		e.ok(subject, "%d ports, %d buffers of %d bytes", len(e.Config.Ports), e.Config.Memory.Buffers,
			e.Config.Memory.BufferSize)
	}
	for _, problem := range all {
		e.add(Finding{Status: Error, Subject: subject, Text: problem.Problem, Fix: problem.Remedy,
			At: fmt.Sprintf("%s:%d:%d", problem.File, problem.Line, problem.Column)})
	}
}

// running reports whether a switch answers, whether its control loop runs, and whether it has had
// lossless drops.
func running(e *examination) {
	const subject = "switch"
	if e.Running != nil && e.Running.StalledNS > 0 {
		e.fail(subject, "", "its control loop has not run for %v: it does not follow links, and commands wait. A "+
			"device may be slow to respond; the last lines of the log say which. Restart the switch if this lasts",
			e.Running.stalled().Round(time.Second))
	}
	if e.Running != nil && e.Running.OtherLosses() != "" {
		e.warn(subject, "sluice show drops --nonzero --socket "+quoted(e.Running.Socket), "running;%s",
			e.Running.OtherLosses())
	}
	switch {
	case e.Silent != nil:
		e.warn(subject, "", "one may be running, but does not answer; the other checks assume that none runs: %v",
			e.Silent)
	case e.Running == nil:
		e.ok(subject, "no switch answers: the checks are for one that starts now")
	case e.Running.LosslessDrops > 0:
		e.fail(subject, "sluice show drops --nonzero --socket "+quoted(e.Running.Socket),
			"running; it has dropped %d frames of lossless classes", e.Running.LosslessDrops)
	default:
		e.ok(subject, "running with %d ports; it has dropped no lossless frame", len(e.Running.Ports))
	}
}

// kernel checks the kernel's version for known behaviour of AF_XDP.
func kernel(e *examination) {
	const subject = "kernel"
	release, err := e.Read("/proc/sys/kernel/osrelease")
	if err != nil {
		e.warn(subject, "", "can't read its version: %v", err)
		return
	}
	major, minor, patch := thread.KernelVersion(release)
	version := major<<16 | minor<<8 | min(patch, 255)
	switch {
	case version < 6<<16:
		e.warn(subject, "", "%s: Sluice is made for Linux 6, and not tested on older kernels: boot a "+
			"newer one", release)
	case version < 6<<16|17<<8|10 && e.mayHaveVeth():
		e.warn(subject, "",
			"%s: before 6.17.10, a veth device may drop frames for which its peer has no room, and copy mode "+
				"sends only 32 frames per system call: boot a newer kernel if ports are veth", release)
	default:
		e.ok(subject, "%s", release)
	}
}

// olderThan reports whether the kernel is older than a version, as far as known.
func (e *examination) olderThan(major, minor int) bool {
	release, err := e.Read("/proc/sys/kernel/osrelease")
	has, hasMinor, _ := thread.KernelVersion(release)
	return err == nil && has > 0 && has<<16|hasMinor < major<<16|minor
}

// mayHaveVeth reports whether a port is, or may be, a veth device.
func (e *examination) mayHaveVeth() bool {
	return e.Config == nil || slices.ContainsFunc(e.Config.Ports, func(p config.Port) bool {
		d, err := e.Device(p.Device)
		return err != nil || d.Kind == "veth"
	})
}

// afXDP tries to create a socket.
func afXDP(e *examination) {
	const subject = "AF_XDP"
	switch err := e.Socket(unix.AF_XDP); {
	case err == nil:
		e.ok(subject, "the kernel has AF_XDP sockets")
	case errors.Is(err, unix.EPERM):
		e.ok(subject, "the kernel has AF_XDP sockets, but this process may not open any")
	case errors.Is(err, unix.EAFNOSUPPORT) && e.status["Seccomp"] == "2":
		e.fail(subject, "", "no AF_XDP sockets: a system call filter refuses them (systemd: add AF_XDP to "+
			"RestrictAddressFamilies=), or the kernel was built without CONFIG_XDP_SOCKETS=y")
	case errors.Is(err, unix.EAFNOSUPPORT):
		e.fail(subject, "", "the kernel has no AF_XDP sockets: boot one that was built with CONFIG_XDP_SOCKETS=y")
	default:
		e.fail(subject, "", "can't create an AF_XDP socket: %v", err)
	}
}

// has reports whether this process has a capability.
func (e *examination) has(number int) bool { return bit(e.status["CapEff"], number) }

func bit(mask string, number int) bool {
	set, _ := strconv.ParseUint(mask, 16, 64)
	return set>>number&1 == 1
}

// capabilities lists the capabilities that a switch started by this process would lack. Locked
// memory has its own check.
func capabilities(e *examination) {
	const subject = "capabilities"
	if _, known := e.status["CapEff"]; !known {
		e.warn(subject, "", "can't read the capabilities of this process")
		return
	}
	var missing, unbounded []string
	for _, c := range confine.Needs {
		if c.Number == unix.CAP_IPC_LOCK || e.has(c.Number) {
			continue
		}
		missing = append(missing, c.Name)
		if !bit(e.status["CapBnd"], c.Number) {
			unbounded = append(unbounded, strings.ToUpper(c.Name))
		}
	}
	switch {
	case len(missing) == 0 && e.Filtered():
		e.fail(subject, "", "%v", afxdp.ErrFiltered)
	case e.inUserNamespace():
		e.fail(subject, "", "this process is in a user namespace, as in a rootless container, and may not load XDP "+
			"programs whatever its capabilities: run as root of the machine")
	case len(unbounded) > 0: // capabilities granted inside do not reach the process
		e.fail(subject, "",
			"this process lacks %s, and its bounding set lacks %s: start the container or unit with them "+
				"(docker: --cap-add, systemd: CapabilityBoundingSet=)", strings.Join(missing, ", "),
			strings.Join(unbounded, ", "))
	case len(missing) > 0 && e.status["NoNewPrivs"] == "1":
		e.fail(subject, "", "this process lacks %s, and can't gain privileges (no_new_privs): run as root, or "+
			"start the container or unit without that flag (docker: no-new-privileges, systemd: NoNewPrivileges=)",
			strings.Join(missing, ", "))
	case len(missing) > 0:
		e.fail(subject, e.grant(), "this process lacks %s: run as root, or grant the missing capabilities to "+
			"the program",
			strings.Join(missing, ", "))
	default:
		e.ok(subject, "this process has all that a switch needs")
	}
}

// inUserNamespace reports whether user 0 here is not user 0 of the machine.
func (e *examination) inUserNamespace() bool {
	text, err := e.Read("/proc/self/uid_map") // first user here, first user outside, number of users
	return err == nil && !slices.Equal(strings.Fields(text), []string{"0", "0", fmt.Sprint(uint32(math.MaxUint32))})
}

// grant returns the command that gives the program file all the capabilities that it needs, and
// more. They apply to every user who starts it.
func (e *examination) grant(more ...string) string {
	names := slices.Clone(more)
	for _, c := range confine.Needs {
		names = append(names, c.Name)
	}
	return fmt.Sprintf("setcap %s+ep %s", strings.Join(names, ","), quoted(e.Program))
}

// lockedMemory compares the limit with the memory that sockets lock: the whole memory for each
// port.
func lockedMemory(e *examination) {
	const subject = "memlock"
	if e.has(unix.CAP_IPC_LOCK) {
		e.ok(subject, "not limited: this process has cap_ipc_lock")
		return
	}
	soft, hard, known := e.memlock()
	if !known {
		e.warn(subject, "", "can't read the limit from /proc/self/limits")
		return
	}
	if e.Config == nil {
		e.ok(subject, "limited to %s", memory.Text(soft))
		return
	}
	ports := len(e.Config.Ports)
	need := e.memoryBytes() * uint64(ports)
	switch text := fmt.Sprintf("%s may be locked, and %d ports need %s", memory.Text(soft), ports, memory.Text(need)); {
	case need <= soft:
		e.ok(subject, "%s", text)
	case need <= hard:
		e.fail(subject, fmt.Sprintf("ulimit -S -l %d", (need+1023)/1024),
			"%s: raise the limit in the shell that starts the switch (systemd: LimitMEMLOCK=%d)", text, need)
	default:
		e.fail(subject, e.grant(),
			"%s, more than the hard limit of %s: grant cap_ipc_lock (systemd: LimitMEMLOCK=%d)",
			text, memory.Text(hard), need)
	}
}

// memlock returns the soft and hard limits of locked memory in bytes.
func (e *examination) memlock() (soft, hard uint64, known bool) {
	text, _ := e.Read("/proc/self/limits")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			if f := strings.Fields(rest); len(f) >= 2 {
				return limit(f[0]), limit(f[1]), true
			}
		}
	}
	return 0, 0, false
}

func limit(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return math.MaxUint64 // "unlimited"
	}
	return n
}

// memoryBytes returns the size of the frame memory in bytes.
func (e *examination) memoryBytes() uint64 {
	return uint64(e.Config.Memory.Buffers) * uint64(e.Config.Memory.BufferSize)
}

// least returns the memory limit with the least left; Place is "" if none can be read.
func (e *examination) least() (least memory.Limit) {
	for _, l := range memory.Limits(e.Read) {
		if least.Place == "" || l.Free < least.Free {
			least = l
		}
	}
	return least
}

// freeMemory compares free memory with the needs of the configuration.
func freeMemory(e *examination) {
	const subject = "memory"
	least := e.least()
	left := fmt.Sprintf("%s has %s left of %s", least.Place, memory.Text(least.Free), memory.Text(least.Size))
	if least.Place == "" {
		e.warn(subject, "", "can't read its size from /proc/meminfo")
		return
	}
	if e.Config == nil || e.Running != nil {
		e.ok(subject, "%s", left)
		return
	}
	need := memory.Of(e.Config)
	takes := fmt.Sprintf("the frames take %s, everything else %s", memory.Text(need.Frames),
		memory.Text(need.Program+need.Kernel))
	var short *memory.Shortage
	if errors.As(need.Fits(e.Read), &short) && short.Hugepages == 0 {
		e.fewerBuffers(subject, short.Most, "%s; %s has %s left of %s", takes, short.Limit.Place,
			memory.Text(short.Limit.Free), memory.Text(short.Limit.Size))
		return
	}
	e.ok(subject, "%s; %s", takes, left)
}

// hugepages compares the free hugepages with those needed for buffers larger than a page. Smaller
// buffers need none: the kernel makes transparent ones.
func hugepages(e *examination) {
	const subject = "hugepages"
	all, err := e.number(hugepageDirectory + "nr_hugepages")
	free, err2 := memory.FreeHugepages(e.Read)
	there := fmt.Sprintf("%d of 2 MiB, %d of them free", all, free)
	kernelHas := errors.Join(err, err2) == nil
	if !kernelHas {
		there = "the kernel has none of 2 MiB"
	}
	switch {
	case e.Config == nil:
		e.ok(subject, "%s", there)
	case e.Config.Memory.BufferSize <= os.Getpagesize():
		e.ok(subject, "none needed: transparent ones are enough for buffers of %d "+
			"bytes; %s", e.Config.Memory.BufferSize,
			there)
	case e.Running != nil:
		e.ok(subject, "the switch has those that it needs; %s", there)
	case !kernelHas:
		e.configured(Error, subject, &e.Config.Memory.BufferSize, e.bufferOfPage(),
			"buffers of %d bytes are larger than a page and need hugepages, but %s",
			e.Config.Memory.BufferSize, there)
	default:
		e.largeBuffers(all, int(free))
	}
}

// largeBuffers checks whether there are hugepages for buffers larger than a page and, if so,
// whether the kernel supports such buffers. Without hugepages, that can't be tested.
func (e *examination) largeBuffers(all, free int) {
	const subject = "hugepages"
	size := e.Config.Memory.BufferSize
	need := int((e.memoryBytes() + hugepageSize - 1) / hugepageSize)
	available := e.least().Free
	// setting them aside would leave no memory for others
	if missing := uint64(max(0, need-free)) * hugepageSize; missing > available {
		e.fewerBuffers(subject, available/uint64(size),
			"buffers of %d bytes need %d hugepages of 2 MiB: beyond the free ones, these take %s of memory, but "+
				"only %s are available", size, need, memory.Text(missing), memory.Text(available))
		return
	}
	if free < need {
		e.fail(subject, fmt.Sprintf("echo %d > %snr_hugepages", all+need-free, hugepageDirectory),
			"buffers of %d bytes are larger than a page and need %d hugepages of 2 MiB, but %d are free. Whether the "+
				"kernel accepts such buffers can be tested only with free hugepages; 6.18 does not", size, need, free)
		return
	}
	if err := e.Buffer(size); errors.Is(err, unix.EINVAL) {
		e.configured(Error, subject, &e.Config.Memory.BufferSize, e.bufferOfPage(),
			"the kernel accepts no buffers larger than a page, although enough hugepages are free")
		return
	}
	e.ok(subject, "buffers of %d bytes need %d of 2 MiB, and %d are free", size, need, free)
}

// bufferOfPage returns the configuration line for the largest buffers that need no hugepages.
func (e *examination) bufferOfPage() string {
	return e.in(&e.Config.Memory, "memory", fmt.Sprintf("buffer_size: %dB", os.Getpagesize()))
}

// number reads a file that holds a number.
func (e *examination) number(path string) (int, error) {
	text, err := e.Read(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// stateDirectory checks the directories that hold the settings a switch will restore.
func stateDirectory(e *examination) {
	const subject, within = afxdp.RunDirectory, afxdp.StateDirectory
	err := e.Write(subject)
	if err == nil {
		if err = e.Write(within); errors.Is(err, unix.ENOENT) { // neither does the other exist
			err = nil
		}
	}
	if err != nil {
		e.fail(subject, fmt.Sprintf("install -d -o %d %s && install -d -o %[1]d -m 700 %[3]s", os.Geteuid(), subject,
			within),
			"this user may not write to the directory, in which a switch keeps the original settings of devices: %v",
			err)
		return
	}
	e.ok(subject, "writable; a switch keeps the original settings of devices there")
}

// controlSocket checks the directory of the control socket. stateDirectory checks the default one.
func controlSocket(e *examination) {
	const subject = "control"
	if e.Config == nil || e.Running != nil || e.Config.Control.Socket == "" {
		return
	}
	socket := e.Config.Control.Socket
	directory := filepath.Dir(socket)
	err := e.Write(directory)
	switch {
	case err == nil || directory == afxdp.RunDirectory:
	case errors.Is(err, unix.ENOENT):
		e.fail(subject, fmt.Sprintf("install -d -o %d %s", os.Geteuid(), quoted(directory)),
			"can't create the socket %s: its directory does not exist", socket)
	default: // the owner of an existing directory should not be changed
		e.configured(Error, subject, &e.Config.Control.Socket, "socket: "+config.DefaultSocket,
			"can't create the socket %s: this user may not write to its directory: %v", socket, err)
	}
}

// clock checks the kernel's clock source: a worker reads it once per iteration.
func clock(e *examination) {
	const subject, directory = "clock", "/sys/devices/system/clocksource/clocksource0/"
	current, err := e.Read(directory + "current_clocksource")
	if err != nil {
		e.warn(subject, "", "can't read its source: %v", err)
		return
	}
	// These are read without a system call (vdso_clock_mode of the kernel's clock sources).
	quick := []string{"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}
	if slices.Contains(quick, current) {
		e.ok(subject, "%s, which is read without a system call", current)
		return
	}
	available, _ := e.Read(directory + "available_clocksource")
	for _, better := range quick {
		if slices.Contains(strings.Fields(available), better) {
			e.warn(subject, fmt.Sprintf("echo %s > %scurrent_clocksource", better, directory),
				"%s, which may need a system call in each iteration of a worker; %s is faster", current, better)
			return
		}
	}
	e.warn(subject, "", "%s, which may need a system call in each iteration of a worker; no faster source is available",
		current)
}
