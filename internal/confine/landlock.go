package confine

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

const (
	readRights  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeRights = readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	tcpRights  = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
)

// knownRights returns what a version of landlock can refuse of files and of the network. What it doesn't know it would
// take for a mistake.
func knownRights(version int) (files, network uint64) {
	files = unix.LANDLOCK_ACCESS_FS_REFER - 1 // version 1: all rights before this one
	if version >= 2 {
		files |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		files |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		network = tcpRights
	}
	if version >= 5 {
		files |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return files, network
}

// restrictFiles leaves only those files within reach that p names, and /proc and /sys to be read. It returns landlock's
// version.
func restrictFiles(p Params) (version int, err error) {
	if version, err = landlockVersion(); version == 0 {
		return 0, err
	}
	files, network := knownRights(version)
	ruleset, err := createRuleset(&unix.LandlockRulesetAttr{Handled_access_fs: files, Handled_access_net: network})
	if err != nil {
		return version, err
	}
	defer unix.Close(ruleset)
	for _, group := range []struct {
		paths  []string
		rights uint64
	}{{[]string{"/proc", "/sys"}, readRights}, {p.Read, readRights}, {p.Write, writeRights}} {
		for _, path := range group.paths {
			if err := allow(ruleset, path, group.rights&files); err != nil {
				return version, fmt.Errorf("leave %s within reach: %w", path, err)
			}
		}
	}
	return version, onAllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
}

// allow adds a rule for a path. A path that doesn't exist needs none.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var at unix.Stat_t
	if err := unix.Fstat(fd, &at); err != nil {
		return err
	}
	if at.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	return addRule(ruleset, &unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)})
}
