package afxdp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/ethtool"
)

// Options are optional parts of Prepare.
type Options struct {
	BusyPoll bool // defer the device's interrupts (Config.BusyPoll)
}

// Settings are the settings of a device that Prepare changes, Keep keeps and Restore restores.
type Settings struct {
	driver  string // "" if unknown
	options Options
	notes   []string

	lock        sync.Mutex // Keep may run beside the other methods
	link        netlink.Link
	tool        *ethtool.Socket
	pause       pauser             // the tool, except in tests
	memory      *memory            // also holds the device: no second Prepare while this lives; nil once given up
	before      original           // settings before the first Prepare that has not been restored
	flowControl bool               // the owner of the port does it, so the device must not
	leaving     bool               // Restore has begun: nothing is kept any more
	keeping     map[string]keeping // by name of the setting
	kept        atomic.Pointer[Kept]
}

// setting is something that a port needs of its device, and that others may change. Prepare, Keep
// and Restore go through the list of settings, so what is added there is set, watched and restored.
// The functions get the device under its present name.
type setting struct {
	name    string
	capture func(s *Settings, link netlink.Link) // keeps the original in s.before; nil: none is restored
	// lacks returns what the device has instead, what that means, and a shell command that helps;
	// "": it is set, or not needed.
	lacks func(s *Settings, link netlink.Link) (text, fix string)
	set   func(s *Settings, link netlink.Link) error // nil: the setting is in another network namespace
	// restore undoes set, if that took effect. A value that another program has set since stays.
	restore func(s *Settings, link netlink.Link) error
	// reopen: drivers set up their rings anew for it, so it is set only while the port is closed;
	// Port.CheckDevice tells when that is needed.
	reopen bool
}

var settings = []setting{offloads, queues, qdisc, promiscuous, interrupts, pauseFrames, peer}

// StripsTags is the offload that removes a frame's VLAN tag, and so its priority, from the bytes.
const StripsTags = "rx-vlan-hw-parse"

// Harmful reports whether an offload changes frames in a way that is not undone behind an XDP
// program: it joins frames (GRO, LRO) or leaves them joined (TSO, GSO), omits checksums, moves VLAN
// tags out of the frame, or filters by them. Feature names are the kernel's (ETH_SS_FEATURES).
func Harmful(feature string) bool {
	for _, prefix := range []string{"rx-gro", "rx-udp-gro", "rx-lro", "rx-vlan", "tx-vlan", "tx-checksum", "tx-tcp",
		"tx-udp-"} {
		if strings.HasPrefix(feature, prefix) {
			return true
		}
	}
	return feature == "rx-checksum" || feature == "tx-generic-segmentation"
}

// peerNote tells what a veth pair needs at the end that this program can't reach. The kernel gives
// an XDP program the bytes as the peer's stack left them: with TCP and UDP checksums to be
// completed by hardware that does not exist (CHECKSUM_PARTIAL), and with the VLAN tag stored
// outside the frame. XDP programs can see neither. For the other direction see peerDrops.
const peerNote = "veth: only the peer can complete its frames and push back: run " +
	"`ethtool -K <peer> tx off txvlan off gro on` in its namespace, unless it runs XDP itself"

// Prepare makes a device fit to be a port: no offload that changes frames, one receive queue, a
// queueing discipline if veth needs one to push back (pfifo), and promiscuous mode. Call it before
// Open, because some drivers refuse XDP with offloads enabled, and call Restore after Close. An
// open port also needs SetFlowControl.
//
// Settings that the device can't change are no errors, except for VLAN tags that it would strip
// (ErrTagsStripped): Keep tells which are missing. The previous settings are kept on disk until
// Restore, so that a process started after one was killed still knows the originals. A device
// prepared by another living process is rejected (ErrBusy).
func Prepare(device string, o Options) (*Settings, error) {
	s, err := prepare(device, o)
	if err != nil {
		return nil, fmt.Errorf("afxdp: prepare %s: %w", device, err)
	}
	return s, nil
}

func prepare(device string, o Options) (*Settings, error) {
	d, err := findDevice(device)
	if err != nil {
		return nil, err
	}
	if d.unfit != nil {
		return nil, d.unfit
	}
	link, err := findLink(device)
	if err != nil {
		return nil, err
	}
	if err := mayAdminister(); err != nil {
		return nil, refused(changeSettings, err)
	}
	tool, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	s := &Settings{link: link, driver: d.driver, options: o, tool: tool, pause: tool, keeping: map[string]keeping{}}
	if s.memory, s.before, err = remember(link, s.capture); err != nil {
		tool.Close()
		if errors.Is(err, unix.EACCES) {
			err = fmt.Errorf("%w: the original settings are kept there: let this user write to %s", err, StateDirectory)
		}
		return nil, err
	}
	err = d.checkOwner() // before any change: the settings belong to the program's owner too
	if err == nil {
		err = s.apply()
	}
	if err != nil {
		if failed := s.restore(); failed != nil {
			err = errors.Join(err, failed, s.giveUp((*memory).release))
		}
		return nil, err
	}
	return s, nil
}

// mayAdminister returns an error if the thread may not change devices. Without this check, the
// failed changes would become notes instead of an error.
func mayAdminister() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return err
	}
	if has[unix.CAP_NET_ADMIN/32].Effective>>(unix.CAP_NET_ADMIN%32)&1 == 0 {
		return unix.EPERM
	}
	return nil
}

// Driver returns the driver of the device, or "" if it is unknown.
func (s *Settings) Driver() string { return s.driver }

// Notes returns hints for the device's owner.
func (s *Settings) Notes() []string { return s.notes }

// apply sets all settings that are missing, as far as possible.
func (s *Settings) apply() error {
	var why error
	for _, of := range settings {
		if text, _ := of.lacks(s, s.link); text != "" && of.set != nil {
			why = errors.Join(why, of.set(s, s.link))
		}
	}
	on := s.harmful(s.link, func(f ethtool.Feature) bool { return f.Active })
	if slices.Contains(on, StripsTags) {
		return errors.Join(fmt.Errorf("%w, and %s can't be turned off, so frames would lose their priority: use "+
			"another device", ErrTagsStripped, StripsTags), why)
	}
	for _, name := range on {
		s.notes = append(s.notes, "can't turn off its offload "+name)
	}
	if s.link.Type() == "veth" {
		s.notes = append(s.notes, peerNote)
	}
	return nil
}

// Restore restores the previous settings and forgets them, even if the device has been renamed. If
// it fails, it may be called again; after it succeeds, further calls do nothing. For a device that
// is gone, there is nothing to restore. A value that is neither the original nor that of Prepare is
// another program's, and stays.
func (s *Settings) Restore() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.leaving = true
	if err := s.restore(); err != nil {
		return fmt.Errorf("afxdp: restore %s: %w", s.link.Attrs().Name, err)
	}
	return nil
}

func (s *Settings) restore() error {
	if s.memory == nil {
		return nil
	}
	link, err := s.device()
	if err == nil {
		err = s.putBack(link)
	}
	if err != nil && !errors.Is(err, ErrNoDevice) {
		return err
	}
	return s.giveUp((*memory).forget)
}

// Abandon gives up on settings that Restore could not restore. They stay on disk for the next
// Prepare of the device.
func (s *Settings) Abandon() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.giveUp((*memory).release)
}

// giveUp closes all that the settings hold open. It does so only once, even on error: by a second
// call, the descriptors may have been reused.
func (s *Settings) giveUp(file func(*memory) error) error {
	if s.memory == nil {
		return nil
	}
	err := file(s.memory)
	s.tool.Close()
	s.memory, s.tool, s.pause = nil, nil, nil
	return err
}

// errDoubt means that a device has neither the name nor the address of the prepared one, and that
// there is no sysfs to identify it.
var errDoubt = errors.New("can't tell without a sysfs whether this is still the same device, so it was left as it is")

// device returns the prepared device under its present name. It returns ErrNoDevice if the device
// is gone, even if its index is in use again, and errDoubt if that can't be determined.
func (s *Settings) device() (netlink.Link, error) {
	link, err := netlink.LinkByIndex(s.link.Attrs().Index)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, ErrNoDevice
	}
	if err != nil {
		return nil, err
	}
	who, err := identify(link)
	switch {
	case err != nil:
		return nil, err
	case s.before.isNot(who):
		return nil, fmt.Errorf("%w: another device has its index", ErrNoDevice)
	case !s.before.is(who):
		return nil, fmt.Errorf("%s: %w", who.Name, errDoubt)
	}
	return link, nil
}

// original are the settings that Prepare may change. They are kept in StateDirectory.
type original struct {
	identity                      // of the device
	Offloads    []string          // harmful ones that were requested
	Channels    *channels         `json:",omitempty"` // nil: it has no channels
	Qdisc       bool              // it had a root queueing discipline
	Promiscuous bool              //
	Pause       *ethtool.Pause    `json:",omitempty"` // nil: it has no such settings
	NAPI        map[string]string `json:",omitempty"` // by file name
	recalled    bool              // from the file of an owner that was killed
}

// capture reads the settings of a device that has not been prepared.
func (s *Settings) capture() original {
	for _, of := range settings {
		if of.capture != nil {
			of.capture(s, s.link)
		}
	}
	return s.before
}

// putBack undoes the parts of apply that took effect.
func (s *Settings) putBack(link netlink.Link) error {
	var errs []error
	for _, of := range settings {
		if of.restore != nil {
			errs = append(errs, of.restore(s, link))
		}
	}
	return errors.Join(errs...)
}
