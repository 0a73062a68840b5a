package xdprun

import (
	"fmt"
	"strings"

	"sluice/internal/linux/ethtool"
)

// Meter reads a device's counters of frames that programs send through it (ndo_xdp_xmit). It looks
// for veth's names: tx_queue_0_xdp_xmit, tx_queue_0_xdp_xmit_errors and so on (drivers/net/veth.c).
type Meter struct {
	tool   *ethtool.Socket // in the device's namespace
	device string
	before Sent
}

// Sent holds a device's counters.
type Sent struct {
	Taken   uint64 // frames
	Refused uint64 // frames dropped because its peer had no room
}

// NewMeter returns a Meter that starts at 0, for a device in the calling thread's network
// namespace.
func NewMeter(device string) (*Meter, error) {
	tool, err := ethtool.Open()
	if err != nil {
		return nil, fmt.Errorf("xdprun: read the statistics of %s: %w", device, err)
	}
	m := &Meter{tool: tool, device: device}
	m.before, _ = m.read()
	return m, nil
}

// Read returns the counts since NewMeter. It returns false if the device has no such counters or is
// gone.
func (m *Meter) Read() (s Sent, known bool) {
	s, known = m.read()
	s.Taken -= min(m.before.Taken, s.Taken)
	s.Refused -= min(m.before.Refused, s.Refused)
	return s, known
}

func (m *Meter) read() (s Sent, known bool) {
	stats, _ := m.tool.Statistics(m.device)
	for name, n := range stats {
		switch {
		case !strings.HasPrefix(name, "tx_queue_"):
		case strings.HasSuffix(name, "_xdp_xmit"):
			s.Taken, known = s.Taken+n, true
		case strings.HasSuffix(name, "_xdp_xmit_errors"):
			s.Refused, known = s.Refused+n, true
		}
	}
	return s, known
}

// Close closes the Meter. Closing a nil Meter does nothing.
func (m *Meter) Close() {
	if m != nil {
		m.tool.Close()
	}
}
