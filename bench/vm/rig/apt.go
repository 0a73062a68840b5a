package rig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mirror is the environment variable with the Debian mirror to use. By default it is that of apt's
// own sources, or else defaultMirror.
const Mirror = "SLUICE_RIG_MIRROR"

const defaultMirror = "http://deb.debian.org/debian"

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// apt fetches packages with the machine's apt, which verifies their signatures. It keeps its state
// in a directory of its own: nothing is installed on the machine, and its package lists stay.
type apt struct {
	directory string
	options   []string
}

// newAPT prepares apt for some suites in a directory.
func newAPT(ctx context.Context, directory string, suites []string) (*apt, error) {
	for _, name := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("rig: packages come from Debian by apt: %w", err)
		}
	}
	mirror, err := findMirror(ctx)
	if err != nil {
		return nil, err
	}
	a := &apt{directory: directory}
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(directory, d), 0o755); err != nil {
			return nil, err
		}
	}
	var sources strings.Builder
	for _, suite := range suites {
		fmt.Fprintf(&sources, "deb [arch=amd64 signed-by=%s] %s %s main\n", keyring, mirror, suite)
	}
	list, status := filepath.Join(directory, "sources.list"), filepath.Join(directory, "status")
	for file, content := range map[string]string{list: sources.String(), status: ""} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	for _, o := range []string{
		"Dir::Etc::sourcelist=" + list, "Dir::Etc::sourceparts=/dev/null",
		"Dir::Etc::preferences=/dev/null", "Dir::Etc::preferencesparts=/dev/null",
		"Dir::State=" + directory, "Dir::State::status=" + status, "Dir::Cache=" + directory,
		"APT::Architecture=amd64", "APT::Sandbox::User=root", "Acquire::Languages=none", "Debug::NoLocking=1",
		"APT::Update::Error-Mode=any", // else an update without a network succeeds, with no packages
	} {
		a.options = append(a.options, "-o", o)
	}
	return a, nil
}

// findMirror returns the Debian mirror to use.
func findMirror(ctx context.Context) (string, error) {
	if mirror := os.Getenv(Mirror); mirror != "" {
		return mirror, nil
	}
	out, err := output(exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages", "Component: main"))
	if err != nil {
		return "", fmt.Errorf("rig: apt's sources: %w", err)
	}
	for _, uri := range strings.Fields(out) {
		if u, err := url.Parse(uri); err == nil && filepath.Base(u.Path) == "debian" {
			return uri, nil
		}
	}
	return defaultMirror, nil
}

// output runs a command and returns its standard output; an error has the other one. The command
// ends with this process.
func output(c *exec.Cmd) (string, error) {
	runtime.LockOSThread() // the kernel kills the command with the thread that started it
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var errs bytes.Buffer
	c.Stderr = &errs
	c.WaitDelay = time.Second // for what it has started, once the command has ended or the context has
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", filepath.Base(c.Path), err, bytes.TrimSpace(errs.Bytes()))
	}
	return string(out), err
}

func (a *apt) run(ctx context.Context, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, append(slices.Clone(a.options), args...)...)
	c.Dir = filepath.Join(a.directory, "archives")
	return output(c)
}

// offers returns the versions that the mirror has of packages, the newest first.
func (a *apt) offers(ctx context.Context, pins []pin) (map[pin][]string, error) {
	args := []string{"madison"}
	for _, p := range pins {
		args = append(args, p.name)
	}
	out, err := a.run(ctx, "apt-cache", args...)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	versions := map[pin][]string{} // of suite and name alone
	for line := range strings.Lines(out) {
		columns := strings.Split(line, " | ")
		if len(columns) != 3 {
			continue
		}
		source := strings.Fields(columns[2]) // mirror, suite/component, …
		if len(source) < 2 {
			continue
		}
		suite, _, _ := strings.Cut(source[1], "/")
		key := pin{suite: suite, name: strings.TrimSpace(columns[0])}
		versions[key] = append(versions[key], strings.TrimSpace(columns[1]))
	}
	return versions, nil
}

// versionInName matches the version in the name of a kernel's package.
var versionInName = regexp.MustCompile(`\d+(\.\d+)+`)

// successor returns the newest package whose name differs from p's in the version alone.
func (a *apt) successor(ctx context.Context, p pin) (string, error) {
	at := versionInName.FindStringIndex(p.name)
	if at == nil {
		return "", fmt.Errorf("rig: the mirror has no %s in %s", p.name, p.suite)
	}
	before, after := p.name[:at[0]], p.name[at[1]:]
	out, err := a.run(ctx, "apt-cache", "pkgnames", before)
	if err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	newest := ""
	for _, name := range strings.Fields(out) {
		version, isOne := strings.CutPrefix(name, before)
		version, isSame := strings.CutSuffix(version, after)
		if isOne && isSame && versionInName.FindString(version) == version &&
			(newest == "" || compareVersions(version, newest) > 0) {
			newest = version
		}
	}
	if newest == "" {
		return "", fmt.Errorf("rig: the mirror has no kernel like %s", p.name)
	}
	return before + newest + after, nil
}

// compareVersions compares versions of numbers and dots.
func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		if errX != nil || errY != nil {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(x, y)
	})
}

// choose replaces the pins that the mirror no longer has by the newest of the same package, whose
// SHA-256 is empty.
func (a *apt) choose(ctx context.Context, pins []pin) ([]pin, error) {
	versions, err := a.offers(ctx, pins)
	if err != nil {
		return nil, err
	}
	chosen := slices.Clone(pins)
	for i, p := range pins {
		has := versions[pin{suite: p.suite, name: p.name}]
		if slices.Contains(has, p.version) {
			continue
		}
		is := pin{suite: p.suite, name: p.name}
		if len(has) == 0 {
			if is.name, err = a.successor(ctx, p); err != nil {
				return nil, err
			}
			of, err := a.offers(ctx, []pin{is})
			if err != nil {
				return nil, err
			}
			if has = of[is]; len(has) == 0 {
				return nil, fmt.Errorf("rig: the mirror has no %s in %s", is.name, p.suite)
			}
		}
		is.version = has[0]
		chosen[i] = is
	}
	return chosen, nil
}

// download fetches packages into the directory archives. It first removes files of theirs, since
// apt takes a damaged one of the right size for the package. apt verifies what it fetches: packages
// that have no SHA-256 yet get theirs.
func (a *apt) download(ctx context.Context, pins []pin) error {
	args := []string{"-qq", "download"}
	for _, p := range pins {
		if old, err := a.file(p); err == nil {
			if err := os.Remove(old); err != nil {
				return fmt.Errorf("rig: %w", err)
			}
		}
		args = append(args, p.name+"="+p.version)
	}
	if _, err := a.run(ctx, "apt-get", args...); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	for i, p := range pins {
		if p.sha256 != "" {
			continue
		}
		file, err := a.file(p)
		if err != nil {
			return err
		}
		if pins[i].sha256, err = sum(file); err != nil {
			return fmt.Errorf("rig: %w", err)
		}
	}
	return nil
}

// file returns the path of a downloaded package.
func (a *apt) file(p pin) (string, error) {
	name := p.name + "_" + strings.ReplaceAll(p.version, ":", "%3a")
	for _, architecture := range []string{"amd64", "all"} {
		path := filepath.Join(a.directory, "archives", name+"_"+architecture+".deb")
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return path, err
		}
	}
	return "", fmt.Errorf("rig: %s: %w", name, os.ErrNotExist)
}
