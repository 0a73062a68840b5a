package rig

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/bench/vm/protocol"
)

// applets are the programs of busybox that a guest has.
var applets = []string{
	"cat", "cp", "date", "dd", "dmesg", "echo", "env", "free", "grep", "head", "ip", "kill", "ln", "ls",
	"mkdir", "mount", "mv", "ping", "ps", "rm", "sh", "sha256sum", "sleep", "sysctl", "tail", "top",
	"true", "uname", "uptime",
}

// image is a file system for a guest to begin with: a cpio archive in the format newc
// (Documentation/driver-api/early-userspace/buffer-format.rst). It is not compressed, because an
// emulated guest takes longer to decompress it than to copy it.
type image struct {
	bytes.Buffer
	names map[string]bool
}

// add adds a file with its directories, unless the image has it.
func (i *image) add(name string, mode uint32, content []byte) {
	if name = strings.Trim(name, "/"); i.names[name] || name == "." || name == "" {
		return
	}
	if i.names == nil {
		i.names = map[string]bool{}
	}
	i.add(path.Dir(name), unix.S_IFDIR|0o755, nil)
	i.names[name] = true
	i.entry(name, mode, 0, content)
}

// device adds a character device.
func (i *image) device(name string, major, minor uint32) {
	i.add(path.Dir(name), unix.S_IFDIR|0o755, nil)
	i.entry(name, unix.S_IFCHR|0o600, major<<16|minor, nil)
}

// entry writes an entry of the archive. Device numbers are major<<16 | minor.
func (i *image) entry(name string, mode, device uint32, content []byte) {
	fmt.Fprintf(i, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		len(i.names)+1, mode, 0, 0, 1, 0, len(content), 0, 0, device>>16, device&0xffff, len(name)+1, 0, name)
	i.pad()
	i.Write(content)
	i.pad()
}

// pad aligns the archive to 4 bytes.
func (i *image) pad() { i.Write(make([]byte, -i.Len()&3)) }

// finish ends the archive.
func (i *image) finish() []byte {
	i.entry("TRAILER!!!", 0, 0, nil)
	return i.Bytes()
}

// program adds a program of the tree to /bin, with the libraries that it needs.
func (i *image) program(t Tree, from string) error {
	if err := i.copy(t, from, path.Join("bin", path.Base(from))); err != nil {
		return err
	}
	needed := []string{from}
	for len(needed) > 0 {
		f, err := elf.Open(filepath.Join(string(t), needed[0]))
		if err != nil {
			return fmt.Errorf("rig: %s: %w", needed[0], err)
		}
		names, err := f.ImportedLibraries()
		f.Close()
		if err != nil {
			return fmt.Errorf("rig: %s: %w", needed[0], err)
		}
		needed = needed[1:]
		for _, name := range names {
			if to := path.Join(libraries, name); !i.names[to] {
				if err := i.copy(t, to, to); err != nil {
					return err
				}
				needed = append(needed, to)
			}
		}
		if len(names) > 0 {
			const loader = "ld-linux-x86-64.so.2"
			if err := i.copy(t, path.Join(libraries, loader), "lib64/"+loader); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy adds a file of the tree.
func (i *image) copy(t Tree, from, to string) error {
	content, err := os.ReadFile(filepath.Join(string(t), from)) // follows symbolic links
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	i.add(to, unix.S_IFREG|0o755, content)
	return nil
}

// newImage makes the image of a machine.
func newImage(ctx context.Context, t Tree, m *Machine) ([]byte, error) {
	var i image
	for _, d := range []string{"proc", "sys", "dev", "tmp", "run"} {
		i.add(d, unix.S_IFDIR|0o755, nil)
	}
	i.device("dev/console", 5, 1)
	if err := i.ownPrograms(m); err != nil {
		return nil, err
	}
	for _, from := range append([]string{"usr/bin/busybox", "usr/sbin/ethtool"}, m.Tools...) {
		if err := i.program(t, from); err != nil {
			return nil, err
		}
	}
	for _, f := range m.Files {
		if err := i.copy(t, f, f); err != nil {
			return nil, err
		}
	}
	for _, a := range applets {
		i.add("bin/"+a, unix.S_IFLNK|0o777, []byte("busybox"))
	}
	modules, err := t.modules(ctx, append([]string{m.Driver.module}, m.Modules...))
	if err != nil {
		return nil, err
	}
	for n, of := range modules {
		i.add(fmt.Sprintf("%s/%02d-%s.ko", protocol.Modules, n, of.name), unix.S_IFREG|0o644, of.code)
	}
	return i.finish(), nil
}

// ownPrograms adds the agent and the switch.
func (i *image) ownPrograms(m *Machine) error {
	agent := m.Agent
	if agent == nil || m.Switch {
		programs, err := Programs()
		if err != nil {
			return err
		}
		if m.Switch {
			i.add("bin/sluice", unix.S_IFREG|0o755, programs["sluice"])
		}
		if agent == nil {
			agent = programs["init"]
		}
	}
	i.add("init", unix.S_IFREG|0o755, agent)
	return nil
}

// Programs returns the programs of this project for guests, by name, without shared libraries. It
// builds them on the first call, from the source around the working directory.
var Programs = sync.OnceValues(build)

func build() (map[string][]byte, error) {
	directory, err := os.MkdirTemp("", "sluice-rig")
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	defer os.RemoveAll(directory)
	packages := []string{"sluice/cmd/sluice", "sluice/bench/vm/agent/init"}
	// Emulation is slow whatever the profile says, and tests share what they compile without it.
	c := exec.Command("go", append([]string{"build", "-pgo=off", "-ldflags", "-s -w", "-o", directory + "/"},
		packages...)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if _, err := output(c); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	programs := map[string][]byte{}
	for _, p := range packages {
		if programs[path.Base(p)], err = os.ReadFile(filepath.Join(directory, path.Base(p))); err != nil {
			return nil, fmt.Errorf("rig: %w", err)
		}
	}
	return programs, nil
}
