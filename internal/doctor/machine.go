package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pmd/afxdp"
)

// Machine is all that checks see of a machine. This returns the one that they run on.
type Machine struct {
	Read   func(path string) (string, error)  // a file of /proc or /sys, without white space around it
	Write  func(path string) error            // whether this process may write to a directory; it doesn't
	Socket func(family int) error             // whether a socket of a family can be had
	Buffer func(bytes int) error              // whether a socket takes buffers of a size, in a hugepage that must be free
	Device func(name string) (*Device, error) // in the network namespace of the calling thread
	// Gap runs a worker's loop on a CPU that nobody else may be using, and returns the longest time between two of its
	// iterations.
	Gap     func(cpu int) (time.Duration, error)
	Program string // path of this program
}

// This returns the machine that the process runs on. gap measures the loop of a worker for some time.
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
		Write:  mayWrite,
		Socket: trySocket,
		Buffer: tryBuffer,
		Device: lookAt,
		Gap: func(cpu int) (time.Duration, error) {
			const length = 500 * time.Millisecond
			return gap(context.Background(), cpu, length)
		},
		Program: program,
	}
}

// mayWrite tells whether a directory can be written to, or, if there is none, made.
func mayWrite(path string) error {
	err := unix.Access(path, unix.W_OK|unix.X_OK)
	if errors.Is(err, unix.ENOENT) {
		return mayWrite(filepath.Dir(path))
	}
	return err
}

func trySocket(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// tryBuffer maps one hugepage and has a socket take it for its memory.
func tryBuffer(bytes int) error {
	const access, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | unix.MAP_HUGE_2MB
	memory, err := unix.Mmap(-1, 0, hugepageSize, access, flags)
	if err != nil {
		return err
	}
	return errors.Join(afxdp.TryMemory(memory, bytes), unix.Munmap(memory))
}

// fields returns the lines of a file that have the form "name: value"; none if it can't be read.
func fields(m Machine, path string) map[string]string {
	all := map[string]string{}
	text, _ := m.Read(path)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all
}
