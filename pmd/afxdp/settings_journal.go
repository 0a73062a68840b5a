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

	"sluice/internal/ethtool"
)

const (
	// RunDirectory holds the control socket. /run does not outlive the kernel.
	RunDirectory = "/run/sluice"
	// StateDirectory holds the original settings of devices. Other users can't open the files, so
	// they can't lock them.
	StateDirectory = RunDirectory + "/devices"
)

// MakeStateDirectory makes both directories, whatever the umask, and corrects the mode of
// StateDirectory, unless the process may not: a confined one has done so before, and each file has
// a mode of its own.
func MakeStateDirectory() error {
	for _, d := range []struct {
		path string
		mode os.FileMode
		keep bool // the mode of one that there is
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

// memory is the file that holds a device's original settings. A lock on it tells a living owner
// from a dead one.
type memory struct {
	file *os.File
}

// remember returns the original settings of a device: those on disk if an owner died before it put
// them back, else what capture reads, which is then on disk before anything is changed. The file is
// written once in its life, so if a process dies while writing, nothing has been changed yet, and
// what can't be read is of no value.
func remember(link netlink.Link, capture func() (original, error)) (*memory, original, error) {
	inode, _, err := namespaceOf()
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

// recall returns what the file holds about a device, and writes it first if it holds nothing: what
// an earlier version has left in one of the old files, or else what capture reads.
func (m *memory) recall(who identity, old []*memory, capture func() (original, error)) (o original, err error) {
	// Another namespace may have had the same inode, another device in it the same index.
	if err := json.NewDecoder(m.file).Decode(&o); err == nil && o.is(who) {
		return o, nil
	}
	if o, err = capture(); err != nil {
		return o, err
	}
	adopt(&o, who.Namespace, old)
	o.identity = who
	return o, m.write(o)
}

// lockOld locks the files about a device that earlier versions have left, or still hold. Those kept
// them in RunDirectory, at first named by the device too: <inode>-<index>-<name>.json. The one with
// its present name comes first, or else the one with none.
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

// adopt takes over the first of these files that is about a device of this namespace. What an
// earlier version did not keep, it did not change: that stays as it was captured.
func adopt(o *original, namespace uint64, files []*memory) {
	for _, m := range files {
		text, err := io.ReadAll(m.file)
		var old original
		if err == nil && json.Unmarshal(text, &old) == nil && old.Namespace == namespace &&
			json.Unmarshal(text, o) == nil {
			return
		}
	}
}

// Recover restores what owners that died have left prepared of the devices in the thread's network
// namespace, and returns the names of these devices. A device that keep reports is left to Prepare,
// and one that a living owner has is his. What can't be restored stays on disk.
func Recover(keep func(device string) bool) (restored []string, err error) {
	inode, _, err := namespaceOf()
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
			errs = append(errs, fmt.Errorf("afxdp: restore what %s holds: %w", path, err))
		case device != "":
			restored = append(restored, device)
		}
	}
	return restored, errors.Join(errs...)
}

// recoverFrom returns which device it has restored; "" if none: the file is of no value, its device
// is gone, or it is to be kept.
func recoverFrom(path string, keep func(device string) bool) (device string, err error) {
	s, err := reopen(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Abandon()) }() // unless it was restored
	// its owner died while writing, and had changed nothing
	if json.NewDecoder(s.memory.file).Decode(&s.before) != nil {
		return "", s.giveUp((*memory).forget)
	}
	link, err := s.device()
	if errors.Is(err, ErrNoDevice) {
		return "", s.restore()
	}
	if err != nil || keep(link.Attrs().Name) {
		return "", err
	}
	d, err := findDevice(link.Attrs().Name)
	if err == nil {
		err = d.checkOwner() // whose its settings are by now
	}
	if err != nil {
		return "", err
	}
	return d.name, s.restore()
}

// reopen locks a file that Prepare has made.
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

// identity tells a device from others that had or will have its index, also when its name or its
// address changes.
type identity struct {
	Namespace uint64 // cookie of the network namespace (SO_NETNS_COOKIE): unlike an inode, never used again
	// Node is the inode of the device's directory in sysfs: made with the device, kept when that is
	// renamed, and, like the cookie, not used again. 0: this process may not open a sysfs, and name
	// and address have to tell.
	Node    uint64 `json:",omitempty"`
	Name    string
	Address string // hardware address: the permanent one, if it has one
}

// identify returns the identity of a device in the thread's network namespace.
func identify(link netlink.Link) (identity, error) {
	_, cookie, err := namespaceOf()
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

// isNot reports whether two devices that have had one index are certainly different ones.
func (i identity) isNot(other identity) bool {
	return i.Namespace != other.Namespace || i.Node != 0 && other.Node != 0 && i.Node != other.Node
}

// is reports whether two devices that have had one index are the same one, as far as can be known.
// Where it can't, neither is nor isNot holds: without a sysfs, a device may have got another name
// and another address, or have no address.
func (i identity) is(other identity) bool {
	switch {
	case i.isNot(other):
		return false
	case i.Node != 0 && other.Node != 0:
		return true
	}
	return i.Name == other.Name || i.Address != "" && i.Address == other.Address
}

// lock opens a file and locks it. The lock goes with the process. An owner may remove the file
// between the two steps; then it is another one.
func lock(path string) (*memory, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
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
				err = fmt.Errorf("%w: another process has prepared it and holds %s: stop that one first", ErrBusy, path)
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

// forget removes the file, if nobody else has.
func (m *memory) forget() error {
	err := os.Remove(m.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, m.file.Close())
}

// release lets go of the device and leaves the file to the next one.
func (m *memory) release() error { return m.file.Close() }

// namespaceOf returns what names the thread's network namespace: its inode, as in `ip netns
// identify` and /proc/*/ns/net, and its cookie.
func namespaceOf() (inode, cookie uint64, err error) {
	var at unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &at); err != nil {
		return 0, 0, fmt.Errorf("look at the network namespace: %w", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	if cookie, err = getsockopt[uint64](fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
		return 0, 0, fmt.Errorf("ask for the network namespace's cookie: %w", err)
	}
	return at.Ino, cookie, nil
}
