package afxdp

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Preferred busy polling: the device's interrupts are deferred while the socket is polled, which
// Port.Flush does in every call. The values are from the kernel's documentation
// (networking/napi.rst, af_xdp.rst).
const (
	busyPollTime    = 20 // µs that a poll may wait for a frame; AF_XDP polls once for any value but 0
	busyPollBudget  = 64 // frames per poll
	deferHardIRQs   = "2"
	groFlushTimeout = "200000" // ns without a poll until interrupts are enabled again
)

// ErrBusyPoll means that busy polling would only delay frames: the kernel knows no NAPI instance to
// poll for the socket, which defers its interrupts in vain. Since Linux 6.13 it knows one in
// zero-copy mode only (xsk_bind in net/xdp/xsk.c), and of drivers that tell it
// (netif_queue_set_napi); before, in copy mode too, from the first frame on.
var ErrBusyPoll = errors.New("busy polling has no effect but delay: since Linux 6.13, the kernel polls only for " +
	"sockets in zero-copy mode, and not with every driver: remove busy_poll: true")

// preferBusyPoll sets the socket's part of busy polling; Prepare sets the device's.
func (s *socket) preferBusyPoll() error {
	if napi, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID); err == nil && napi == 0 &&
		!olderThan(6, 13) {
		return ErrBusyPoll
	}
	options := []struct{ option, value int }{
		{unix.SO_PREFER_BUSY_POLL, 1}, {unix.SO_BUSY_POLL, busyPollTime}, {unix.SO_BUSY_POLL_BUDGET, busyPollBudget},
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o.option, o.value); err != nil {
			return fmt.Errorf("busy polling: %w", refused(setOption, err))
		}
	}
	return nil
}

// olderThan reports whether the kernel is older than a version.
func olderThan(major, minor int) bool {
	var name unix.Utsname
	var is [2]int
	if unix.Uname(&name) == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &is[0], &is[1])
	}
	return is[0] < major || is[0] == major && is[1] < minor
}

// napiNames are the device's part of busy polling: files in its sysfs directory, and their values.
var napiNames = map[string]string{"napi_defer_hard_irqs": deferHardIRQs, "gro_flush_timeout": groFlushTimeout}

// interrupts are deferred with busy polling only.
var interrupts = setting{
	name: "interrupts",
	capture: func(s *Settings, link netlink.Link) {
		if files, err := openDeviceFiles(link.Attrs().Name); err == nil {
			s.before.NAPI = map[string]string{}
			for name := range napiNames {
				s.before.NAPI[name], _ = files.read(name)
			}
		}
	},
	lacks: func(s *Settings, link netlink.Link) (text, fix string) {
		if !s.options.BusyPoll {
			return "", ""
		}
		files, err := openDeviceFiles(link.Attrs().Name)
		for _, name := range slices.Sorted(maps.Keys(napiNames)) {
			var is string
			if err == nil {
				is, err = files.read(name)
			}
			if want := napiNames[name]; is != want {
				return "it does not defer interrupts as busy polling needs: another " + name,
					"echo " + want + " > /sys/class/net/" + DeviceInFix + "/" + name
			}
		}
		return "", ""
	},
	set: func(_ *Settings, link netlink.Link) error {
		return changeNAPI(link, func(name, _ string) string { return napiNames[name] })
	},
	restore: func(s *Settings, link netlink.Link) error {
		if len(s.before.NAPI) == 0 || !s.options.BusyPoll && !s.before.recalled {
			return nil
		}
		return changeNAPI(link, func(name, is string) string {
			if before := s.before.NAPI[name]; is == napiNames[name] && before != "" {
				return before
			}
			return is
		})
	},
}

// changeNAPI writes the files whose value is to be another one.
func changeNAPI(link netlink.Link, to func(name, is string) string) error {
	files, err := openDeviceFiles(link.Attrs().Name)
	if err != nil {
		return err
	}
	var errs []error
	for name := range napiNames {
		is, err := files.read(name)
		if want := to(name, is); err == nil && want != is {
			err = files.write(name, want)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tree is the sysfs that Sysfs opened last. It is kept because opening one requires CAP_SYS_ADMIN,
// which the process may have dropped by the time a device comes back.
var tree struct {
	sync.Mutex
	namespace uint64   // cookie of the network namespace that it shows
	mount     *os.File // closed only by its finalizer: it may be in use
}

// Sysfs returns a sysfs of the devices in the calling thread's network namespace, mounted nowhere.
// (The one at /sys shows the namespace in which it was mounted.) It stays open.
func Sysfs() (*os.File, error) {
	_, namespace, err := Namespace()
	if err != nil {
		return nil, err
	}
	tree.Lock()
	defer tree.Unlock()
	if tree.mount != nil && tree.namespace == namespace {
		return tree.mount, nil
	}
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open a sysfs: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("create a sysfs: %w", err)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mount a sysfs: %w", err)
	}
	tree.namespace, tree.mount = namespace, os.NewFile(uintptr(mount), "sysfs")
	return tree.mount, nil
}

// deviceFiles is a device's directory in sysfs.
type deviceFiles struct {
	mount *os.File
	dir   string
}

func openDeviceFiles(device string) (deviceFiles, error) {
	mount, err := Sysfs()
	return deviceFiles{mount: mount, dir: path.Join("class/net", device)}, err
}

func (f deviceFiles) open(name string, flags int) (*os.File, error) {
	full := path.Join(f.dir, name)
	fd, err := unix.Openat(int(f.mount.Fd()), full, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	return os.NewFile(uintptr(fd), full), nil
}

// inode returns the directory's inode number.
func (f deviceFiles) inode() (uint64, error) {
	var at unix.Stat_t
	if err := unix.Fstatat(int(f.mount.Fd()), f.dir, &at, 0); err != nil {
		return 0, &os.PathError{Op: "stat", Path: f.dir, Err: err}
	}
	return at.Ino, nil
}

func (f deviceFiles) read(name string) (string, error) {
	file, err := f.open(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b := make([]byte, 64)
	n, err := file.Read(b)
	return strings.TrimSpace(string(b[:n])), err
}

func (f deviceFiles) write(name, value string) error {
	file, err := f.open(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(value)
	return err
}
