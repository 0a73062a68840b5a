// Package xdp runs hosts on AF_XDP sockets, stepped together by one thread.
package xdp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/bench/host"
	"sluice/internal/thread"
	"sluice/internal/umem"
	"sluice/pmd/afxdp"
)

const (
	// Half of a host's buffers are for reception, half for sending: at 81,000 frames/s, which is 1
	// Gbit/s in full frames, the ring takes what arrives while the host's thread is kept from
	// running for 0.1 s.
	HostBuffers = 16384
	hostRing    = 8192
	HostBuffer  = 2048 // bytes
)

// Hosts are generators and sinks on AF_XDP, stepped together by one thread.
type Hosts struct {
	Devices
	Loop
	List   []*host.Host
	Active int // of list, from the first on, are stepped
}

// New returns the memory for n hosts, and none of them.
func New(n int) (*Hosts, error) {
	d, err := NewDevices(n)
	if err != nil {
		return nil, err
	}
	return &Hosts{Devices: d, Loop: NewLoop(), Active: 1}, nil
}

// Add opens a device, in the calling thread's network namespace, and puts a host on it.
func (h *Hosts) Add(device string, p host.Params) error {
	p.Memory, p.BufferSize, p.First, p.Buffers = h.Memory.Bytes(), HostBuffer, len(h.List)*HostBuffers, HostBuffers
	port, err := h.Open(device)
	if err != nil {
		return err
	}
	p.Port = port
	x, err := host.New(p)
	if err != nil {
		return err
	}
	h.List = append(h.List, x)
	return nil
}

// Run steps the hosts in turn, at first only the first one, until stop, on one CPU and a thread of
// its own. A negative CPU is any.
func (h *Hosts) Run(cpu int, stop <-chan struct{}) {
	h.Loop.Run(cpu, stop, func(now int64) {
		for _, x := range h.List[:h.Active] {
			x.Step(now)
		}
	})
}

// Loop is a thread that steps what it alone may touch.
type Loop struct {
	Calls chan func(now int64) // run by the thread
	Done  chan struct{}
}

// NewLoop returns a loop for Run.
func NewLoop() Loop { return Loop{Calls: make(chan func(int64)), Done: make(chan struct{})} }

// Run steps until stop, on one CPU and a thread of its own. A negative CPU is any.
func (l *Loop) Run(cpu int, stop <-chan struct{}, step func(now int64)) {
	defer close(l.Done)
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
			case call := <-l.Calls:
				call(Monotonic())
			default:
			}
			for range 16 {
				step(Monotonic())
			}
		}
	})
}

// Monotonic is the time that hosts of all processes of a machine share, ns: frames carry the time
// they were sent.
func Monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // no such error exists
	}
	return t.Nano()
}

// Stats returns the statistics of all hosts. The hosts must be running.
func (h *Hosts) Stats() []host.Stats {
	answer := make(chan []host.Stats)
	h.Calls <- func(now int64) {
		var all []host.Stats
		for _, x := range h.List {
			all = append(all, x.Stats(now))
		}
		answer <- all
	}
	return <-answer
}

// Start begins to step n further hosts.
func (h *Hosts) Start(n int) { h.Calls <- func(int64) { h.Active += n } }

// StopSending ends all flows; the hosts go on receiving.
func (h *Hosts) StopSending() {
	h.Calls <- func(int64) {
		for _, x := range h.List {
			x.Stop()
		}
	}
}

// Devices are ports on AF_XDP that share a memory.
type Devices struct {
	Memory *umem.Memory
	Ports  []*afxdp.Port
}

// NewDevices returns the memory for n ports.
func NewDevices(n int) (Devices, error) {
	memory, err := umem.Map(n*HostBuffers, HostBuffer)
	return Devices{Memory: memory}, err
}

// Open opens a device in the calling thread's network namespace.
func (d *Devices) Open(device string) (*afxdp.Port, error) {
	port, err := afxdp.Open(afxdp.Config{Device: device, Memory: d.Memory.Bytes(), BufferSize: HostBuffer,
		RingSize: hostRing})
	if err == nil {
		d.Ports = append(d.Ports, port)
	}
	return port, err
}

// Lost returns what the ports themselves are known to have lost: not the switch's fault.
func (d *Devices) Lost() uint64 {
	n := uint64(0)
	for _, p := range d.Ports {
		n += p.Stats().Lost()
	}
	return n
}

// Close closes the ports, which nobody may be using.
func (d *Devices) Close() error {
	var err error
	for _, p := range d.Ports {
		if e := p.Close(); e != nil {
			err = fmt.Errorf("closing a host's port: %w", e)
		}
	}
	if e := d.Memory.Close(); e != nil && err == nil {
		err = e
	}
	return err
}
