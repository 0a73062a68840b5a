package afxdp

import (
	"slices"

	"sluice/internal/ethtool"
)

// hardware is the kind of a device that the kernel has not been asked to make. Others have no link
// of their own: veth reports what is compiled in (veth_get_link_ksettings in drivers/net/veth.c),
// tun what somebody has set, and a VLAN what the device below it reports.
const hardware = "device"

// paravirtual are the drivers of devices that a hypervisor makes: virtio, VMware, Hyper-V and Xen
// (netfront_ids in drivers/net/xen-netfront.c). The rate that these report is nominal: what the
// hypervisor was told, or what is compiled in.
var paravirtual = []string{"virtio_net", "vmxnet3", "hv_netvsc", "vif"}

// LinkSpeed returns the rate of a device's link in bit/s, in the thread's network namespace; 0: it
// has no link now, or does not say, or is not hardware, and what it says means nothing. The rate is
// nominal if a hypervisor has made the device: then whoever knows better is right.
func LinkSpeed(device string) (rate uint64, nominal bool) {
	link, err := findLink(device)
	if err != nil || link.Type() != hardware {
		return 0, false
	}
	tool, err := ethtool.Open()
	if err != nil {
		return 0, false
	}
	defer tool.Close()
	return linkSpeed(tool, device)
}

// speaker is what of *ethtool.Socket tells the rate of a link.
type speaker interface {
	Driver(device string) (string, error)
	Speed(device string) (megabits uint32, err error)
}

func linkSpeed(tool speaker, device string) (rate uint64, nominal bool) {
	driver, err := tool.Driver(device)
	nominal = err == nil && slices.Contains(paravirtual, driver)
	megabits, err := tool.Speed(device)
	if err != nil || megabits == ethtool.SpeedUnknown || megabits == ethtool.SpeedUnknown16 {
		return 0, nominal
	}
	return uint64(megabits) * 1e6, nominal
}
