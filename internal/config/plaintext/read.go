package plaintext

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrUnreadable means that there is no such file, or that this process may not read it.
var ErrUnreadable = errors.New("configuration can't be read")

// Read returns the contents of a file, of which it reads a number of bytes at most. The error, if
// any, is ErrUnreadable.
func Read(path string, most int64) ([]byte, error) {
	// With O_NONBLOCK, a FIFO without a writer is an empty file instead of a wait.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// unreadable adds to an error what to do about a file that can't be read.
func unreadable(err error) error {
	remedy := "name a file that can be read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = "write one, starting from one of examples/"
	case errors.Is(err, fs.ErrPermission):
		remedy = "make it readable for this user, or run as root"
	case errors.Is(err, syscall.EISDIR):
		remedy = "name a file in this directory"
	}
	return fmt.Errorf("%w: %w: %s", ErrUnreadable, err, remedy)
}
