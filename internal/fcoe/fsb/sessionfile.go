package fsb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrInUse means that another process keeps its sessions in the file.
var ErrInUse = errors.New("another switch keeps its FCoE sessions there")

// maxRecordSize bounds the file, in bytes: more than the largest tables need.
const maxRecordSize = 64 << 20

// sessionFile is a file that holds a record. It belongs to one process at a time.
type sessionFile struct {
	path string
	lock *os.File
}

// SessionsPath returns the path of the file for a network namespace, by its inode, and a control
// socket. The whole path of the socket counts: each switch may have a directory of its own. The
// file is in a subdirectory of run, the directory of files that a reboot clears.
func SessionsPath(run string, namespace uint64, socket string) string {
	name := fmt.Sprint(namespace)
	if socket != "" {
		name += "-" + url.PathEscape(strings.TrimPrefix(filepath.Clean(socket), run+"/"))
	}
	return filepath.Join(run, "fcoe", name+".json")
}

// openSessions makes the directory of a file, for this user alone, and locks the file until Close
// or the end of the process. It fails with ErrInUse while another process has it.
func openSessions(path string) (*sessionFile, error) {
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	s := &sessionFile{path: path}
	for {
		var at unix.Stat_t
		if err := s.acquire(&at); err != nil {
			return nil, fmt.Errorf("sessions: lock %s: %w", s.lockPath(), err)
		}
		if at.Nlink > 0 {
			return s, nil
		}
		s.lock.Close() // its last owner has just removed it
	}
}

// lockPath returns the path of the file with the lock. It is another file, since Write replaces the
// first one.
func (s *sessionFile) lockPath() string { return s.path + ".lock" }

func (s *sessionFile) acquire(at *unix.Stat_t) (err error) {
	s.lock, err = os.OpenFile(s.lockPath(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unix.Fstat(int(s.lock.Fd()), at)
	}
	if err != nil {
		s.lock.Close()
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: stop that switch, or give each a control.socket of its own", ErrInUse)
	}
	return err
}

// Path returns the path of the file.
func (s *sessionFile) Path() string { return s.path }

// Close unlocks the file, which stays for the next switch. If there is none, nothing is left.
func (s *sessionFile) Close() (err error) {
	if _, missing := os.Lstat(s.path); errors.Is(missing, fs.ErrNotExist) {
		err = os.Remove(s.lockPath())
	}
	return errors.Join(err, s.lock.Close())
}

// Read returns the record, or nil if there is none. It fails if the file is not one that a switch
// of this user wrote completely.
func (s *sessionFile) Read() (*record, error) {
	// O_NONBLOCK: opening a pipe would wait for its other end.
	f, err := os.OpenFile(s.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	defer f.Close()
	if err := trusted(f); err != nil {
		return nil, fmt.Errorf("sessions: %s %w", s.path, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecordSize+1))
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	r, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("sessions: %s %w", s.path, err)
	}
	return r, nil
}

// trusted refuses files that others may have written.
func trusted(f *os.File) error {
	var at unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &at); err != nil {
		return err
	}
	switch {
	case at.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("is not a regular file: remove it")
	case at.Uid != uint32(os.Geteuid()) && at.Uid != 0:
		return fmt.Errorf("belongs to user %d, not to the one of this switch: remove it", at.Uid)
	case at.Mode&0o022 != 0:
		return fmt.Errorf("can be written by other users (mode %04o): remove it", at.Mode&0o7777)
	}
	return nil
}

// Write replaces the record. The file is always complete: it is the one before, or the new one. If
// it can't be replaced it is removed, since it may have sessions that have ended; then, and only
// then, it fails.
//
// It does not wait for a disk: a reboot ends all sessions, so the file need not outlast one.
func (s *sessionFile) Write(r *record) error {
	err := s.replace(r)
	if err == nil {
		return nil
	}
	if gone := s.Remove(); gone != nil {
		return fmt.Errorf("sessions: write the FCoE sessions: %w; the file, which is out of date, can't be removed "+
			"either: remove it before the switch starts again: %w", err, gone)
	}
	return fmt.Errorf("sessions: write the FCoE sessions: %w: until that is fixed, hosts have to log in again if the "+
		"switch is killed or restarted", err)
}

func (s *sessionFile) replace(r *record) error {
	text, err := encode(r)
	if err != nil {
		return err
	}
	next := s.path + ".new"
	if err = create(next, text); err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		_ = os.Remove(next) // in case that it is in the way; if not, the next attempt reports it
	}
	return err
}

// create writes a file that only this user can read.
func create(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Remove removes the file, if there is one.
func (s *sessionFile) Remove() error {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sessions: %w", err)
	}
	return nil
}
