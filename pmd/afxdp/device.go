package afxdp

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"sluice/internal/linux/ethtool"
	"sluice/internal/linux/netdev"
	"sluice/pmd"
)

// device is a network device in the state in which Open finds it.
type device struct {
	name    string
	unfit   *Unfit // of Fit
	kind    string // "veth", "tun", ...; "device" for hardware
	driver  string // "" if unknown
	index   int
	up      bool
	mtu     int // bytes
	queues  int // receive queues in use
	rxRing  int // entries of the device's own receive ring; 0: none or unknown
	xdpID   uint32
	xdpMode string // the mode of the XDP program that is attached; "" if none is
}

// findDevice returns the device of this name in the thread's network namespace.
func findDevice(name string) (device, error) {
	link, err := findLink(name)
	if err != nil {
		return device{}, err
	}
	at := link.Attrs()
	d := device{
		name: name, unfit: fit(name, link), kind: link.Type(), index: at.Index, mtu: at.MTU, queues: at.NumRxQueues,
		up: at.Flags&net.FlagUp != 0,
	}
	if x := at.Xdp; x != nil && x.Attached {
		d.xdpID, d.xdpMode = x.ProgId, attachMode(x.AttachMode)
	}
	tool, err := ethtool.Open()
	if err != nil {
		return d, err
	}
	defer tool.Close()
	d.driver, _ = tool.Driver(name)
	if c, err := tool.Channels(name); err == nil { // else the number is fixed: all allocated queues are used
		d.queues = int(c.RX + c.Combined)
	}
	if r, err := tool.Rings(name); err == nil {
		d.rxRing = int(r.RX)
	}
	return d, nil
}

// Unfit is why a device can't be a port, and what to use instead.
type Unfit struct{ Why, Instead string }

func (u *Unfit) Error() string { return fmt.Sprintf("can't be a port: %s: %s", u.Why, u.Instead) }

// Fit returns why the device that the kernel finds by a name can't be the port of that name: it is
// an alternative name (ip-link(8)), which link events and sysfs lack, or the device does not carry
// Ethernet frames between any stations. Fit returns nil if there is no device.
func Fit(name string) *Unfit {
	link, err := findLink(name)
	if err != nil {
		return nil
	}
	return fit(name, link)
}

func fit(name string, link netlink.Link) *Unfit {
	at := link.Attrs()
	switch {
	case at.Name != name:
		return &Unfit{fmt.Sprintf("%s is an alternative name of device %s", name, at.Name), "write " + at.Name}
	case at.EncapType != "ether":
		return &Unfit{fmt.Sprintf("it has no Ethernet frames (link/%s)", at.EncapType),
			"use a device that has, such as tap instead of tun, gretap instead of gre, VXLAN over a VPN, or veth " +
				"instead of lo"}
	case receivesOwn(link):
		return &Unfit{fmt.Sprintf("it receives nothing for hosts behind it (%s)", link.Type()),
			"use the device below it, or veth"}
	}
	return nil
}

// receivesOwn reports whether a device receives only what is for its own addresses.
func receivesOwn(link netlink.Link) bool {
	switch l := link.(type) {
	case *netlink.IPVlan, *netlink.IPVtap, *netlink.Vrf:
		return true
	case *netlink.Macvlan:
		return l.Mode != netlink.MACVLAN_MODE_PASSTHRU
	case *netlink.Macvtap:
		return l.Mode != netlink.MACVLAN_MODE_PASSTHRU
	case *netlink.Netkit:
		return l.Mode == netlink.NETKIT_MODE_L3
	}
	return false
}

func findLink(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, fmt.Errorf("%w in this network namespace: name one that `ip link` lists", ErrNoDevice)
	}
	return link, err
}

// attachMode names IFLA_XDP_ATTACHED (linux/if_link.h).
func attachMode(m uint32) string {
	names := [...]string{"", "native", "generic", "offloaded", "multiple"}
	return names[min(int(m), len(names)-1)]
}

// check returns why the device can't be opened with c. It changes nothing.
func (d device) check(c Config) error {
	limit, parts := MaxMTU(c.BufferSize), Parts(d.mtu, c.BufferSize)
	switch {
	case d.unfit != nil:
		return d.unfit
	case !d.up:
		return fmt.Errorf("%w: set it up with `ip link set dev %s up`", ErrDown, d.name)
	case d.mtu > limit:
		return fmt.Errorf("%w: MTU %d, but %d buffers of %d bytes, the most for a frame, hold %d: "+
			"run `ip link set dev %s mtu %d`, or use larger buffers",
			ErrMTU, d.mtu, pmd.MaxParts, c.BufferSize, limit, d.name, limit)
	case d.queues > 1:
		return d.manyQueues()
	case c.Queue >= d.queues:
		return fmt.Errorf("%w: no queue %d; the device has %d", ErrQueues, c.Queue, d.queues)
	case c.BusyPoll && !olderThan(6, 13) && !d.mayZeroCopy(c.Mode):
		return ErrBusyPoll
	case parts > 1 && parts > c.RingSize:
		return fmt.Errorf("%w: MTU %d, so a frame has up to %d parts, and the rings have %d entries: "+
			"use longer rings", ErrParts, d.mtu, parts, c.RingSize)
	}
	return d.checkOwner()
}

// mayZeroCopy reports whether the port may get zero-copy mode, as far as the kernel tells.
func (d device) mayZeroCopy(mode Mode) bool {
	has, err := netdev.FeaturesOf(d.index)
	return mode != Copy && (err != nil || has&netdev.ZeroCopy != 0)
}

// checkOwner rejects a device that has another program's XDP program.
func (d device) checkOwner() error {
	if d.xdpMode == "" {
		return nil
	}
	return fmt.Errorf("%w: id %d, name %q, %s mode: stop its owner, or detach it with `ip link set dev %s xdp off`",
		ErrProgram, d.xdpID, programName(d.xdpID), d.xdpMode, d.name)
}

// programName returns a loaded program's name, or "" without permission to read it.
func programName(id uint32) string {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return ""
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return ""
	}
	return info.Name
}
