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
	"time"

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

// What fetching may take.
const (
	fetchTime  = 10 * time.Minute
	fetchSpace = 1 << 30 // bytes; packages, and the tree while it is unpacked
)

// Fetch returns the tree of the pinned packages. It fetches and extracts them unless the cache has
// them; only then it needs the network. Where the mirror no longer has a pinned package, the tree
// has a successor, which every call logs. Several processes may call Fetch.
func Fetch(ctx context.Context, logf func(format string, args ...any)) (Tree, error) {
	directory, err := cacheDirectory()
	if err != nil {
		return "", fmt.Errorf("rig: no directory for packages: %w: set %s", err, Cache)
	}
	if tree, ok := cached(directory, logf); ok {
		return tree, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTime, fmt.Errorf("not fetched within %v", fetchTime))
	defer cancel()
	tree, err := fill(ctx, directory, logf)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	if err != nil {
		return "", fmt.Errorf("%w (the cache is %s; %s sets another)", err, directory, Cache)
	}
	return tree, nil
}

// fill fetches and extracts the packages, unless another process does first.
func fill(ctx context.Context, directory string, logf func(string, ...any)) (Tree, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(directory, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if tree, ok := cached(directory, logf); ok { // another process was faster
		return tree, nil
	}
	if err := checkSpace(directory, fetchSpace); err != nil {
		return "", err
	}
	pins, err := parsePins(pinned)
	if err != nil {
		return "", err
	}
	chosen, files, err := fetch(ctx, directory, pins, logf)
	if err != nil {
		return "", err
	}
	text := repin(pinned, pins, chosen)
	if err := os.WriteFile(choice(directory), []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	logSuccessors(pins, chosen, logf)
	tree := treeOf(directory, text)
	return tree, extract(ctx, files, string(tree))
}

// checkSpace checks that a file system has room, because apt hangs on a full one.
func checkSpace(directory string, need uint64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(directory, &fs); err != nil {
		return fmt.Errorf("rig: file system of %s: %w", directory, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < need {
		return fmt.Errorf("rig: packages need %d MB in %s, but only %d MB are free", need>>20, directory, free>>20)
	}
	return nil
}

// treeOf returns the tree of a list of pins, which need not exist.
func treeOf(directory, text string) Tree {
	return Tree(filepath.Join(directory, "tree-"+digest(text)))
}

// choice returns the file with the list of the packages that were fetched for the pinned ones.
func choice(directory string) string { return filepath.Join(directory, "choice-"+digest(pinned)) }

// cached returns the tree that the cache has of the pinned packages, or else of their successors.
func cached(directory string, logf func(string, ...any)) (Tree, bool) {
	if tree := treeOf(directory, pinned); tree.exists() {
		return tree, true
	}
	text, err := os.ReadFile(choice(directory))
	if err != nil || !treeOf(directory, string(text)).exists() {
		return "", false
	}
	pins, errPins := parsePins(pinned)
	chosen, errChosen := parsePins(string(text))
	if errPins != nil || errChosen != nil {
		return "", false
	}
	logSuccessors(pins, chosen, logf)
	return treeOf(directory, string(text)), true
}

func (t Tree) exists() bool {
	_, err := os.Stat(string(t))
	return err == nil
}

// logSuccessors logs which packages were chosen in place of the pinned ones.
func logSuccessors(pins, chosen []pin, logf func(string, ...any)) {
	for i, p := range pins {
		if is := chosen[i]; is != p {
			logf("rig: %s %s, since the mirror has no %s %s any more", is.name, is.version, p.name, p.version)
		}
	}
}

// lock waits for a lock between processes.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, errors.Join(fmt.Errorf("rig: lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("rig: another process has %s: %w", path, ctx.Err()), f.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fetch returns packages and their files, of which it fetches those that are missing. The packages
// are the pinned ones, or their successors if the mirror no longer has them.
func fetch(ctx context.Context, directory string, pins []pin, logf func(string, ...any)) (
	chosen []pin, files []string, err error) {
	var suites []string
	for _, p := range pins {
		if !slices.Contains(suites, p.suite) {
			suites = append(suites, p.suite)
		}
	}
	a, err := newAPT(ctx, directory, suites)
	if err != nil {
		return nil, nil, err
	}
	chosen = slices.Clone(pins)
	missing := slices.DeleteFunc(slices.Clone(pins), func(p pin) bool { return a.verify(p) == nil })
	if len(missing) > 0 {
		logf("rig: fetching %d packages", len(missing))
		if _, err := a.run(ctx, "apt-get", "-qq", "update"); err != nil {
			return nil, nil, fmt.Errorf("rig: %w", err)
		}
		found, err := a.choose(ctx, missing)
		if err != nil {
			return nil, nil, err
		}
		if err := a.download(ctx, found); err != nil {
			return nil, nil, err
		}
		for i, p := range missing {
			chosen[slices.Index(pins, p)] = found[i]
		}
	}
	for _, p := range chosen {
		if err := a.verify(p); err != nil {
			return nil, nil, err
		}
		file, err := a.file(p)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
	}
	return chosen, files, nil
}

// verify checks that a package was downloaded and is the pinned one.
func (a *apt) verify(p pin) error {
	path, err := a.file(p)
	if err != nil {
		return err
	}
	is, err := sum(path)
	if err == nil && is != p.sha256 {
		err = fmt.Errorf("rig: %s has SHA-256 %s, but %s is pinned: set %s to another mirror, or pin what this one "+
			"has by go test ./bench/vm/rig -run Pins -update", path, is, p.sha256, Mirror)
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

// extract unpacks packages into a tree, unless it exists. Afterwards it exists completely, or not
// at all.
func extract(ctx context.Context, files []string, tree string) error {
	if Tree(tree).exists() {
		return nil
	}
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
