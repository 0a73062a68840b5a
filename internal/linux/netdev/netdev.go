// Package netdev queries the kernel's generic netlink family "netdev"
// (Documentation/netlink/specs/netdev.yaml) for what other interfaces to network devices lack. It
// works in the calling thread's network namespace.
package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	family  = "netdev"
	version = 1

	deviceGet      = 1 // NETDEV_CMD_DEV_GET
	deviceIndex    = 1 // NETDEV_A_DEV_IFINDEX
	deviceFeatures = 3 // NETDEV_A_DEV_XDP_FEATURES
	deviceSegments = 4 // NETDEV_A_DEV_XDP_ZC_MAX_SEGS
)

// Features are the XDP features of a device (enum netdev_xdp_act, linux/netdev.h).
type Features uint64

// The features.
const (
	Basic     Features = 1 << 0 // it runs programs natively
	Redirect  Features = 1 << 1 // programs may redirect the frames that it receives
	Target    Features = 1 << 2 // it sends frames that programs redirect to it (ndo_xdp_xmit)
	ZeroCopy  Features = 1 << 3 // AF_XDP without copies
	Fragments Features = 1 << 5 // programs get frames in several fragments (rx-sg)
)

// FeaturesOf returns the XDP features of the device with this index. Needs Linux 6.3.
func FeaturesOf(device int) (Features, error) {
	value, err := attribute(device, deviceFeatures, 8)
	if err != nil {
		return 0, err
	}
	if value == nil {
		return 0, errors.New("the kernel does not report the XDP features of the device")
	}
	return Features(binary.NativeEndian.Uint64(value)), nil
}

// Segments returns in how many buffers the device with this index can have one frame in zero-copy
// mode: 1 also if it has no such mode, and before Linux 6.6, which has no frames in several.
func Segments(device int) (int, error) {
	value, err := attribute(device, deviceSegments, 4)
	if err != nil || value == nil {
		return 1, err
	}
	return int(binary.NativeEndian.Uint32(value)), nil
}

// attribute returns an attribute of a device that is size bytes long, or nil if the kernel does not
// report it.
func attribute(device int, kind uint16, size int) ([]byte, error) {
	messages, err := ask(deviceGet, 0, nl.NewRtAttr(deviceIndex, nl.Uint32Attr(uint32(device))))
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		for _, a := range m {
			if a.Attr.Type == kind && len(a.Value) == size {
				return a.Value, nil
			}
		}
	}
	return nil, nil
}

// TakesRedirects reports whether a device sends frames that XDP programs redirect to it. A veth
// device does while its peer runs an XDP program or has GRO on. Needs Linux 6.3.
func TakesRedirects(device int) (bool, error) {
	f, err := FeaturesOf(device)
	return f&Target != 0, err
}

// header is struct genlmsghdr (linux/genetlink.h): command, version, and 16 bits that must be 0.
// Package nl's version has two bytes, and reads two more of whatever lies behind it.
type header [nl.SizeofGenlmsg]byte

func (h header) Len() int          { return len(h) }
func (h header) Serialize() []byte { return h[:] }

// ask sends a command and returns the attributes of each answer.
func ask(command uint8, flags int, attributes ...*nl.RtAttr) (answers [][]syscall.NetlinkRouteAttr, err error) {
	id, err := familyID()
	if err != nil {
		return nil, fmt.Errorf("generic netlink family %s: %w", family, err)
	}
	return request(id, header{command, version}, flags|unix.NLM_F_ACK, attributes...)
}

// familyID returns the number of the family in the running kernel. Package netlink's GenlFamilyGet
// reads beyond the header of package nl.
func familyID() (int, error) {
	answers, err := request(nl.GENL_ID_CTRL, header{nl.GENL_CTRL_CMD_GETFAMILY, nl.GENL_CTRL_VERSION}, 0,
		nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(family)))
	if err != nil {
		return 0, err
	}
	for _, m := range answers {
		for _, a := range m {
			if a.Attr.Type == nl.GENL_CTRL_ATTR_FAMILY_ID && len(a.Value) == 2 {
				return int(binary.NativeEndian.Uint16(a.Value)), nil
			}
		}
	}
	return 0, errors.New("the kernel does not tell its number")
}

// request sends a message of a family and returns the attributes of each answer.
func request(family int, h header, flags int, attributes ...*nl.RtAttr) (answers [][]syscall.NetlinkRouteAttr,
	err error) {
	r := nl.NewNetlinkRequest(family, flags)
	r.AddData(h)
	for _, a := range attributes {
		r.AddData(a)
	}
	messages, err := r.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		all, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return nil, err
		}
		answers = append(answers, all)
	}
	return answers, nil
}
