package control

import (
	"fmt"

	"sluice/internal/config"
	"sluice/pmd/afxdp"
)

// Frames that are longer than a buffer holds occupy several (config.Port.Parts). Whether a driver
// receives and sends such frames is decided when it opens its device. A port can't be opened again
// without loss, since its peer has no pause meanwhile. So in copy mode a port is opened for them as
// soon as memory.cell allows that a reload brings them.

// checkSplit refuses a port if its device, with this MTU in bytes and in zero-copy mode, splits
// frames into more buffers than they cost cells: the accounts would promise memory that there is
// not. A device whose MTU needs several buffers for a frame also splits frames that would just fit
// one.
func checkSplit(c *config.Config, p *config.Port, mtu int) error {
	most, part := afxdp.BufferMTU(c.Memory.BufferSize), c.Memory.Part()
	if mtu <= most || p.MaxFrame() <= part || c.Memory.Cell <= part {
		return nil
	}
	advice := fmt.Sprintf("set memory.cell to %dB, or lower mtu to %d", part, part-p.Overhead())
	if enough := afxdp.KernelMTU(c.Memory.BufferSize); p.DeviceMTU() <= enough {
		advice = fmt.Sprintf("run `ip link set dev %s mtu %d`, ", p.Device, enough) + advice
	}
	return c.Problem(&p.MTU, fmt.Sprintf("mtu %d does not fit memory.cell, %dB, in zero-copy mode: device %s has an "+
		"MTU of %d, and with more than %d it splits frames of more than %d bytes", p.MTU, c.Memory.Cell, p.Device, mtu,
		most, part), advice)
}

// modeFor returns the mode in which to open a port whose device has this MTU.
func (s *Switch) modeFor(p *port, mtu int) (afxdp.Mode, error) {
	switch err := checkSplit(s.config, p.Port, mtu); {
	case err == nil || p.Mode == config.Copy:
		return drivingModes[p.Mode], nil
	case p.Mode == config.ZeroCopy:
		return 0, err
	default:
		s.log.Info("port does without zero-copy mode", "port", p.Device, "because", err)
		return afxdp.Copy, nil
	}
}

// checkOpen refuses a configuration with frames that an open port can't have in the way in which it
// was opened.
func (s *Switch) checkOpen(next *config.Config) error {
	for i := range next.Ports {
		c := &next.Ports[i]
		p := s.port(c.Device)
		if p == nil || p.driver == nil {
			continue
		}
		if p.driver.Mode() == string(config.ZeroCopy) {
			if err := checkSplit(next, c, p.checkedMTU); err != nil {
				return err
			}
		}
		if longest := p.driver.Longest(); c.MaxFrame() > longest {
			return tooLong(next, c, longest)
		}
	}
	return nil
}

// tooLong is the error of a port that is open for frames of up to longest bytes.
func tooLong(c *config.Config, p *config.Port, longest int) error {
	return c.Problem(&p.MTU, fmt.Sprintf("port %s was opened for frames of up to %d bytes, so mtu can't become %d "+
		"while it is open", p.Device, longest, p.MTU),
		fmt.Sprintf("lower mtu to %d, or take the port out of service meanwhile: `sluice port shut %s`, reload, "+
			"`sluice port open %s`", longest-p.Overhead(), p.Device, p.Device))
}
