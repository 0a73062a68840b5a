package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/bench/host"
	"sluice/cells"
	"sluice/internal/thread"
	"sluice/pmd/afxdp"
)

const (
	// Half of a host's buffers are for reception, half for sending: at 81,000 frames/s, which is 1 Gbit/s in full
	// frames, the ring takes what arrives while the host's thread is kept from running for 0.1 s.
	hostBuffers = 16384
	hostRing    = 8192
	hostBuffer  = 2048 // bytes
)

// hosts are generators and sinks on AF_XDP, stepped together by one thread.
type hosts struct {
	devices
	loop
	list   []*host.Host
	active int // of list, from the first on, are stepped
}

func newHosts(n int) (*hosts, error) {
	d, err := newDevices(n)
	if err != nil {
		return nil, err
	}
	return &hosts{devices: d, loop: newLoop(), active: 1}, nil
}

// add opens a device, in the calling thread's network namespace, and puts a host on it.
func (h *hosts) add(device string, p host.Params) error {
	p.Memory, p.BufferSize, p.First, p.Buffers = h.memory.Bytes(), hostBuffer, len(h.list)*hostBuffers, hostBuffers
	port, err := h.open(device)
	if err != nil {
		return err
	}
	p.Port = port
	x, err := host.New(p)
	if err != nil {
		return err
	}
	h.list = append(h.list, x)
	return nil
}

// run steps the hosts in turn, at first only the first one, until stop, on one CPU and a thread of its own. A negative
// CPU is any.
func (h *hosts) run(cpu int, stop <-chan struct{}) {
	h.loop.run(cpu, stop, func(now int64) {
		for _, x := range h.list[:h.active] {
			x.Step(now)
		}
	})
}

// loop is a thread that steps what it alone may touch.
type loop struct {
	calls chan func(now int64) // run by the thread
	done  chan struct{}
}

func newLoop() loop { return loop{calls: make(chan func(int64)), done: make(chan struct{})} }

// run steps until stop, on one CPU and a thread of its own. A negative CPU is any.
func (l *loop) run(cpu int, stop <-chan struct{}, step func(now int64)) {
	defer close(l.done)
	thread.Own(func() {
		if cpu >= 0 {
			var set unix.CPUSet
			set.Set(cpu)
			_ = unix.SchedSetaffinity(0, &set) // slower, but no less right, where it is refused
		}
		for {
			select {
			case <-stop:
				return
			case call := <-l.calls:
				call(monotonic())
			default:
			}
			for range 16 {
				step(monotonic())
			}
		}
	})
}

// monotonic is the time that hosts of all processes of a machine share, ns: frames carry the time they were sent.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // no such error exists
	}
	return t.Nano()
}

// stats returns the statistics of all hosts. The hosts must be running.
func (h *hosts) stats() []host.Stats {
	answer := make(chan []host.Stats)
	h.calls <- func(now int64) {
		var all []host.Stats
		for _, x := range h.list {
			all = append(all, x.Stats(now))
		}
		answer <- all
	}
	return <-answer
}

// start begins to step n further hosts.
func (h *hosts) start(n int) { h.calls <- func(int64) { h.active += n } }

// stopSending ends all flows; the hosts go on receiving.
func (h *hosts) stopSending() {
	h.calls <- func(int64) {
		for _, x := range h.list {
			x.Stop()
		}
	}
}

// devices are ports on AF_XDP that share a memory.
type devices struct {
	memory *cells.Memory
	ports  []*afxdp.Port
}

// newDevices returns the memory for n ports.
func newDevices(n int) (devices, error) {
	memory, err := cells.Map(n*hostBuffers, hostBuffer)
	return devices{memory: memory}, err
}

// open opens a device in the calling thread's network namespace.
func (d *devices) open(device string) (*afxdp.Port, error) {
	port, err := afxdp.Open(afxdp.Config{Device: device, Memory: d.memory.Bytes(), BufferSize: hostBuffer, RingSize: hostRing})
	if err == nil {
		d.ports = append(d.ports, port)
	}
	return port, err
}

// lost returns what the ports themselves are known to have lost: not the switch's fault.
func (d *devices) lost() uint64 {
	n := uint64(0)
	for _, p := range d.ports {
		n += p.Stats().Lost()
	}
	return n
}

// close closes the ports, which nobody may be using.
func (d *devices) close() error {
	var err error
	for _, p := range d.ports {
		if e := p.Close(); e != nil {
			err = fmt.Errorf("closing a host's port: %w", e)
		}
	}
	if e := d.memory.Close(); e != nil && err == nil {
		err = e
	}
	return err
}
