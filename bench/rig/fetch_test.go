package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeMirror replaces apt by programs that offer packages. A package's content is its name, an
// equals sign and its version. As apt-get does, they keep a file that exists.
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
	script("dpkg-deb", "exit 1")
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
	_, err := fetch(t.Context(), directory, []pin{p}, t.Logf)
	must(t, err)
	if content, err := os.ReadFile(file); err != nil || string(content) != "qemu=1:10" {
		t.Errorf("the cache has %q, %v", content, err)
	}
	p.sha256 = digest64
	_, err = fetch(t.Context(), directory, []pin{p}, t.Logf)
	for _, say := range []string{file, digest64, Mirror, "-run Pins -update"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("the error does not say %q: %v", say, err)
		}
	}
}
