package control

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sluice/internal/config"
	"sluice/internal/dataplane/turns"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
	"sluice/pmd/transmitter"
)

// mostTransmitted is how many ports a transmitter has room for, so that a reload can add some.
const mostTransmitted = 64

// mapMemory maps the memory for frames: the transmitter's, if one is configured and can start.
func (s *Switch) mapMemory() (err error) {
	m, t := &s.config.Memory, &s.config.Transmitter
	if s.config.HasTransmitter() {
		s.transmitter, s.noTransmitter = transmitter.Start(transmitter.Params{
			CPU: t.On(s.cpus), Shared: s.config.SharesCPU(s.cpus), Memory: m.Buffers * m.BufferSize,
			Ports: mostTransmitted, Ring: t.Ring,
		})
		if s.noTransmitter == nil {
			s.warnOfTransmitter()
			s.memory, err = umem.Over(s.transmitter.Memory(), m.BufferSize, "pages of the transmitter's map")
			return err
		}
		s.log.Error("no transmitter: all ports send through their sockets", "because", s.noTransmitter)
	}
	s.memory, err = umem.Map(m.Buffers, m.BufferSize)
	return err
}

// warnOfTransmitter logs the known problems of a transmitter on this machine.
func (s *Switch) warnOfTransmitter() {
	if s.transmitter.Pauses() {
		s.log.Warn("every few minutes, the transmitter will send nothing for 20 ms, not even PFC frames",
			"because", "the switch lacks cap_sys_admin, which it needs to make a network namespace: run it as root, "+
				"or grant "+
				"that capability")
	}
	read := func(file string) (string, error) {
		text, err := os.ReadFile(file)
		return strings.TrimSpace(string(text)), err
	}
	if starves, _ := thread.Starves(read); starves {
		s.log.Warn("other threads on the CPUs of transmitter and workers, even of the kernel, may not run for seconds",
			"because", "this kernel has a bug in the scheduling of groups of threads, which is fixed in 6.18.45: "+
				"see sluice doctor")
	}
}

// partnerOn returns the transmitter if it shares a worker's CPU, otherwise nil.
func (s *Switch) partnerOn(cpu int) turns.Partner {
	if s.transmitter == nil || s.transmitter.CPU() != cpu {
		return nil
	}
	return s.transmitter
}

func (s *Switch) unmapMemory() error {
	err := s.memory.Close()
	if s.transmitter != nil {
		err = errors.Join(err, s.transmitter.Stop())
	}
	return err
}

// usesTransmitter reports whether a port should use the transmitter.
func (s *Switch) usesTransmitter(p *port) bool {
	return s.config.UsesTransmitter(p.Port, s.config.SharesCPU(s.cpus))
}

// transmitterFor returns the transmitter if a port should use it and it serves the port's worker.
func (s *Switch) transmitterFor(p *port) *transmitter.Transmitter {
	if !s.usesTransmitter(p) || s.servesOthers(p) {
		return nil
	}
	return s.transmitter
}

// servesOthers reports whether the transmitter takes turns with another worker than the port's.
func (s *Switch) servesOthers(p *port) bool {
	return s.transmitter != nil && s.config.ServesOthers(p.Worker, s.cpus)
}

// missedBy returns why a port that should use the transmitter does not; nil if its socket sends
// without a copy anyway.
func (s *Switch) missedBy(p *port) error {
	switch {
	case !s.usesTransmitter(p) || p.driver.Mode() == string(config.ZeroCopy):
		return nil
	case s.servesOthers(p):
		return fmt.Errorf(
			"the transmitter takes turns with the worker on CPU %d, and sends only for the ports of that worker",
			s.transmitter.CPU())
	}
	return s.noTransmitter
}

// reconsiderTX has each port choose its TX engine again: the transmitter or its socket.
func (s *Switch) reconsiderTX() {
	for _, p := range s.ports {
		if p.driver == nil {
			continue
		}
		was, _ := p.driver.TX()
		if err := p.driver.Reconsider(); err != nil {
			s.log.Error("can't determine the TX engine", "port", p.Device, "because", err)
			continue
		}
		switch tx, why := p.driver.TX(); {
		case tx == was:
		case why != nil:
			s.log.Warn("port switched to its socket", "port", p.Device, "because", why)
		default:
			s.log.Info("port switched back to the transmitter", "port", p.Device)
		}
	}
}
