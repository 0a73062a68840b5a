// Package confine takes from a switch that has started what it needs no longer: capabilities,
// files, system calls. It keeps what a port needs that goes and comes back, and what giving devices
// back at the end takes. Whoever takes the program over through a bug is then left with that, and
// with no way to become more.
//
// On all threads of the process, first with Forgo, which may come before anything is opened:
//
//	bounding and ambient sets   emptied: no program that this one could start would get anything
//	no_new_privs                prctl(2): neither would one with a setuid bit or file capabilities
//
// then, once everything is open, with Apply:
//
//	landlock                    landlock(7): files are readable and writable where Params says. Since its version 4 TCP
//	                            is closed: what listens goes on listening, nothing may connect, and listen only
//	                            where Params says
//	capabilities                all but those of Needs
//	seccomp                     seccomp(2): no programs, no other processes or services, no mounts, no modules, no unusual sockets
//
// Root without its capabilities still owns the files of root. It is landlock that keeps them from
// it.
package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Capability is one of the parts that root's power is in; see capabilities(7).
type Capability struct {
	Number int
	Name   string // as setcap(8) has it
	Why    string // a switch needs it while it runs
}

// Needs are the capabilities that a port takes to be opened and given back. A switch has no need of
// others, and keeps these as long as it runs, since a device may go and come back. TestEachIsNeeded
// does without each in turn.
var Needs = []Capability{
	{unix.CAP_NET_ADMIN, "cap_net_admin",
		"sets and restores a device's offloads, queues and qdisc, and attaches the XDP program"},
	{unix.CAP_NET_RAW, "cap_net_raw", "opens AF_XDP sockets"},
	{unix.CAP_BPF, "cap_bpf", "loads the XDP program and its map where unprivileged BPF is off, which is the rule"},
	{unix.CAP_IPC_LOCK, "cap_ipc_lock", "registers the frame memory beyond what RLIMIT_MEMLOCK allows"},
}

// Params says what stays within reach: files by path, each a file, or a directory with all below
// it.
type Params struct {
	Read  []string // beside /proc and /sys
	Write []string // and read; files and sockets may be made and removed there
	// Listen has the TCP ports that something may still begin to listen on. If there are any, the
	// process can also listen on ports that the kernel chooses, which no rule keeps it from; if
	// there are none, nothing can begin to listen at all.
	Listen []uint16
}

// Confinement is what Apply obtained of a kernel that need not have everything.
type Confinement struct {
	Capabilities []string // permitted and effective from now on
	Landlock     int      // its version (ABI); 0: the kernel has none, or none for this process
	// false: the kernel has no filters, or the system calls of this architecture are not known here
	Seccomp bool
}

// Forgo gives up what only programs would have that this one could start. It comes before anybody
// forwards: each of some forty changes stops all threads for a moment.
func Forgo() error {
	set, err := permitted()
	if err != nil {
		return fmt.Errorf("confine: read the capabilities: %w", err)
	}
	if err := emptyOtherSets(set); err != nil {
		return fmt.Errorf("confine: empty the bounding and ambient sets: %w", err)
	}
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("confine: refuse new privileges: %w", err)
	}
	return nil
}

// Apply confines the process, for good, after Forgo. What the kernel doesn't have is missing from
// its answer and no error; an error means that the process is confined in part.
func Apply(p Params) (Confinement, error) { return apply(p, Needs) }

func apply(p Params, keep []Capability) (c Confinement, err error) {
	set, err := permitted()
	if err != nil {
		return c, fmt.Errorf("confine: read the capabilities: %w", err)
	}
	if c.Landlock, err = restrict(p); err != nil {
		return c, fmt.Errorf("confine: landlock: %w", err)
	}
	var mask uint64
	for _, k := range keep {
		if bit := uint64(1) << k.Number; set&bit != 0 {
			mask |= bit
			c.Capabilities = append(c.Capabilities, k.Name)
		}
	}
	if err := setCapabilities(mask); err != nil {
		return c, fmt.Errorf("confine: drop capabilities: %w", err)
	}
	if c.Seccomp, err = filterCalls(len(p.Listen) > 0); err != nil {
		return c, fmt.Errorf("confine: seccomp: %w", err)
	}
	return c, nil
}

// emptyOtherSets empties the bounding and the ambient set. Without CAP_SETPCAP, which a program
// that was given just what it needs doesn't have, the bounding set stays; it is for programs that
// are started, and none is.
func emptyOtherSets(permitted uint64) error {
	if permitted>>unix.CAP_SETPCAP&1 == 1 {
		for number := 0; ; number++ {
			had, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0)
			if errors.Is(err, unix.EINVAL) {
				break // the kernel knows no more of them
			}
			if err == nil && had == 1 {
				err = onAllThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(number), 0)
			}
			if err != nil {
				return err
			}
		}
	}
	return onAllThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
}
