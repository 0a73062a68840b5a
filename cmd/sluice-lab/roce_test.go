package main

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// TestRoCEMachine: a machine that is too small or of another kind is refused, with what it lacks.
func TestRoCEMachine(t *testing.T) {
	for _, c := range []struct {
		arch string
		free int // kB
		say  string
	}{
		{"amd64", 1 << 20, ""},
		{"amd64", 1<<20 - 1, "this machine has 1023 MiB left"},
		{"arm64", 1 << 21, "amd64"},
	} {
		err := checkMachine(c.arch, func(path string) (string, error) {
			if path != "/proc/meminfo" {
				return "", fs.ErrNotExist
			}
			return fmt.Sprintf("MemTotal: 4194304 kB\nMemAvailable: %d kB\n", c.free), nil
		})
		if (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s with %d kB: the error does not say %q: %v", c.arch, c.free, c.say, err)
		}
	}
}
