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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/report/seats"
)

const (
	// socketMode lets root and the socket's group connect.
	socketMode = 0o660
	// maxConnections bounds the clients that are connected to a socket at a time, maxRequests those
	// that are answered.
	maxConnections = 128
	maxRequests    = 32
	// keptForRoot is the number of further connections and requests for root alone.
	keptForRoot = 8
	// claimTimeout bounds the wait for another switch that is making its socket.
	claimTimeout = time.Second
)

// listen makes the socket of a configuration.
func listen(c *config.Config) (net.Listener, error) {
	group, err := groupOf(c, &c.Control.Group, "group")
	if err != nil {
		return nil, err
	}
	return listenOn(c.Control.Socket, group, "group")
}

// listenToViewers makes the viewers' socket, or returns nil if there are no viewers.
func listenToViewers(c *config.Config) (net.Listener, error) {
	if c.Control.Viewers == "" {
		return nil, nil
	}
	group, err := groupOf(c, &c.Control.Viewers, "viewers")
	if err != nil {
		return nil, err
	}
	return listenOn(config.ViewSocket(c.Control.Socket), group, "viewers")
}

// listenOn makes a socket for a group. It replaces one left behind by a killed switch. key is the
// configuration key that names the group.
func listenOn(path string, group int, key string) (net.Listener, error) {
	// The directory and the socket get their modes when they are made: a user who may write
	// there could put a link to another file in their place before a later change of mode.
	defer unix.Umask(unix.Umask(0))
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, unmakable(path, err)
	}
	defer claim(filepath.Dir(path))()
	if err := clearWay(path); err != nil {
		return nil, err
	}
	settings := net.ListenConfig{Control: restrict}
	listener, err := settings.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, unmakable(path, err)
	}
	if err := os.Lchown(path, -1, group); err != nil {
		err = fmt.Errorf("control socket %s can't be given to its group: %w: "+
			"run as root, or leave control.%s out", path, err, key)
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// restrict sets the mode of a socket before it has a name: bind gives it to the file, less the
// umask.
func restrict(_, _ string, socket syscall.RawConn) error {
	var err error
	return errors.Join(socket.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) }), err)
}

// groupOf returns the ID of the group that a key of control names, or -1 for that of the process.
// An unknown group is no error of the file: it may be created later.
func groupOf(c *config.Config, value *string, key string) (int, error) {
	name := *value
	if name == "" {
		return -1, nil
	}
	if number, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(number), nil
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		at := c.Problem(value, "", "")
		return -1, fmt.Errorf("control.%s (%s:%d:%d): group %s does not exist: create it with `groupadd %s`, "+
			"or write the name or number of another group", key, at.File, at.Line, at.Column, name, name)
	}
	return strconv.Atoi(group.Gid)
}

// claim keeps other switches away from the sockets of a directory until release is called. Without
// it, of two switches that find the socket of a killed one, the second could remove the socket that
// the first has just made. The wait is bounded, since any user who can read the directory could
// hold the lock.
func claim(directory string) (release func()) {
	d, err := os.Open(directory)
	if err != nil {
		return func() {}
	}
	for deadline := time.Now().Add(claimTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			break
		}
	}
	return func() { d.Close() }
}

// clearWay removes the socket of a killed switch. It fails if a running one answers there.
func clearWay(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unmakable(path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("control socket %s can't be created: a file that is not a socket has this name: move it "+
			"away, or set another control.socket", path)
	}
	connection, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		connection.Close()
	}
	if errors.Is(err, fs.ErrPermission) { // this process may not know whether a switch answers
		return unmakable(path, err)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("control socket %s is in use: stop the switch that answers there, or set another "+
			"control.socket", path)
	}
	if err := os.Remove(path); err != nil {
		return unmakable(path, err)
	}
	return nil
}

// unmakable adds to an error what to do when a socket can't be made.
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
		return fmt.Errorf(
			"control socket %s is in use: another switch has just created it: set another control.socket", path)
	}
	return fmt.Errorf("control socket %s can't be created: %w: create the directory %s, let this user write there, or "+
		"set control.socket to another path or to none",
		path, err, filepath.Dir(path))
}

// peer returns the user and process that connected at the other end of a connection.
func peer(c net.Conn) (who unix.Ucred) {
	raw, err := seats.Conn(c).(*net.UnixConn).SyscallConn()
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
