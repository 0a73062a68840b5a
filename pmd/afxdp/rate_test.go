package afxdp

import (
	"testing"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// TestLinkSpeedOfNoLink: what is no hardware has no rate of its own, whatever it reports.
func TestLinkSpeedOfNoLink(t *testing.T) {
	c := newCable(t)
	in(t, c.left, leftDevice, func(netlink.Link) error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		if reported, err := tool.CmdGet(new(ethtool.EthtoolCmd), leftDevice); err != nil || reported == 0 {
			t.Errorf("veth reports %d Mbit/s, %v: the test tests nothing", reported, err)
		}
		for _, device := range []string{leftDevice, "lo", "nobody"} {
			if rate := LinkSpeed(device); rate != 0 {
				t.Errorf("%s: a link of %d bit/s", device, rate)
			}
		}
		return nil
	})
}
