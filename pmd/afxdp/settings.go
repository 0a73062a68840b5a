package afxdp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/ethtool"
)

// Options are optional parts of Prepare.
type Options struct {
	BusyPoll bool // defer the device's interrupts (Config.BusyPoll)
}

// Settings are the settings of a device that Prepare changes and Restore restores.
type Settings struct {
	link   netlink.Link
	driver string // "" if unknown
	tool   *ethtool.Socket
	pause  pauser   // the tool, except in tests
	memory *memory  // also holds the device: no second Prepare while this lives; nil once given up
	before original // settings before the first Prepare that has not been restored
	notes  []string
}

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
// outside the frame. XDP programs can see neither. In the other direction, a peer without NAPI (GRO
// or XDP) receives through the per-CPU backlog, which drops frames where a ring would push back.
const peerNote = "veth: only the peer can complete its frames and push back: run " +
	"`ethtool -K <peer> tx off txvlan off gro on` in its namespace, unless it runs XDP itself"

// Prepare makes a device fit to be a port: no offload that changes frames, one receive queue, a
// queueing discipline if veth needs one to push back (pfifo), and promiscuous mode. Call it before
// Open, because some drivers refuse XDP with offloads enabled, and call Restore after Close. An
// open port also needs SetFlowControl.
//
// Settings that the device can't change are listed in Notes and are not errors, except for VLAN
// tags that it would strip (ErrTagsStripped). The previous settings are kept on disk until Restore,
// so that a process started after one was killed still knows the originals. A device prepared by
// another living process is rejected (ErrBusy).
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
	s := &Settings{link: link, driver: d.driver, tool: tool, pause: tool}
	if s.memory, s.before, err = remember(link, func() (original, error) { return capture(link, tool) }); err != nil {
		tool.Close()
		if errors.Is(err, unix.EACCES) {
			err = fmt.Errorf("%w: the original settings are kept there: let this user write to %s", err, StateDirectory)
		}
		return nil, err
	}
	err = d.checkOwner() // before any change: the settings belong to the program's owner too
	if err == nil {
		err = s.apply(o)
	}
	if err != nil {
		if failed := s.restore(); failed != nil {
			err = errors.Join(err, failed, s.Abandon())
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

// Notes returns the settings that the device could not change and other hints for its owner.
func (s *Settings) Notes() []string { return s.notes }

func (s *Settings) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *Settings) apply(o Options) error {
	device := s.link.Attrs().Name
	if err := s.stopOffloads(device); err != nil {
		return err
	}
	if c := s.before.Channels; c != nil && c.more() {
		if err := setChannels(s.tool, device, c.one()); err != nil {
			s.note("can't reduce its %d receive queues to one: %v", c.RX+c.Combined, err)
		}
	}
	if s.link.Type() == "veth" {
		s.note(peerNote)
		root, err := rootQdisc(s.link)
		if err == nil && root == nil {
			err = netlink.QdiscAdd(pushBack(s.link))
		}
		if err != nil {
			s.note("can't add a pfifo, so veth drops frames when its 256 entries are full: %v", err)
		}
	}
	if err := netlink.SetPromiscOn(s.link); err != nil {
		s.note("can't make it promiscuous, so it may receive only frames to its own address: %v", err)
	}
	if o.BusyPoll {
		s.deferInterrupts(device)
	}
	return nil
}

// stopOffloads turns off harmful offloads and checks the result.
func (s *Settings) stopOffloads(device string) error {
	states, err := s.tool.Features(device)
	if err != nil {
		s.note("can't read its offloads: %v", err)
		return nil
	}
	off := map[string]bool{}
	for name, state := range states {
		if Harmful(name) && state.Available && (state.Requested || state.Active) {
			off[name] = false
		}
	}
	var failed error
	if len(off) > 0 {
		failed = s.tool.SetFeatures(device, off)
	}
	if failed != nil {
		s.note("can't change its offloads: %v", failed)
	}
	if states, err = s.tool.Features(device); err != nil {
		return err
	}
	left := leftOn(states)
	if slices.Contains(left, StripsTags) {
		why := ErrTagsStripped
		if failed != nil {
			why = fmt.Errorf("%w (%w)", why, failed)
		}
		return fmt.Errorf("%w, and %s can't be turned off, so frames would lose their priority: use "+
			"another device", why,
			StripsTags)
	}
	for _, name := range left {
		s.note("can't turn off its offload %s", name)
	}
	return nil
}

// leftOn returns the harmful offloads that are active.
func leftOn(states map[string]ethtool.Feature) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if Harmful(name) && states[name].Active {
			names = append(names, name)
		}
	}
	return names
}

func (s *Settings) deferInterrupts(device string) {
	files, err := openDeviceFiles(device)
	if err != nil {
		s.note("busy polling without deferred interrupts: %v", err)
		return
	}
	for name, value := range napiNames {
		if err := files.write(name, value); err != nil {
			s.note("busy polling without deferred interrupts: %v", err)
		}
	}
}

// Restore restores the previous settings and forgets them, even if the device has been renamed. If
// it fails, it may be called again; after it succeeds, further calls do nothing. For a device that
// is gone, there is nothing to restore.
func (s *Settings) Restore() error {
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
func (s *Settings) Abandon() error { return s.giveUp((*memory).release) }

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
}

// capture reads the settings of a device that has not been prepared.
func capture(link netlink.Link, tool *ethtool.Socket) (o original, err error) {
	device := link.Attrs().Name
	states, _ := tool.Features(device) // if the device does not report them, they are not changed
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if Harmful(name) && states[name].Available && states[name].Requested {
			o.Offloads = append(o.Offloads, name)
		}
	}
	if c, err := tool.Channels(device); err == nil {
		o.Channels = &channels{RX: c.RX, TX: c.TX, Combined: c.Combined, HasCombined: c.MaxCombined > 0}
	}
	root, err := rootQdisc(link)
	if err != nil {
		return o, err
	}
	o.Qdisc = root != nil
	o.Pause = readPause(tool, device)
	o.Promiscuous = link.Attrs().RawFlags&unix.IFF_PROMISC != 0
	if files, err := openDeviceFiles(device); err == nil {
		o.NAPI = map[string]string{}
		for name := range napiNames {
			if value, err := files.read(name); err == nil {
				o.NAPI[name] = value
			}
		}
	}
	return o, nil
}

// putBack undoes the parts of apply that took effect.
func (s *Settings) putBack(link netlink.Link) error {
	o, tool, device := s.before, s.tool, link.Attrs().Name
	var errs []error
	on := map[string]bool{}
	for _, name := range o.Offloads {
		on[name] = true
	}
	if len(on) > 0 {
		errs = append(errs, tool.SetFeatures(device, on))
	}
	if o.Channels != nil && o.Channels.more() {
		if err := setChannels(tool, device, *o.Channels); err != nil {
			errs = append(errs, fmt.Errorf("restore its %d receive queues: %w (veth: only while its peer "+
				"runs no XDP)", o.Channels.RX+o.Channels.Combined, err))
		}
	}
	root, err := rootQdisc(link)
	errs = append(errs, err)
	if !o.Qdisc && root != nil && root.Attrs().Handle == pushBack(link).Handle {
		errs = append(errs, netlink.QdiscDel(root))
	}
	if !o.Promiscuous {
		errs = append(errs, netlink.SetPromiscOff(link))
	}
	if o.Pause != nil {
		errs = append(errs, setPause(s.pause, device, *o.Pause))
	}
	errs = append(errs, putBackNAPI(device, o.NAPI))
	return errors.Join(errs...)
}

func putBackNAPI(device string, before map[string]string) error {
	if len(before) == 0 {
		return nil
	}
	files, err := openDeviceFiles(device)
	if err != nil {
		return err
	}
	var errs []error
	for name, value := range before {
		if now, err := files.read(name); err != nil || now != value {
			errs = append(errs, files.write(name, value))
		}
	}
	return errors.Join(errs...)
}

// channels are the numbers of a device's channels. A combined channel has a receive and a transmit
// queue.
type channels struct {
	RX, TX, Combined uint32
	HasCombined      bool // the device supports combined ones
}

func (c channels) more() bool { return c.RX+c.Combined > 1 }

// one returns the smallest numbers that receive and send.
func (c channels) one() channels {
	if c.HasCombined {
		return channels{Combined: 1, HasCombined: true}
	}
	return channels{RX: 1, TX: 1}
}

func setChannels(tool *ethtool.Socket, device string, want channels) error {
	c, err := tool.Channels(device)
	if err != nil {
		return err
	}
	if c.RX == want.RX && c.TX == want.TX && c.Combined == want.Combined {
		return nil
	}
	c.RX, c.TX, c.Combined = want.RX, want.TX, want.Combined
	return tool.SetChannels(device, c)
}

// pushBack returns the queueing discipline that makes veth report "busy" instead of dropping when
// its ring is full. AF_XDP frames bypass it; it only has to exist. Its handle distinguishes it from
// those of other programs.
func pushBack(link netlink.Link) *netlink.GenericQdisc {
	return &netlink.GenericQdisc{QdiscType: "pfifo", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0x51ce, 0), Parent: netlink.HANDLE_ROOT}}
}

// rootQdisc returns the queueing discipline at the root of a device, or nil if it has none.
func rootQdisc(link netlink.Link) (netlink.Qdisc, error) {
	all, err := netlink.QdiscList(link)
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	for _, q := range all {
		if q.Attrs().Parent == netlink.HANDLE_ROOT && q.Type() != "noqueue" {
			return q, nil
		}
	}
	return nil, nil
}
