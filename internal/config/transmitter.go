package config

import (
	"fmt"
	"slices"
)

// Transmitter configures the transmitter, a part of the kernel that sends frames instead of AF_XDP
// sockets.
type Transmitter struct {
	CPU  int // or one of the constants below
	Ring int // maximum number of frames of each port that wait for it
}

// Values of Transmitter.CPU other than a CPU.
const (
	NoTransmitter = -1 // no transmitter
	WithWorker    = -2 // takes turns with the first worker on that worker's CPU
)

// TXEngine is what sends a port's frames.
type TXEngine string

// The engines.
const (
	// the socket if it needs no copy, otherwise the transmitter if that has a CPU of its own,
	// otherwise the socket
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

// HasTransmitter reports whether the configuration has a transmitter.
func (c *Config) HasTransmitter() bool { return c.Transmitter.CPU != NoTransmitter }

// On returns the transmitter's CPU if the workers have the given CPUs.
func (t *Transmitter) On(workers []int) int {
	if t.CPU == WithWorker && len(workers) > 0 {
		return workers[0]
	}
	return t.CPU
}

// SharesCPU reports whether the transmitter takes turns with a worker on its CPU if the workers
// have the given CPUs.
func (c *Config) SharesCPU(workers []int) bool {
	return c.Transmitter.CPU == WithWorker || slices.Contains(workers, c.Transmitter.CPU)
}

// ServesOthers reports whether the transmitter takes turns with another worker than the given one.
// It runs only while that worker sleeps, and wakes it when everything is sent. With frames of other
// workers it could not tell when that is.
func (c *Config) ServesOthers(worker int, workers []int) bool {
	return c.SharesCPU(workers) && worker < len(workers) && workers[worker] != c.Transmitter.On(workers)
}

// UsesTransmitter reports whether the transmitter should send a port's frames, if the device allows
// it. shared says whether the transmitter shares its CPU with a worker.
func (c *Config) UsesTransmitter(p *Port, shared bool) bool {
	return p.TX == TXTransmitter || p.TX == TXAuto && c.HasTransmitter() && !shared
}

func checkTransmitter(d *decoder, c *Config) {
	t := &c.Transmitter
	if d.sound(&t.Ring) && t.Ring&(t.Ring-1) != 0 {
		d.fail(&t.Ring, fmt.Sprintf("%d is not a power of two", t.Ring), "choose 1024, 2048, 4096, …")
	}
	for i := range c.Ports {
		if p := &c.Ports[i]; d.sound(&p.TX, &t.CPU) && p.TX == TXTransmitter && !c.HasTransmitter() {
			d.fail(&p.TX, "tx is resident, but there is no transmitter",
				"write transmitter: {cpu: worker}, or the number of a CPU to spare")
		}
	}
}
