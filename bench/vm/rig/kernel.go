package rig

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// libraries is where Debian's packages for amd64 have shared libraries.
const libraries = "usr/lib/x86_64-linux-gnu"

// Command prepares a program of the tree to run on the host, with its own libraries.
func (t Tree) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	directory := filepath.Join(string(t), libraries)
	return exec.CommandContext(ctx, filepath.Join(directory, "ld-linux-x86-64.so.2"),
		append([]string{"--library-path", directory, filepath.Join(string(t), program)}, args...)...)
}

// one returns the only path in the tree that matches a pattern.
func (t Tree) one(pattern string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(string(t), pattern))
	if err == nil && len(paths) != 1 {
		err = fmt.Errorf("rig: %d files %s in the packages, not one", len(paths), pattern)
	}
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

// unpackKernel decompresses the kernel of a tree into vmlinux, because a guest that is emulated
// takes seconds for that. QEMU boots it through its PVH entry.
func unpackKernel(ctx context.Context, t Tree) error {
	path, err := t.one("usr/lib/modules/*/vmlinuz")
	if err != nil {
		return err
	}
	image, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	packed, err := payload(image)
	if err != nil {
		return fmt.Errorf("rig: %s: %w", path, err)
	}
	c := t.Command(ctx, "usr/bin/zstd", "-dc")
	c.Stdin = bytes.NewReader(packed)
	kernel, err := output(c)
	if err != nil {
		return fmt.Errorf("rig: %s: %w", path, err)
	}
	return os.WriteFile(filepath.Join(string(t), "vmlinux"), []byte(kernel), 0o644)
}

// payload returns the compressed kernel in a bzImage (The Linux/x86 Boot Protocol), without the
// length that follows it.
func payload(image []byte) ([]byte, error) {
	const (
		setupSectors, magic, version, offset, length = 0x1f1, 0x202, 0x206, 0x248, 0x24c
		sector                                       = 512
	)
	word := binary.LittleEndian.Uint32
	if len(image) < 2*sector || string(image[magic:magic+4]) != "HdrS" ||
		binary.LittleEndian.Uint16(image[version:]) < 0x208 {
		return nil, errors.New("not a bzImage of protocol 2.08 or later")
	}
	from := (uint64(image[setupSectors])+1)*sector + uint64(word(image[offset:]))
	to := from + uint64(word(image[length:])) - 4
	if to > uint64(len(image)) || from > to {
		return nil, errors.New("the bzImage is truncated")
	}
	if packed := image[from:to]; bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return packed, nil
	}
	return nil, errors.New("the kernel is not compressed with zstd")
}

// module is a kernel module, decompressed.
type module struct {
	name string // with _ for -
	code []byte
}

// modules returns modules and those that they need, each behind those that it needs.
func (t Tree) modules(ctx context.Context, names []string) ([]module, error) {
	paths := map[string]string{}
	kernel, err := t.one("usr/lib/modules/*/kernel")
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(kernel, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko.xz"); ok && err == nil {
			paths[underscored(name)] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	var all []module
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		if name = underscored(name); seen[name] {
			return nil
		}
		seen[name] = true
		path, ok := paths[name]
		if !ok {
			return fmt.Errorf("rig: the kernel has no module %s", name)
		}
		code, err := output(t.Command(ctx, "usr/bin/xz", "-dc", path))
		if err != nil {
			return fmt.Errorf("rig: module %s: %w", name, err)
		}
		needs, err := dependencies([]byte(code))
		if err != nil {
			return fmt.Errorf("rig: module %s: %w", name, err)
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		all = append(all, module{name, []byte(code)})
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// underscored returns the name by which the kernel knows a module.
func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// dependencies returns the modules that a module needs, from its section .modinfo.
func dependencies(code []byte) (names []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			names = append(names, strings.Split(list, ",")...)
		}
	}
	return names, nil
}
