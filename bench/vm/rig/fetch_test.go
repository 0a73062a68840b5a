package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeMirror replaces apt by programs that offer packages. A package's content is its name, an
// equals sign and its version. As apt-get does, they keep a file that exists. What dpkg-deb unpacks
// is enough of a kernel, whose payload it does not compress.
func fakeMirror(t *testing.T, offered ...pin) {
	t.Helper()
	bin := t.TempDir()
	script := func(name, text string) {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755))
	}
	script("apt-get", `while [ $# -gt 0 ] && [ "$1" != download ]; do shift; done
[ $# -gt 0 ] || exit 0
shift
for p; do
	f=$(echo "$p" | sed 's/=/_/; s/:/%3a/')_amd64.deb
	[ -e "$f" ] || printf %s "$p" >"$f"
done`)
	var madison, names strings.Builder
	for _, p := range offered {
		fmt.Fprintf(&madison, "%s | %s | http://mirror %s/main amd64 Packages\n", p.name, p.version, p.suite)
		fmt.Fprintln(&names, p.name)
	}
	script("apt-cache", fmt.Sprintf("case \"$*\" in *madison*) cat <<E\n%sE\n;; *) cat <<E\n%sE\nesac\n",
		&madison, &names))
	kernel := filepath.Join(bin, "vmlinuz")
	must(t, os.WriteFile(kernel, bzImage([]byte("\x28\xb5\x2f\xfd")), 0o644))
	script("dpkg-deb", fmt.Sprintf(`mkdir -p "$3/usr/lib/modules/7" "$3/%[1]s"
cp '%[2]s' "$3/usr/lib/modules/7"
printf '#!/bin/sh\ncat\n' >"$3/%[1]s/ld-linux-x86-64.so.2"
chmod +x "$3/%[1]s/ld-linux-x86-64.so.2"`, libraries, kernel))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv(Mirror, "http://mirror")
}

// pinOf returns a package that fakeMirror may offer.
func pinOf(name, version string) pin {
	sum := sha256.Sum256([]byte(name + "=" + version))
	return pin{suite: "trixie", name: name, version: version, sha256: hex.EncodeToString(sum[:])}
}

// TestDamagedPackage: a damaged package in the cache is fetched anew. If the mirror has another one
// of this version, the error says what to do.
func TestDamagedPackage(t *testing.T) {
	directory, p := t.TempDir(), pinOf("qemu", "1:10")
	fakeMirror(t, p)
	file := filepath.Join(directory, "archives", "qemu_1%3a10_amd64.deb")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte("damaged"), 0o644))
	_, _, err := fetch(t.Context(), directory, []pin{p}, t.Logf)
	must(t, err)
	if content, err := os.ReadFile(file); err != nil || string(content) != "qemu=1:10" {
		t.Errorf("the cache has %q, %v", content, err)
	}
	p.sha256 = digest64
	_, _, err = fetch(t.Context(), directory, []pin{p}, t.Logf)
	for _, say := range []string{file, digest64, Mirror, "-run Pins -update"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("the error does not say %q: %v", say, err)
		}
	}
}

// repinned pins packages for a test, and gives it an empty cache.
func repinned(t *testing.T, pins ...pin) {
	t.Helper()
	old := pinned
	t.Cleanup(func() { pinned = old })
	pinned = "# packages\n"
	for _, p := range pins {
		pinned += p.line()
	}
	t.Setenv(Cache, t.TempDir())
}

// fetched returns the tree, its log, and whether it was fetched.
func fetched(t *testing.T) (tree Tree, log string) {
	t.Helper()
	tree, err := Fetch(t.Context(), func(format string, args ...any) { log += fmt.Sprintf(format+"\n", args...) })
	must(t, err)
	if kernel, err := os.ReadFile(filepath.Join(string(tree), "vmlinux")); err != nil || len(kernel) != 4 {
		t.Errorf("the tree has a kernel of %d bytes, %v", len(kernel), err)
	}
	return tree, log
}

// TestSuccessor: with packages that the mirror has instead of the pinned ones, the tree is another
// one, and each call says so.
func TestSuccessor(t *testing.T) {
	kernel, qemu := pinOf("linux-binary-7.3.4", "7.3.4-1"), pinOf("qemu", "10")
	repinned(t, kernel, qemu)
	pinnedTree := treeOf(os.Getenv(Cache), pinned)
	fakeMirror(t, pinOf("linux-binary-7.3.12", "7.3.12-1"), pinOf("qemu", "11"))
	tree, log := fetched(t)
	if tree == pinnedTree {
		t.Error("the tree has the name of the pinned packages' tree")
	}
	again, logAgain := fetched(t)
	if again != tree || strings.Contains(logAgain, "fetching") {
		t.Errorf("the second time the tree is %s, not %s; log: %s", again, tree, logAgain)
	}
	for _, log := range []string{log, logAgain} {
		for _, say := range []string{"linux-binary-7.3.12 7.3.12-1, since the mirror has no linux-binary-7.3.4 7.3.4-1",
			"qemu 11, since the mirror has no qemu 10"} {
			if !strings.Contains(log, say) {
				t.Errorf("the log does not say %q: %s", say, log)
			}
		}
	}

	pinned = repin(pinned, []pin{kernel, qemu}, []pin{pinOf("linux-binary-7.3.12", "7.3.12-1"), pinOf("qemu", "11")})
	if now, log := fetched(t); now != tree || log != "" {
		t.Errorf("pinned, the successors are in %s, not in %s; log: %s", now, tree, log)
	}
}

// TestFetch: the pinned packages are fetched once, without a word about others.
func TestFetch(t *testing.T) {
	qemu := pinOf("qemu", "10")
	repinned(t, qemu)
	fakeMirror(t, pinOf("qemu", "11"), qemu)
	tree, log := fetched(t)
	if tree != treeOf(os.Getenv(Cache), pinned) || log != "rig: fetching 1 packages\n" {
		t.Errorf("%s; log: %s", tree, log)
	}
	fakeMirror(t)
	if again, log := fetched(t); again != tree || log != "" {
		t.Errorf("the second time: %s; log: %s", again, log)
	}
}

// TestNoNetwork: without a network, the error is apt's and names the mirror.
func TestNoNetwork(t *testing.T) {
	repinned(t, pinOf("linux-binary-7.3.4", "7.3.4-1"))
	t.Setenv(Mirror, "http://127.0.0.1:1/debian") // where nobody listens
	impatient := filepath.Join(t.TempDir(), "apt.conf")
	must(t, os.WriteFile(impatient, []byte("Acquire::Retries 0;\n"), 0o644))
	t.Setenv("APT_CONFIG", impatient)
	_, err := Fetch(t.Context(), t.Logf)
	for _, say := range []string{"apt-get", "127.0.0.1:1"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("the error does not say %q: %v", say, err)
		}
	}
}

// TestBadCache: an error of the cache says how to set another one.
func TestBadCache(t *testing.T) {
	fakeMirror(t)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	for _, directory := range []string{"", file} {
		t.Setenv(Cache, directory)
		_, err := Fetch(t.Context(), t.Logf)
		if err == nil || !strings.Contains(err.Error(), Cache) || !strings.Contains(err.Error(), directory) {
			t.Errorf("the error of %q does not name it and %s: %v", directory, Cache, err)
		}
	}
}

// TestCacheSpace: a full file system is an error that names the directory.
func TestCacheSpace(t *testing.T) {
	must(t, checkSpace(t.TempDir(), 1))
	if err := checkSpace("/proc", 1); err == nil || !strings.Contains(err.Error(), "in /proc, but only 0 MB are free") {
		t.Errorf("the error of a file system without space: %v", err)
	}
}

// TestFetchEnds: fetching ends with the context, whatever apt has started, and the error says why.
func TestFetchEnds(t *testing.T) {
	repinned(t, pinOf("qemu", "10"))
	fakeMirror(t)
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\n: >\"$0.runs\"; sleep 60; :\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Fetch(ctx, func(string, ...any) {})
		ended <- err
	}()
	runs := filepath.Join(bin, "apt-get.runs")
	eventually(t, "apt-get runs", func() bool { _, err := os.Stat(runs); return err == nil })
	cancel(errors.New("too slow"))
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "too slow") {
			t.Errorf("fetching ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("fetching has not ended with the context")
	}
}

// TestDefaultMirror: a machine whose apt has no sources uses Debian's own mirror.
func TestDefaultMirror(t *testing.T) {
	fakeMirror(t) // its apt-get has no index targets
	t.Setenv(Mirror, "")
	if mirror, err := findMirror(t.Context()); err != nil || mirror != defaultMirror {
		t.Errorf("%q, %v", mirror, err)
	}
}

// TestLock: a lock has one owner at a time, and waiting for it ends with the context.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := lock(ctx, path)
		result <- err
	}()
	cancel()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path) {
			t.Errorf("waiting ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("waiting has not ended with the context")
	}
	unlock()
	unlock, err = lock(t.Context(), path)
	must(t, err)
	unlock()
}

// patience bounds what a test waits for.
const patience = 20 * time.Second

// TestCommandEnds: a command ends with the process that runs it.
func TestCommandEnds(t *testing.T) {
	const variable = "SLUICE_RIG_TEST_FILE"
	if file := os.Getenv(variable); file != "" {
		_, err := output(exec.Command("sh", "-c", `echo $$ >"$1.new"; mv "$1.new" "$1"; exec sleep 60`, "sh", file))
		t.Fatal("the command has ended: ", err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	c := exec.Command("/proc/self/exe", "-test.run", "^TestCommandEnds$")
	c.Env = append(os.Environ(), variable+"="+file)
	must(t, c.Start())
	eventually(t, "the command runs", func() bool { _, err := os.Stat(file); return err == nil })
	pid, err := os.ReadFile(file)
	must(t, err)
	must(t, c.Process.Signal(unix.SIGKILL))
	_ = c.Wait()
	eventually(t, "the command has ended", func() bool { // nobody may have waited for it yet
		stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
