package afxdp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/ethtool"
)

const (
	// RunDirectory holds the control socket. A reboot clears /run.
	RunDirectory = "/run/sluice"
	// StateDirectory holds the original settings of devices. Other users can't open, and so can't
	// lock, its files.
	StateDirectory = RunDirectory + "/devices"
)

// MakeStateDirectory creates both directories, whatever the umask, and corrects the mode of
// StateDirectory if the process may. If it may not (EPERM), it is confined and has done so before;
// the files have modes of their own, too.
func MakeStateDirectory() error {
	for _, d := range []struct {
		path string
		mode os.FileMode
		keep bool // keep the mode of an existing one
	}{{RunDirectory, 0o755, true}, {StateDirectory, 0o700, false}} {
		err := os.Mkdir(d.path, d.mode)
		if errors.Is(err, fs.ErrExist) {
			at, statErr := os.Stat(d.path)
			if err = statErr; err != nil {
				return err
			}
			if d.keep || at.Mode().Perm() == d.mode {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := os.Chmod(d.path, d.mode); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}

// memory is the file that holds a device's original settings. A lock on it shows whether its owner
// is alive.
type memory struct {
	file *os.File
}

// remember returns the original settings of a device: those on disk if an owner died before it
// restored them, else those that capture reads and remember stores before anything is changed. The
// file is written only once. If a process dies while writing it, nothing has been changed yet, so
// an unreadable file can be ignored.
func remember(link netlink.Link, capture func() original) (*memory, original, error) {
	inode, _, err := Namespace()
	if err != nil {
		return nil, original{}, err
	}
	who, err := identify(link)
	if err != nil {
		return nil, original{}, err
	}
	if err := MakeStateDirectory(); err != nil {
		return nil, original{}, err
	}
	old, err := lockOld(inode, link)
	if err != nil {
		return nil, original{}, err
	}
	m, err := lock(filepath.Join(StateDirectory, fmt.Sprintf("%d-%d.json", inode, link.Attrs().Index)))
	if err != nil {
		return nil, original{}, errors.Join(err, each(old, (*memory).release))
	}
	o, err := m.recall(who, old, capture)
	if err != nil {
		return nil, original{}, errors.Join(err, m.forget(), each(old, (*memory).release))
	}
	if err := each(old, (*memory).forget); err != nil {
		return nil, original{}, errors.Join(err, m.release())
	}
	return m, o, nil
}

// recall returns the settings in the file. If the file has none for this device, recall first
// writes those from an earlier version's file or, if there is none, those that capture reads.
func (m *memory) recall(who identity, old []*memory, capture func() original) (o original, err error) {
	// The file may be about another device: namespace inodes and device indices are reused.
	if err := json.NewDecoder(m.file).Decode(&o); err == nil && o.is(who) {
		o.recalled = true
		return o, nil
	}
	o = capture()
	adopt(&o, who.Namespace, old)
	o.identity = who
	return o, m.write(o)
}

// lockOld locks the files about a device that earlier versions have left or still hold. They are in
// RunDirectory, and the earliest also have the device's name: <inode>-<index>-<name>.json. The file
// with the device's present name comes first, then the one without a name, then the others.
func lockOld(inode uint64, link netlink.Link) (files []*memory, err error) {
	at := link.Attrs()
	prefix := filepath.Join(RunDirectory, fmt.Sprintf("%d-%d", inode, at.Index))
	named, err := filepath.Glob(prefix + "-*.json")
	if err != nil {
		return nil, err
	}
	present := prefix + "-" + at.Name + ".json"
	paths := append([]string{present, prefix + ".json"},
		slices.DeleteFunc(named, func(p string) bool { return p == present })...)
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		m, err := lock(path)
		if err != nil {
			return nil, errors.Join(err, each(files, (*memory).release))
		}
		files = append(files, m)
	}
	return files, nil
}

// adopt uses the first file that is about a device of this namespace. Settings that an earlier
// version did not store, it did not change either: they stay as captured.
func adopt(o *original, namespace uint64, files []*memory) {
	for _, m := range files {
		text, err := io.ReadAll(m.file)
		var old original
		if err == nil && json.Unmarshal(text, &old) == nil && old.Namespace == namespace &&
			json.Unmarshal(text, o) == nil {
			o.recalled = true
			return
		}
	}
}

// Recover restores the devices in the thread's network namespace that dead owners have left
// prepared, and returns their names. It leaves devices for which keep returns true to Prepare, and
// skips devices of living owners. Settings that can't be restored stay on disk.
func Recover(keep func(device string) bool) (restored []string, err error) {
	inode, _, err := Namespace()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(StateDirectory, fmt.Sprintf("%d-*.json", inode)))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, path := range paths {
		device, err := recoverFrom(path, keep)
		switch {
		case errors.Is(err, ErrBusy):
		case err != nil:
			errs = append(errs, fmt.Errorf("afxdp: restore the settings in %s: %w", path, err))
		case device != "":
			restored = append(restored, device)
		}
	}
	return restored, errors.Join(errs...)
}

// recoverFrom returns the name of the device that it restored, or "" if there was nothing to
// restore: the file was cut off, its device is gone, or the device is to be kept.
func recoverFrom(path string, keep func(device string) bool) (device string, err error) {
	s, err := reopen(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Abandon()) }() // has no effect after a restore
	// its owner died while writing it, before changing anything
	if json.NewDecoder(s.memory.file).Decode(&s.before) != nil {
		return "", s.giveUp((*memory).forget)
	}
	s.before.recalled = true
	link, err := s.device()
	if errors.Is(err, ErrNoDevice) {
		return "", s.restore()
	}
	if err != nil || keep(link.Attrs().Name) {
		return "", err
	}
	d, err := findDevice(link.Attrs().Name)
	if err == nil {
		err = d.checkOwner() // to whom its settings belong now
	}
	if err != nil {
		return "", err
	}
	return d.name, s.restore()
}

// reopen locks a file of Prepare.
func reopen(path string) (*Settings, error) {
	var inode uint64
	at := netlink.NewLinkAttrs()
	if _, err := fmt.Sscanf(filepath.Base(path), "%d-%d.json", &inode, &at.Index); err != nil {
		return nil, err
	}
	tool, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	m, err := lock(path)
	if err != nil {
		tool.Close()
		return nil, err
	}
	return &Settings{link: &netlink.Device{LinkAttrs: at}, tool: tool, pause: tool, memory: m}, nil
}

func each(files []*memory, do func(*memory) error) error {
	var errs []error
	for _, m := range files {
		errs = append(errs, do(m))
	}
	return errors.Join(errs...)
}

// identity distinguishes a device from others that had or will have its index, even if its name or
// address changes.
type identity struct {
	Namespace uint64 // cookie of the network namespace (SO_NETNS_COOKIE): unlike an inode, never reused
	// Node is the inode of the device's directory in sysfs. It lasts as long as the device,
	// survives renaming and, like the cookie, is not reused. 0: this process may not open a sysfs;
	// name and address identify the device.
	Node    uint64 `json:",omitempty"`
	Name    string
	Address string // hardware address, the permanent one if known
}

// identify returns the identity of a device in the thread's network namespace.
func identify(link netlink.Link) (identity, error) {
	_, cookie, err := Namespace()
	if err != nil {
		return identity{}, err
	}
	at := link.Attrs()
	who := identity{Namespace: cookie, Name: at.Name, Address: at.HardwareAddr.String()}
	if len(at.PermHWAddr) > 0 {
		who.Address = at.PermHWAddr.String()
	}
	if files, err := openDeviceFiles(at.Name); err == nil {
		who.Node, err = files.inode()
		if err != nil {
			return identity{}, err // it was renamed or removed just now
		}
	}
	return who, nil
}

// isNot reports whether two devices that have had the same index are certainly different.
func (i identity) isNot(other identity) bool {
	return i.Namespace != other.Namespace || i.Node != 0 && other.Node != 0 && i.Node != other.Node
}

// is reports whether two devices that have had the same index are the same one, as far as can be
// known. If both is and isNot are false, it is unknown: without a sysfs, a device may have a new
// name and a new address, or no address.
func (i identity) is(other identity) bool {
	switch {
	case i.isNot(other):
		return false
	case i.Node != 0 && other.Node != 0:
		return true
	}
	return i.Name == other.Name || i.Address != "" && i.Address == other.Address
}

// lock opens and locks a file. The lock ends with the process. The previous owner may remove the
// file between the two steps; lock then tries again.
func lock(path string) (*memory, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		var at unix.Stat_t
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			err = unix.Fstat(int(file.Fd()), &at)
		}
		if err != nil {
			file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = fmt.Errorf("%w: another process has prepared it and holds %s: stop that "+
					"process first", ErrBusy, path)
			}
			return nil, err
		}
		if at.Nlink > 0 {
			return &memory{file: file}, nil
		}
		file.Close()
	}
}

func (m *memory) write(o original) error {
	text, err := json.MarshalIndent(o, "", "\t")
	if err != nil {
		return err
	}
	if err := m.file.Truncate(0); err != nil {
		return err
	}
	_, err = m.file.WriteAt(append(text, '\n'), 0)
	return err
}

// forget removes the file if it still exists.
func (m *memory) forget() error {
	err := os.Remove(m.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, m.file.Close())
}

// release unlocks the device and leaves the file for its next owner.
func (m *memory) release() error { return m.file.Close() }

// Namespace returns the identity of the thread's network namespace: its inode, as in `ip netns
// identify` and /proc/*/ns/net, and its cookie. It requires CAP_NET_ADMIN.
func Namespace() (inode, cookie uint64, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	if cookie, err = getsockopt[uint64](fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
		return 0, 0, fmt.Errorf("read the network namespace's cookie: %w", err)
	}
	namespace, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS) // not ownNamespace
	if err != nil {
		return 0, 0, fmt.Errorf("open the network namespace: %w", err)
	}
	defer unix.Close(namespace)
	var at unix.Stat_t
	if err := unix.Fstat(namespace, &at); err != nil {
		return 0, 0, fmt.Errorf("identify the network namespace: %w", err)
	}
	return at.Ino, cookie, nil
}
