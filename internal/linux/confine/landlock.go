package confine

import (
	"errors"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	readRights  = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSReadDir)
	writeRights = readRights | landlock.AccessFSSet(ll.AccessFSWriteFile|ll.AccessFSTruncate|ll.AccessFSMakeReg|
		ll.AccessFSMakeSock|ll.AccessFSMakeDir|ll.AccessFSRemoveFile|ll.AccessFSRemoveDir)
	// of files other than directories
	fileRights = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate)
)

// restrict leaves access only to the files in p, to /proc and /sys for reading, and to the TCP
// ports in p for listening. It returns landlock's version.
func restrict(p Params) (version int, err error) {
	if version, err = landlockVersion(); version == 0 {
		return 0, err
	}
	rules := pathRules(readRights, append([]string{"/proc", "/sys"}, p.Read...))
	rules = append(rules, pathRules(writeRights, p.Write)...)
	for _, port := range p.Listen {
		rules = append(rules, landlock.BindTCP(port))
	}
	return version, landlock.V6.BestEffort().Restrict(rules...)
}

// landlockVersion returns the version of the kernel's landlock. It returns 0 if the kernel lacks it
// or has it turned off, or if this process may not use it, as with the filters of older container
// runtimes.
func landlockVersion() (int, error) {
	version, err := ll.LandlockGetABIVersion()
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		return 0, nil
	}
	return version, err
}

// pathRules returns rules with rights to files, and to everything below directories. Paths that
// don't exist are skipped.
func pathRules(rights landlock.AccessFSSet, paths []string) (rules []landlock.Rule) {
	for _, path := range paths {
		rights := rights
		if at, err := os.Stat(path); err == nil && !at.IsDir() {
			rights &= fileRights
		}
		rules = append(rules, landlock.PathAccess(rights, path).IgnoreIfMissing())
	}
	return rules
}
