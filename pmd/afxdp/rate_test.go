package afxdp

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/ethtool"
)

// TestLinkSpeedOfNoLink: a device that is not hardware has no rate, whatever it reports.
func TestLinkSpeedOfNoLink(t *testing.T) {
	c := newCable(t)
	in(t, c.left, leftDevice, func(netlink.Link) error {
		tool, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer tool.Close()
		if reported, err := tool.Speed(leftDevice); err != nil || reported == 0 {
			t.Errorf("veth reports %d Mbit/s, %v: the test tests nothing", reported, err)
		}
		for _, device := range []string{leftDevice, "lo", "nobody"} {
			if rate, nominal := LinkSpeed(device); rate != 0 || nominal {
				t.Errorf("%s: a link of %d bit/s", device, rate)
			}
		}
		return nil
	})
}

// adapter is a device with a driver and a link.
type adapter struct {
	driver   string
	megabits uint32
}

func (a adapter) Driver(string) (string, error) {
	if a.driver == "" {
		return "", unix.EOPNOTSUPP
	}
	return a.driver, nil
}

func (a adapter) Speed(string) (uint32, error) {
	if a.megabits == 0 {
		return 0, unix.EOPNOTSUPP
	}
	return a.megabits, nil
}

// TestNominalRates: rates of a hypervisor's devices are nominal, with or without a link.
func TestNominalRates(t *testing.T) {
	for _, test := range []struct {
		adapter
		rate    uint64
		nominal bool
	}{
		{adapter{"ice", 25000}, 25e9, false},
		{adapter{"ice", ethtool.SpeedUnknown}, 0, false},
		{adapter{"netxen_nic", ethtool.SpeedUnknown16}, 0, false},
		{adapter{"", 1000}, 1e9, false},
		{adapter{"vmxnet3", 10000}, 10e9, true},
		{adapter{"hv_netvsc", 40000}, 40e9, true},
		{adapter{"virtio_net", ethtool.SpeedUnknown}, 0, true},
		{adapter{"vif", 0}, 0, true},
	} {
		if rate, nominal := linkSpeed(test.adapter, "any"); rate != test.rate || nominal != test.nominal {
			t.Errorf("%+v: %d bit/s, nominal: %v", test.adapter, rate, nominal)
		}
	}
}
