package control

import (
	"errors"
	"fmt"

	"sluice/cells"
	"sluice/pmd/afxdp"
)

// mostTransmitted is how many ports a transmitter has room for, so that a reload can add some.
const mostTransmitted = 64

// mapMemory maps the memory for frames: the transmitter's, if there is to be one and it can be had.
func (s *Switch) mapMemory() (err error) {
	m, t := &s.config.Memory, &s.config.Transmitter
	if t.CPU >= 0 {
		s.transmitter, s.noTransmitter = afxdp.StartResident(afxdp.ResidentParams{
			CPU: t.CPU, Beat: t.Beat, Memory: m.Buffers * m.BufferSize, Ports: mostTransmitted, Ring: t.Ring,
		})
		if s.noTransmitter == nil {
			s.memory, err = cells.Over(s.transmitter.Memory(), m.BufferSize, "pages of the transmitter's map")
			return err
		}
		s.log.Error("no transmitter: the sockets send", "because", s.noTransmitter)
	}
	s.memory, err = cells.Map(m.Buffers, m.BufferSize)
	return err
}

func (s *Switch) unmapMemory() error {
	err := s.memory.Close()
	if s.transmitter != nil {
		err = errors.Join(err, s.transmitter.Stop())
	}
	return err
}

// Transmitter returns the switch's transmitter, or nil if there is none.
func (s *Switch) Transmitter() *afxdp.Resident { return s.transmitter }

// residentFor returns the transmitter, if a port is to use it.
func (s *Switch) residentFor(p *port) *afxdp.Resident {
	if !s.config.UsesTransmitter(p.Port) {
		return nil
	}
	return s.transmitter
}

// checkTransmitted gives the ports back to their sockets that the transmitter can't go on to serve.
func (s *Switch) checkTransmitted() error {
	for _, p := range s.ports {
		if p.driver == nil {
			continue
		}
		if why := p.driver.Check(); why != nil {
			if err := p.driver.Retreat(why); err != nil {
				return fmt.Errorf("control: port %s: %w", p.Device, err)
			}
			s.log.Warn("the transmitter leaves the port to its socket", "port", p.Device, "because", why)
		}
	}
	return nil
}
