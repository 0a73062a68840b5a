package config

import (
	"fmt"
	"slices"
)

// Transmitter says where a part of the kernel may run that sends frames in the place of AF_XDP's
// sockets.
type Transmitter struct {
	CPU  int // or one of the following
	Ring int // frames of each port that may wait for it
}

// What a transmitter has in the place of a CPU of its own.
const (
	NoTransmitter = -1 // there is none
	WithWorker    = -2 // it takes turns with the first worker on the CPU of that
)

// TXEngine is who sends a port's frames.
type TXEngine string

// The engines.
const (
	// the socket where it needs no copy, else the transmitter if that has a CPU of its own, else
	// the socket
	TXAuto        TXEngine = "auto"
	TXSocket      TXEngine = "xsk"      // the AF_XDP socket
	TXTransmitter TXEngine = "resident" // the transmitter
)

var transmitterKeys = []key[Transmitter]{
	optional("cpu", "none", "the CPU on which the transmitter spins; on the CPU of a worker it takes turns "+
		"with that worker, and sends for the ports of that worker only; "+
		"worker: the CPU of the first worker; none: no transmitter",
		orWord("worker", WithWorker, orWord("none", NoTransmitter, integer(0, 4095))),
		func(t *Transmitter) *int { return &t.CPU }),
	optional("ring", "2048", "the number of frames of each port that may wait for the transmitter, a power of two",
		integer(64, 1<<15), func(t *Transmitter) *int { return &t.Ring }),
}

// HasTransmitter tells whether there is to be one.
func (c *Config) HasTransmitter() bool { return c.Transmitter.CPU != NoTransmitter }

// On returns the transmitter's CPU, if workers have these.
func (t *Transmitter) On(workers []int) int {
	if t.CPU == WithWorker && len(workers) > 0 {
		return workers[0]
	}
	return t.CPU
}

// SharesCPU tells whether the transmitter is to have its CPU in turns with a worker, if workers
// have these.
func (c *Config) SharesCPU(workers []int) bool {
	return c.Transmitter.CPU == WithWorker || slices.Contains(workers, c.Transmitter.CPU)
}

// ServesOthers tells whether it takes turns with another worker than this one. Only while that one
// sleeps does it run, and it is to wake it when all has been sent: by frames of others it would not
// be known when that is.
func (c *Config) ServesOthers(worker int, workers []int) bool {
	return c.SharesCPU(workers) && worker < len(workers) && workers[worker] != c.Transmitter.On(workers)
}

// UsesTransmitter tells whether a port's frames are to be sent by the transmitter, which shares its
// CPU with a worker or does not, if the device lets it.
func (c *Config) UsesTransmitter(p *Port, shared bool) bool {
	return p.TX == TXTransmitter || p.TX == TXAuto && c.HasTransmitter() && !shared
}

// cpu returns the CPU as one would write it.
func (t *Transmitter) cpu() any {
	switch t.CPU {
	case NoTransmitter:
		return "none"
	case WithWorker:
		return "worker"
	}
	return t.CPU
}

func checkTransmitter(d *decoder, c *Config) {
	t := &c.Transmitter
	if d.sound(&t.Ring) && t.Ring&(t.Ring-1) != 0 {
		d.fail(&t.Ring, fmt.Sprintf("%d is not a power of two", t.Ring), "choose 1024, 2048, 4096, …")
	}
	for i := range c.Ports {
		if p := &c.Ports[i]; d.sound(&p.TX, &t.CPU) && p.TX == TXTransmitter && !c.HasTransmitter() {
			d.fail(&p.TX, "resident takes a transmitter, and there is none",
				"write transmitter: {cpu: worker}, or a CPU that can be spared")
		}
	}
}
