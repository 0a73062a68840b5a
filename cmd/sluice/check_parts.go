package main

import (
	"fmt"

	"sluice/internal/config"
	"sluice/pmd/afxdp"
	"sluice/pmd/transmitter"
)

// partsNotes says what a port can't do because of the length of its frames, as far as that does not
// depend on the machine.
func partsNotes(c *config.Config) (notes []string) {
	note := func(p *config.Port, format string, arguments ...any) {
		notes = append(notes, fmt.Sprintf("port %s: ", p.Device)+fmt.Sprintf(format, arguments...))
	}
	const page = 4096
	for i := range c.Ports {
		p := &c.Ports[i]
		most := min(transmitter.LongestFrame, c.Memory.Whole())
		if p.TX == config.TXTransmitter && p.MaxFrame() > most {
			note(p, "tx is resident, but its socket will send, since with mtu %d frames have up to %d bytes, and the "+
				"transmitter sends at most %d: lower mtu to %d, or set tx: xsk", p.MTU, p.MaxFrame(), most,
				most-p.Overhead())
		}
		switch {
		case p.Mode != config.ZeroCopy || p.Parts == 1:
		case c.Memory.BufferSize < page:
			note(p, "mode is zero-copy, but with buffers of %d bytes and mtu %d it won't open, as a frame occupies %d "+
				"of them: set memory.buffer_size to %dB, lower mtu to %d, or choose mode: auto",
				c.Memory.BufferSize, p.MTU, p.Parts, page, afxdp.KernelMTU(c.Memory.BufferSize)-p.DeviceMTU()+p.MTU)
		default:
			note(p, "mode is zero-copy, and a frame of its mtu occupies %d buffers: its driver must be able to have "+
				"it in as many, as i40e and ice are, and all others that are known are not; sluice doctor says what "+
				"the device can do", p.Parts)
		}
	}
	return notes
}
