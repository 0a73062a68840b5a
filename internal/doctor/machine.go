package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/linux/microarch"
	"sluice/internal/linux/thread"
	"sluice/pmd/afxdp"
)

// Machine is all that checks see of a machine. This returns the one on which they run.
type Machine struct {
	Read   func(path string) (string, error) // a file of /proc or /sys, without surrounding white space
	Write  func(path string) error           // whether this process may write to a directory; writes nothing
	Socket func(family int) error            // whether sockets of a family are available
	// whether a socket accepts buffers of a size, tried with a free hugepage
	Buffer   func(bytes int) error
	Filtered func() bool                        // whether a system call filter refuses bpf(2) (afxdp.Filtered)
	Listen   func(address string) error         // whether a TCP address is free to listen on
	Device   func(name string) (*Device, error) // in the network namespace of the calling thread
	Poller   func(cpu int) (process int)        // process of this program with a thread bound to a CPU; 0: none
	// Spent returns how the longest-running of these threads has spent its time since it began:
	// running, and ready to run while others had the CPU; 0: none, or not visible.
	Spent func(cpu int) (ran, waited time.Duration)
	// Gap runs a worker's loop on an otherwise unused CPU and returns the longest time between two
	// of its iterations.
	Gap     func(cpu int) (time.Duration, error)
	Program string // path of this program
	Built   string // its target (package microarch)
}

// This returns the machine on which the process runs. gap measures a worker's loop for some time.
func This(gap func(ctx context.Context, cpu int, length time.Duration) (worst time.Duration, err error)) Machine {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return Machine{
		Read: func(path string) (string, error) {
			text, err := os.ReadFile(path)
			return strings.TrimSpace(string(text)), err
		},
		Write:    mayWrite,
		Socket:   trySocket,
		Buffer:   tryBuffer,
		Filtered: afxdp.Filtered,
		Listen:   tryListen,
		Device:   lookAt,
		Poller:   pollerOn,
		Spent:    spentOn,
		Gap: func(cpu int) (time.Duration, error) {
			const length = 500 * time.Millisecond
			return gap(context.Background(), cpu, length)
		},
		Program: program,
		Built:   microarch.Built(),
	}
}

// lookedAtOnce returns a function that caches the results of look.
func lookedAtOnce(look func(string) (*Device, error)) func(string) (*Device, error) {
	type answer struct {
		device *Device
		err    error
	}
	known := map[string]answer{}
	return func(name string) (*Device, error) {
		a, ok := known[name]
		if !ok {
			a.device, a.err = look(name)
			known[name] = a
		}
		return a.device, a.err
	}
}

// mayWrite returns nil if a directory is writable or, if only its parent exists, can be created.
func mayWrite(path string) error {
	const access = unix.W_OK | unix.X_OK
	err := unix.Access(path, access)
	if errors.Is(err, unix.ENOENT) {
		return unix.Access(filepath.Dir(path), access)
	}
	return err
}

func tryListen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// threadsOn returns the directories (/proc/PROCESS/task/THREAD) of threads bound to a CPU, in all
// other processes with this one's name.
func threadsOn(cpu int) (found []string) {
	own, _ := os.ReadFile("/proc/self/comm")
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	bound := fmt.Sprintf("\nCpus_allowed_list:\t%d\n", cpu)
	for _, name := range names {
		of := filepath.Dir(name)
		if text, err := os.ReadFile(name); err != nil || !bytes.Equal(text, own) ||
			filepath.Base(of) == strconv.Itoa(os.Getpid()) {
			continue
		}
		threads, _ := filepath.Glob(of + "/task/*")
		for _, thread := range threads {
			status, _ := os.ReadFile(thread + "/status") // empty if the thread has ended
			if bytes.Contains(status, []byte(bound)) {
				found = append(found, thread)
			}
		}
	}
	return found
}

func pollerOn(cpu int) (process int) {
	threads := threadsOn(cpu)
	if len(threads) == 0 {
		return 0
	}
	process, _ = strconv.Atoi(strings.Split(threads[0], "/")[2])
	return process
}

// spentOn returns the times of the longest-running thread on a CPU.
func spentOn(cpu int) (ran, waited time.Duration) {
	for _, directory := range threadsOn(cpu) {
		if r, w, err := thread.Spent(directory); err == nil && r > ran {
			ran, waited = r, w
		}
	}
	return ran, waited
}

func trySocket(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// tryBuffer maps one hugepage and tries to register it with a socket.
func tryBuffer(bytes int) error {
	const access, flags = unix.PROT_READ | unix.PROT_WRITE,
		unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | unix.MAP_HUGE_2MB
	memory, err := unix.Mmap(-1, 0, hugepageSize, access, flags)
	if err != nil {
		return err
	}
	return errors.Join(afxdp.TryMemory(memory, bytes), unix.Munmap(memory))
}
