package ownfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCreate: what others may have put in the place of a file is refused, and the file to which it
// leads stays as it is. Files of this user are emptied, and no longer readable by others.
func TestCreate(t *testing.T) {
	const before = "before"
	foreign := func(file string, err error) error { return errors.Join(err, os.Chown(file, 1234, -1)) }
	for name, c := range map[string]struct {
		refuse string // "": Create opens the file
		make   func(file, victim string) error
	}{
		"no file": {"", func(string, string) error { return nil }},
		"a file of this user": {"", func(file, _ string) error {
			return errors.Join(os.WriteFile(file, []byte("old text"), 0o666), os.Chmod(file, 0o666))
		}},
		"a symbolic link": {"is a symbolic link", func(file, victim string) error {
			return os.Symlink(victim, file)
		}},
		"a symbolic link to no file": {"is a symbolic link", func(file, victim string) error {
			return os.Symlink(victim+"2", file)
		}},
		"a hard link": {"has another name", func(file, victim string) error { return os.Link(victim, file) }},
		"a file of another user": {"belongs to user 1234", func(file, _ string) error {
			return foreign(file, os.WriteFile(file, []byte(before), 0o666))
		}},
		"a FIFO of another user": {"belongs to user 1234", func(file, _ string) error {
			return foreign(file, unix.Mkfifo(file, 0o666))
		}},
		"a directory": {"is a directory", func(file, _ string) error { return os.Mkdir(file, 0o777) }},
	} {
		t.Run(name, func(t *testing.T) {
			file, victim := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "victim")
			if err := errors.Join(os.WriteFile(victim, []byte(before), 0o644), c.make(file, victim)); err != nil {
				if errors.Is(err, unix.EPERM) {
					t.Skip("needs root: a file of another user")
				}
				t.Fatal(err)
			}
			err := Write(file, []byte("new"), 0o600)
			refused := err != nil
			if refused != (c.refuse != "") || refused && !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%v, want %q", err, c.refuse)
			}
			is(t, victim, before, 0o644)
			if _, err := os.Lstat(victim + "2"); err == nil {
				t.Error("a file was made elsewhere")
			}
			if c.refuse == "" {
				is(t, file, "new", 0o600)
			}
		})
	}
}

func is(t *testing.T, file, want string, mode os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if err != nil || statErr != nil || string(text) != want || info.Mode() != mode {
		t.Errorf("%s is %q, want %q: %v, %v", file, text, want, err, statErr)
	}
}

// TestCreateDevice: files that are not regular are written as they are.
func TestCreateDevice(t *testing.T) {
	if err := Write("/dev/null", []byte("text"), 0o600); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("/dev/null: %v, %v", info, err)
	}
}
