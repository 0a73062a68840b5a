package live

import (
	"fmt"
	"strings"

	"github.com/safchain/ethtool"
)

// meter reads what a port's device counts of frames that programs send through it.
type meter struct {
	tool   *ethtool.Ethtool // in the device's namespace
	device string
	before uint64 // refused before the generator began
}

func newMeter(p PortParams) (m *meter, err error) {
	m = &meter{device: p.Device}
	err = within(p.Namespace, func() error {
		m.tool, err = ethtool.NewEthtool()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("port %s: statistics: %w", p.Device, err)
	}
	m.before, _ = m.read()
	return m, nil
}

// read returns how many frames the device has refused so far. It reports false if the device does not count them, or is
// gone. Veth's names are those for which to look: tx_queue_0_xdp_xmit_errors and so on (drivers/net/veth.c).
func (m *meter) read() (refused uint64, known bool) {
	stats, _ := m.tool.Stats(m.device)
	for name, n := range stats {
		if strings.HasPrefix(name, "tx_queue_") && strings.HasSuffix(name, "_xdp_xmit_errors") {
			refused, known = refused+n, true
		}
	}
	return refused, known
}

func (m *meter) close() { m.tool.Close() }
