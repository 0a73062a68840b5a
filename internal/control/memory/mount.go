package memory

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// unmounted is the prefix of paths in a control group file system that is not mounted in this
// namespace. It is followed by the controllers (none for version 2) and the path in the file
// system. Read handles such paths.
const unmounted = "cgroup:"

// mounts are the file systems that Read has opened, by controllers. They are kept because opening
// one requires CAP_SYS_ADMIN, which the process may have dropped by the next read.
var mounts struct {
	sync.Mutex
	opened map[string]*os.File
}

// Opened returns the directories of the file systems that Read has opened. A confined process must
// still be able to read them.
func Opened() (directories []string) {
	mounts.Lock()
	defer mounts.Unlock()
	for _, mount := range mounts.opened {
		directories = append(directories, fmt.Sprintf("/proc/self/fd/%d", mount.Fd()))
	}
	return directories
}

// mountOf returns the directory of a control group file system that is not mounted anywhere.
func mountOf(controllers string) (string, error) {
	mounts.Lock()
	defer mounts.Unlock()
	mount := mounts.opened[controllers]
	if mount == nil {
		fd, err := openMount(controllers)
		if err != nil {
			return "", err
		}
		mount = os.NewFile(uintptr(fd), "cgroup")
		if mounts.opened == nil {
			mounts.opened = map[string]*os.File{}
		}
		mounts.opened[controllers] = mount
	}
	return fmt.Sprintf("/proc/self/fd/%d", mount.Fd()), nil
}

func openMount(controllers string) (fd int, err error) {
	kind, options := "cgroup", strings.Split(controllers, ",")
	if controllers == "" {
		kind, options = "cgroup2", nil
	}
	context, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(context)
	for _, o := range options {
		if err := unix.FsconfigSetFlag(context, o); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, err
	}
	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
}

// rootOf returns the directory at which the control groups with some controllers (none for version
// 2) begin, and the group there. They need not be mounted: `ip netns exec`, for example, mounts a
// /sys without them.
func rootOf(read Reader, controllers, controller string) (directory, group string, err error) {
	text, err := read("/proc/self/mountinfo")
	if err != nil {
		return path.Join(cgroupDirectory, controller), "/", nil
	}
	for line := range strings.Lines(text) { // proc_pid_mountinfo(5)
		front, back, _ := strings.Cut(line, " - ")
		at, is := strings.Fields(front), strings.Fields(back)
		if len(at) < 5 || len(is) < 3 {
			continue
		}
		if is[0] == "cgroup2" && controllers == "" || is[0] == "cgroup" && controllers != "" &&
			slices.Contains(strings.Split(is[2], ","), controller) {
			return at[4], at[3], nil
		}
	}
	directory = unmounted + controllers
	_, err = read(path.Join(directory, "cgroup.procs"))
	return directory, "/", err
}
