// Package ownfile writes files in directories where other users may write as well, such as /tmp.
// They can't choose to which file; a link in place of it could lead to any file of root.
package ownfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Create opens a file of this user for writing, with at most the permissions of mode, and empties
// it. It creates the file if there is none, and refuses links and files of other users. A FIFO or a
// device keeps its mode, and may also belong to root.
func Create(name string, mode os.FileMode) (*os.File, error) {
	// To open a FIFO of another user may take for ever. What takes its place now is checked below.
	if info, err := os.Lstat(name); err == nil {
		if err := check(name, info); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = check(name, info)
	}
	if err == nil && info.Mode().IsRegular() {
		err = errors.Join(file.Chmod(info.Mode().Perm()&mode), file.Truncate(0))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func check(name string, info os.FileInfo) error {
	at, regular := info.Sys().(*syscall.Stat_t), info.Mode().IsRegular()
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link, which may lead to any file: name the file itself", name)
	case int(at.Uid) != os.Geteuid() && (regular || at.Uid != 0):
		return fmt.Errorf("%s belongs to user %d, who could read it: remove it, or write to another file", name, at.Uid)
	case regular && at.Nlink > 1:
		return fmt.Errorf("%s has another name (hard link): remove it, or write to another file", name)
	}
	return nil
}

// Write writes a whole file as Create opens it.
func Write(name string, content []byte, mode os.FileMode) error {
	file, err := Create(name, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
