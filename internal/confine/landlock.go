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
	// of what is no directory
	fileRights = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate)
)

// restrict leaves only those files within reach that p names, and /proc and /sys to be read, and of
// the network only the TCP ports of p, to listen. It returns landlock's version.
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

// landlockVersion returns the version of the kernel's landlock, or 0 if it has none, was started
// without, or, as the filters of older container runtimes have it, does not let this process have
// it.
func landlockVersion() (int, error) {
	version, err := ll.LandlockGetABIVersion()
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		return 0, nil
	}
	return version, err
}

// pathRules allows things to be done to files, and to all below those that are directories. A path
// that doesn't exist needs no rule.
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
