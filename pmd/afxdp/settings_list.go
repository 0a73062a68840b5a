package afxdp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/ethtool"
	"sluice/internal/linux/netdev"
)

// harmful returns the harmful offloads of a device that are in a state, sorted. It returns none if
// the device does not report them.
func (s *Settings) harmful(link netlink.Link, in func(ethtool.Feature) bool) (names []string) {
	states, _ := s.tool.Features(link.Attrs().Name)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if Harmful(name) && in(states[name]) {
			names = append(names, name)
		}
	}
	return names
}

// setHarmful turns offloads on or off.
func (s *Settings) setHarmful(link netlink.Link, names []string, on bool) error {
	if len(names) == 0 {
		return nil
	}
	states := map[string]bool{}
	for _, name := range names {
		states[name] = on
	}
	return s.tool.SetFeatures(link.Attrs().Name, states)
}

// stoppable: the offload is on, or would be if others were, and can be turned off.
func stoppable(f ethtool.Feature) bool { return f.Available && (f.Active || f.Requested) }

var offloads = setting{
	name: "offloads",
	capture: func(s *Settings, link netlink.Link) {
		s.before.Offloads = s.harmful(link, func(f ethtool.Feature) bool { return f.Available && f.Requested })
	},
	lacks: func(s *Settings, link netlink.Link) (text, fix string) {
		on := s.harmful(link, stoppable)
		if len(on) == 0 {
			return "", ""
		}
		return "offloads that change frames are on: " + strings.Join(on, ", "),
			"ethtool -K " + DeviceInFix + " " + strings.Join(on, " off ") + " off"
	},
	set: func(s *Settings, link netlink.Link) error {
		return s.setHarmful(link, s.harmful(link, stoppable), false)
	},
	restore: func(s *Settings, link netlink.Link) error { return s.setHarmful(link, s.before.Offloads, true) },
}

var queues = setting{
	name:   "queues",
	reopen: true,
	capture: func(s *Settings, link netlink.Link) {
		if c, err := s.tool.Channels(link.Attrs().Name); err == nil {
			s.before.Channels = &channels{c.RX, c.TX, c.Combined, c.MaxCombined > 0}
		}
	},
	lacks: func(s *Settings, link netlink.Link) (text, fix string) {
		c, err := s.tool.Channels(link.Attrs().Name)
		if err != nil || c.RX+c.Combined <= 1 {
			return "", ""
		}
		return fmt.Sprintf("it has %d receive queues", c.RX+c.Combined), ""
	},
	set: func(s *Settings, link netlink.Link) error {
		c, err := s.tool.Channels(link.Attrs().Name)
		if err != nil {
			return err
		}
		return setChannels(s.tool, link.Attrs().Name, channels{HasCombined: c.MaxCombined > 0}.one())
	},
	restore: func(s *Settings, link netlink.Link) error {
		was, device := s.before.Channels, link.Attrs().Name
		if was == nil || !was.more() {
			return nil
		}
		if c, err := s.tool.Channels(device); err == nil && c.RX+c.Combined > 1 {
			return nil // not one any more
		}
		if err := setChannels(s.tool, device, *was); err != nil {
			return fmt.Errorf("restore its %d receive queues: %w (veth: only while its peer runs no XDP)",
				was.RX+was.Combined, err)
		}
		return nil
	},
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

// qdisc makes veth report "busy" instead of dropping when its ring is full. AF_XDP frames bypass
// the queueing discipline; it only has to exist, and any will do. The handle of ours distinguishes
// it from those of others.
var qdisc = setting{
	name:    "qdisc",
	capture: func(s *Settings, link netlink.Link) { s.before.Qdisc = !hasNoQdisc(link) },
	lacks: func(_ *Settings, link netlink.Link) (text, fix string) {
		if link.Type() != "veth" || !hasNoQdisc(link) {
			return "", ""
		}
		return "it has no queueing discipline, so when its peer has no room, it drops frames, lossless ones too, " +
			"instead of keeping them", "tc qdisc replace dev " + DeviceInFix + " root pfifo"
	},
	set: func(_ *Settings, link netlink.Link) error { return netlink.QdiscReplace(pushBack(link)) },
	restore: func(s *Settings, link netlink.Link) error {
		if s.before.Qdisc {
			return nil
		}
		all, err := netlink.QdiscList(link)
		for _, q := range all {
			if at := q.Attrs(); at.Parent == netlink.HANDLE_ROOT && at.Handle == pushBack(link).Handle {
				return netlink.QdiscDel(q)
			}
		}
		return err
	},
}

func hasNoQdisc(link netlink.Link) bool {
	is, err := lookUp(link.Attrs().Name)
	return err == nil && is.qdisc == "noqueue"
}

func pushBack(link netlink.Link) *netlink.GenericQdisc {
	return &netlink.GenericQdisc{QdiscType: "pfifo", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0x51ce, 0), Parent: netlink.HANDLE_ROOT}}
}

var promiscuous = setting{
	name: "promiscuous",
	capture: func(s *Settings, link netlink.Link) {
		s.before.Promiscuous = link.Attrs().RawFlags&unix.IFF_PROMISC != 0
	},
	lacks: func(_ *Settings, link netlink.Link) (text, fix string) {
		if link.Attrs().RawFlags&unix.IFF_PROMISC != 0 {
			return "", ""
		}
		return "it is not promiscuous, so it may receive only frames to its own address",
			"ip link set dev " + DeviceInFix + " promisc on"
	},
	set: func(_ *Settings, link netlink.Link) error { return netlink.SetPromiscOn(link) },
	restore: func(s *Settings, link netlink.Link) error {
		if s.before.Promiscuous {
			return nil
		}
		return netlink.SetPromiscOff(link)
	},
}

// peer is about the other end of a veth pair: without NAPI (GRO or XDP), it receives through the
// backlog of a CPU, which drops frames where a ring would push back.
var peer = setting{
	name: "peer",
	lacks: func(_ *Settings, link netlink.Link) (text, fix string) {
		if takes, err := netdev.TakesRedirects(link.Attrs().Index); link.Type() != "veth" || takes || err != nil {
			return "", ""
		}
		return "its peer has neither GRO nor an XDP program, so it drops frames, lossless ones too, where it should " +
			"push back: run `ethtool -K PEER gro on` in its namespace", ""
	},
}
