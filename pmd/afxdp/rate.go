package afxdp

import (
	"math"

	"github.com/safchain/ethtool"
)

// hardware is the kind of a device that the kernel has not been asked to make. Others have no link of their own: veth reports what is
// compiled in (veth_get_link_ksettings in drivers/net/veth.c), tun what somebody has set, and a VLAN what the device below it reports.
const hardware = "device"

// LinkSpeed returns the rate of a device's link in bit/s, in the thread's network namespace; 0: it has no link now, or does not say, or
// is not hardware, and what it says means nothing.
func LinkSpeed(device string) uint64 {
	link, err := findLink(device)
	if err != nil || link.Type() != hardware {
		return 0
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return 0
	}
	defer tool.Close()
	megabits, err := tool.CmdGet(new(ethtool.EthtoolCmd), device)
	if err != nil || megabits == math.MaxUint32 { // SPEED_UNKNOWN
		return 0
	}
	return uint64(megabits) * 1e6
}
