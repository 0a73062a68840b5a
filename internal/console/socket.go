package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
)

const (
	// socketMode lets root and the group of the socket ask.
	socketMode = 0o660
	// maxConnections bounds the clients that are served at a time. More wait in the kernel until one of these is through,
	// or is cut off.
	maxConnections = 32
)

// listen makes the socket of a configuration, in place of one that a switch left behind when it was killed.
func listen(c *config.Config) (net.Listener, error) {
	path := c.Control.Socket
	group, err := groupOf(c)
	if err != nil {
		return nil, err
	}
	if err := clearWay(path); err != nil {
		return nil, err
	}
	settings := net.ListenConfig{Control: restrict}
	listener, err := settings.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, unmakable(path, err)
	}
	if err := errors.Join(os.Chown(path, -1, group), os.Chmod(path, socketMode)); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket %s can't be given to its group: %w: run as root, or leave control.group out", path, err), listener.Close())
	}
	return &boundedListener{Listener: listener, seats: make(chan struct{}, maxConnections)}, nil
}

// restrict sets the mode of a socket before it has a name (bind gives the file the mode of the socket, less the umask), so
// that there is no moment in which others may connect.
func restrict(_, _ string, socket syscall.RawConn) error {
	var err error
	return errors.Join(socket.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) }), err)
}

// groupOf returns the number of the group that may ask, or -1 for that of the process.
func groupOf(c *config.Config) (int, error) {
	name := c.Control.Group
	if name == "" {
		return -1, nil
	}
	if number, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(number), nil
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return -1, c.Problem(&c.Control.Group, fmt.Sprintf("there is no group %s here", name), "write one of /etc/group, or its number")
	}
	return strconv.Atoi(group.Gid)
}

// clearWay removes the socket of a switch that was killed. It fails if one that runs answers there.
func clearWay(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return unmakable(path, err)
		}
		return nil
	case err != nil:
		return unmakable(path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("control socket %s: there is a file that is no socket: move it away, or name another with control.socket", path)
	}
	connection, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		connection.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("control socket %s is in use: stop the switch that answers there, or name another socket with control.socket", path)
	}
	if err := os.Remove(path); err != nil {
		return unmakable(path, err)
	}
	return nil
}

// unmakable says what to do when a socket can't be made.
func unmakable(path string, err error) error {
	var about *fs.PathError
	if errors.As(err, &about) {
		err = about.Err
	}
	var system syscall.Errno
	if errors.As(err, &system) {
		err = system
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("control socket %s is in use: another switch was quicker; name another socket with control.socket", path)
	}
	return fmt.Errorf("control socket %s can't be made: %w: make the directory %s and let this user write there, or set control.socket to another path or to none",
		path, err, filepath.Dir(path))
}

// boundedListener accepts no more connections at a time than it has seats.
type boundedListener struct {
	net.Listener
	seats chan struct{}
}

// Accept waits for a seat, then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	l.seats <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.seats
		return nil, err
	}
	return &seated{Conn: c, leave: sync.OnceFunc(func() { <-l.seats })}, nil
}

// seated is a connection that has a seat until it is closed.
type seated struct {
	net.Conn
	leave func()
}

func (s *seated) Close() error {
	defer s.leave()
	return s.Conn.Close()
}

// peer tells who is at the other end of a connection: the user and process of its client when it connected.
func peer(c net.Conn) (who unix.Ucred) {
	if s, ok := c.(*seated); ok {
		c = s.Conn
	}
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return who
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			who = *cred
		}
	})
	return who
}
