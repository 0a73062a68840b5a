package config

import (
	"fmt"
	"slices"
	"time"
)

// Transmitter says where a part of the kernel may run that sends frames in the place of AF_XDP's sockets.
type Transmitter struct {
	CPU  int           // -1: nowhere
	Beat time.Duration // of a CPU that others need, too; 0: it has the CPU for itself
	Ring int           // frames of each port that may wait for it
}

// TXEngine is who sends a port's frames.
type TXEngine string

// The engines.
const (
	TXAuto     TXEngine = "auto"     // the socket where it needs no copy, else the transmitter if that has a CPU of its own, else the socket
	TXSocket   TXEngine = "xsk"      // the AF_XDP socket
	TXResident TXEngine = "resident" // the transmitter
)

var transmitterKeys = []key[Transmitter]{
	optional("cpu", "none", "the CPU that it spins on, one of its own; none: there is no transmitter",
		orNoneFor(-1, integer(0, 4095)), func(t *Transmitter) *int { return &t.CPU }),
	optional("beat", "none", "for a CPU that others need, too: how often the kernel chooses anew who has it",
		orNone(duration("10us", "1s")), func(t *Transmitter) *time.Duration { return &t.Beat }),
	optional("ring", "2048", "frames of each port that may wait for it, a power of two",
		integer(64, 1<<15), func(t *Transmitter) *int { return &t.Ring }),
}

// UsesTransmitter tells whether a port's frames are to be sent by the transmitter, if the device lets it.
func (c *Config) UsesTransmitter(p *Port) bool {
	t := &c.Transmitter
	return p.TX == TXResident || p.TX == TXAuto && t.CPU >= 0 && t.Beat == 0
}

func checkTransmitter(d *decoder, c *Config) {
	t := &c.Transmitter
	if d.sound(&t.Ring) && t.Ring&(t.Ring-1) != 0 {
		d.fail(&t.Ring, fmt.Sprintf("%d is not a power of two", t.Ring), "choose 1024, 2048, 4096, …")
	}
	if d.sound(&t.CPU) && slices.Contains(c.Workers, t.CPU) {
		d.fail(&t.CPU, fmt.Sprintf("CPU %d has a worker", t.CPU), "give the transmitter another one, or leave it out")
	}
	for i := range c.Ports {
		if p := &c.Ports[i]; d.sound(&p.TX, &t.CPU) && p.TX == TXResident && t.CPU < 0 {
			d.fail(&p.TX, "resident takes a transmitter, and there is none", "write transmitter: {cpu: 1}, or whichever CPU can be spared")
		}
	}
}
