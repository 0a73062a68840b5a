package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Cache is the environment variable with the directory of fetched packages. The default is
// sluice/rig in the user's cache directory.
const Cache = "SLUICE_RIG_CACHE"

// Tree is a directory with the files of all packages of a rig: a kernel with its modules, QEMU, and
// programs for guests.
type Tree string

func cacheDirectory() (string, error) {
	if directory := os.Getenv(Cache); directory != "" {
		return filepath.Abs(directory)
	}
	directory, err := os.UserCacheDir()
	return filepath.Join(directory, "sluice", "rig"), err
}

// Fetch returns the tree of the pinned packages. It fetches and extracts them unless the cache has
// them; only then it needs the network. Several processes may call it.
func Fetch(ctx context.Context, logf func(format string, args ...any)) (Tree, error) {
	directory, err := cacheDirectory()
	if err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	tree := filepath.Join(directory, "tree-"+digest(pinned))
	if _, err := os.Stat(tree); err == nil {
		return Tree(tree), nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	unlock, err := lock(filepath.Join(directory, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(tree); err == nil { // another process was faster
		return Tree(tree), nil
	}
	pins, err := parsePins(pinned)
	if err != nil {
		return "", err
	}
	files, err := fetch(ctx, directory, pins, logf)
	if err != nil {
		return "", err
	}
	return Tree(tree), extract(ctx, files, tree)
}

// lock waits for a lock between processes.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("rig: lock %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// fetch returns the files of all packages, of which it fetches those that are missing.
func fetch(ctx context.Context, directory string, pins []pin, logf func(string, ...any)) ([]string, error) {
	var suites []string
	for _, p := range pins {
		if !slices.Contains(suites, p.suite) {
			suites = append(suites, p.suite)
		}
	}
	a, err := newAPT(ctx, directory, suites)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(pins), func(p pin) bool { return a.verify(p) == nil })
	if len(missing) > 0 {
		logf("rig: fetching %d packages", len(missing))
		if _, err := a.run(ctx, "apt-get", "-qq", "update"); err != nil {
			return nil, fmt.Errorf("rig: %w", err)
		}
		chosen, err := a.choose(ctx, missing, logf)
		if err != nil {
			return nil, err
		}
		if err := a.download(ctx, chosen); err != nil {
			return nil, err
		}
		for i, p := range missing {
			pins[slices.Index(pins, p)] = chosen[i]
		}
	}
	var files []string
	for _, p := range pins {
		if err := a.verify(p); err != nil {
			return nil, err
		}
		file, err := a.file(p)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// verify checks that a package was downloaded and is the pinned one. A package in another version
// than the pinned one has no SHA-256 here: apt has verified it.
func (a *apt) verify(p pin) error {
	path, err := a.file(p)
	if err != nil || p.sha256 == "" {
		return err
	}
	is, err := sum(path)
	if err == nil && is != p.sha256 {
		err = fmt.Errorf("rig: %s has SHA-256 %s, but %s is pinned: set %s to another mirror, or pin what this one "+
			"has by go test ./bench/rig -run Pins -update", path, is, p.sha256, Mirror)
	}
	return err
}

// sum returns the SHA-256 of a file.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// extract unpacks packages into a tree, which exists afterwards completely or not at all.
func extract(ctx context.Context, files []string, tree string) error {
	partial := tree + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	for _, file := range files {
		if _, err := output(exec.CommandContext(ctx, "dpkg-deb", "-x", file, partial)); err != nil {
			return fmt.Errorf("rig: %w", err)
		}
	}
	if err := unpackKernel(ctx, Tree(partial)); err != nil {
		return err
	}
	if err := os.Rename(partial, tree); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	return nil
}
