// Package confine removes the privileges that a running switch no longer needs: capabilities,
// files, system calls. The switch keeps what it needs for a port that goes and comes back, and for
// giving devices back at the end. An attacker who takes over the program through a bug has no more
// than that, and no way to get more.
//
// It acts on all threads of the process. First Forgo, which may run before anything is opened:
//
//	bounding and ambient sets   emptied: a started program would get no capabilities
//	no_new_privs                prctl(2): not even one with a setuid bit or file capabilities
//
// Then Apply, after everything is open:
//
//	landlock                    landlock(7): files are accessible as in Params. Since version 4,
//	                            TCP is closed, too: existing listeners stay, connecting is
//	                            forbidden, and new listeners are limited to Params
//	capabilities                all are dropped except Needs
//	seccomp                     seccomp(2): no programs, no other processes or services, no mounts,
//	                            no modules, no unusual sockets
//
// Root without capabilities still owns root's files. Only landlock protects them.
package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Capability is a part of root's privileges; see capabilities(7).
type Capability struct {
	Number int
	Name   string // as in setcap(8)
	Why    string // why a running switch needs it
}

// Needs are the capabilities for opening a port and giving it back. A switch needs no others, and
// keeps these while it runs, because a device may go and come back. TestEachIsNeeded drops each in
// turn.
var Needs = []Capability{
	{unix.CAP_NET_ADMIN, "cap_net_admin",
		"sets and restores a device's offloads, queues and qdisc, and attaches the XDP program"},
	{unix.CAP_NET_RAW, "cap_net_raw", "opens AF_XDP sockets"},
	{unix.CAP_BPF, "cap_bpf", "loads the XDP program and its map where unprivileged BPF is off, as it usually is"},
	{unix.CAP_IPC_LOCK, "cap_ipc_lock", "registers the frame memory beyond what RLIMIT_MEMLOCK allows"},
}

// Params holds the files and TCP ports that stay accessible. A file is given by its path: a single
// file, or a directory with everything below it.
type Params struct {
	Read  []string // in addition to /proc and /sys
	Write []string // also readable; files and sockets may be created and removed there
	// Listen are the TCP ports on which the process may still begin to listen. If there are any, it
	// can also listen on ports that the kernel chooses, which no rule prevents. If there are none,
	// it can't begin to listen at all.
	Listen []uint16
}

// Confinement is what Apply achieved; a kernel need not support everything.
type Confinement struct {
	Capabilities []string // permitted and effective now
	Landlock     int      // its version (ABI); 0: the kernel has none, or none for this process
	// false: the kernel has no filters, or this package does not know the architecture's calls
	Seccomp bool
}

// Forgo gives up privileges that only programs started by this one would have. Call it before any
// forwarding: each of about forty changes stops all threads for a moment.
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

// Apply confines the process permanently, after Forgo. Features that the kernel lacks are missing
// from the result and are no error. An error means that the process is only partly confined.
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
// with only the Needs lacks, the bounding set stays. It only matters for programs that are started,
// and none is.
func emptyOtherSets(permitted uint64) error {
	if permitted>>unix.CAP_SETPCAP&1 == 1 {
		for number := 0; ; number++ {
			had, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0)
			if errors.Is(err, unix.EINVAL) {
				break // there are no further ones
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
