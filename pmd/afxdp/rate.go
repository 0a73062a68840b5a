package afxdp

import (
	"slices"

	"sluice/internal/linux/ethtool"
)

// hardware is the kind of a device that was not created by a request to the kernel. Other devices
// have no link of their own: veth reports a compiled-in rate (veth_get_link_ksettings in
// drivers/net/veth.c), tun a rate that a user has set, and a VLAN the rate of the device below it.
const hardware = "device"

// paravirtual are the drivers of a hypervisor's devices: virtio, VMware, Hyper-V and Xen
// (netfront_ids in drivers/net/xen-netfront.c). The rate that they report is nominal: it was given
// to the hypervisor or is compiled in.
var paravirtual = []string{"virtio_net", "vmxnet3", "hv_netvsc", "vif"}

// LinkSpeed returns the rate in bit/s of a device's link, in the thread's network namespace. It is
// 0 if the link is down, the rate is unknown, or the device is not hardware, whose reported rate
// means nothing. The rate is nominal if a hypervisor made the device: then a configured rate is
// more reliable.
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

// speaker is the part of *ethtool.Socket that reports a link's rate.
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
