// Package xdp runs hosts on AF_XDP sockets. One thread steps them all.
package xdp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/traffic"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
	"sluice/pmd/afxdp"
)

const (
	// Half of a host's buffers are for reception, half for sending. At 81,000 frames/s (1 Gbit/s of
	// full frames), the ring bridges 0.1 s in which the host's thread does not run.
	HostBuffers = 16384
	hostRing    = 8192
)

// BufferSize returns the size in bytes of the buffers of hosts on devices with MTUs up to mtu
// bytes: a page if frames do not fit half of one, so that they have fewer parts.
func BufferSize(mtu int) int {
	const half, page = 2048, 4096
	if mtu > afxdp.BufferMTU(half) {
		return page
	}
	return half
}

// Hosts are generators and sinks on AF_XDP that one thread steps.
type Hosts struct {
	Devices
	Loop
	List   []*traffic.Host
	Active int // how many of List, from the first on, are stepped
}

// New allocates the memory for n hosts on devices with MTUs up to mtu bytes. It adds no hosts.
func New(n, mtu int) (*Hosts, error) {
	d, err := NewDevices(n, BufferSize(mtu))
	if err != nil {
		return nil, err
	}
	return &Hosts{Devices: d, Loop: NewLoop(), Active: 1}, nil
}

// Add opens a device in the calling thread's network namespace and puts a host on it.
func (h *Hosts) Add(device string, p traffic.Params) error {
	p.Memory, p.BufferSize = h.Memory.Bytes(), h.Memory.BufferSize()
	p.First, p.Buffers = len(h.List)*HostBuffers, HostBuffers
	port, err := h.Open(device)
	if err != nil {
		return err
	}
	p.Port, p.Parts = port, port.Parts()
	x, err := traffic.New(p)
	if err != nil {
		return err
	}
	h.List = append(h.List, x)
	return nil
}

// Run steps the hosts in turn until stop, on its own thread on one CPU; at first it steps only the
// first host. A negative CPU is any CPU.
func (h *Hosts) Run(cpu int, stop <-chan struct{}) {
	h.Loop.Run(cpu, stop, func(now int64) (work int) {
		for _, x := range h.List[:h.Active] {
			work += x.Step(now)
		}
		return work
	})
}

// Loop is a thread that steps state that only this thread may touch.
type Loop struct {
	Calls chan func(now int64) // run by the thread
	Done  chan struct{}
	Rest  time.Duration // how long the thread sleeps when there was nothing to do; 0: it never sleeps
}

// NewLoop returns a loop for Run.
func NewLoop() Loop { return Loop{Calls: make(chan func(int64)), Done: make(chan struct{})} }

// Run steps until stop, on its own thread on one CPU. A negative CPU is any CPU. step returns how
// much it has done.
func (l *Loop) Run(cpu int, stop <-chan struct{}, step func(now int64) (work int)) {
	defer close(l.Done)
	thread.Own(func() {
		if cpu >= 0 {
			var set unix.CPUSet
			set.Set(cpu)
			_ = unix.SchedSetaffinity(0, &set) // where the kernel refuses it, the loop is only slower
		}
		for {
			select {
			case <-stop:
				return
			case call := <-l.Calls:
				call(Monotonic())
			default:
			}
			work := 0
			for range 16 {
				work += step(Monotonic())
			}
			if work == 0 && l.Rest > 0 {
				time.Sleep(l.Rest)
			}
		}
	})
}

// Do has the thread, which must be running, call a function, and waits for it.
func (l *Loop) Do(f func(now int64)) {
	done := make(chan struct{})
	l.Calls <- func(now int64) { f(now); close(done) }
	<-done
}

// Monotonic returns the time, in ns, that hosts of all processes of a machine share: frames carry
// their time of sending.
func Monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // can't fail
	}
	return t.Nano()
}

// Stats returns the statistics of all hosts. The hosts must be running.
func (h *Hosts) Stats() (all []traffic.Stats) {
	h.Do(func(now int64) {
		for _, x := range h.List {
			all = append(all, x.Stats(now))
		}
	})
	return all
}

// Start starts stepping n more hosts.
func (h *Hosts) Start(n int) { h.Calls <- func(int64) { h.Active += n } }

// Begin begins the flows of hosts that were added with them Held.
func (h *Hosts) Begin() {
	h.Calls <- func(now int64) {
		for _, x := range h.List {
			x.Begin(now)
		}
	}
}

// StopSending ends all flows; the hosts keep receiving.
func (h *Hosts) StopSending() {
	h.Calls <- func(int64) {
		for _, x := range h.List {
			x.Stop()
		}
	}
}

// Devices are AF_XDP ports that share a memory.
type Devices struct {
	Memory *umem.Memory
	Ports  []*afxdp.Port
}

// NewDevices allocates the memory for n ports, with HostBuffers buffers of size bytes each.
func NewDevices(n, size int) (Devices, error) {
	memory, err := umem.Map(n*HostBuffers, size)
	return Devices{Memory: memory}, err
}

// Open opens a device in the calling thread's network namespace.
func (d *Devices) Open(device string) (*afxdp.Port, error) {
	port, err := afxdp.Open(afxdp.Config{Device: device, Memory: d.Memory.Bytes(), BufferSize: d.Memory.BufferSize(),
		RingSize: hostRing})
	if err == nil {
		d.Ports = append(d.Ports, port)
	}
	return port, err
}

// Lost returns the number of frames that the ports themselves lost, not the switch.
func (d *Devices) Lost() uint64 {
	n := uint64(0)
	for _, p := range d.Ports {
		n += p.Stats().Lost()
	}
	return n
}

// Close closes the ports, which must not be in use.
func (d *Devices) Close() error {
	var err error
	for _, p := range d.Ports {
		if e := p.Close(); e != nil {
			err = fmt.Errorf("close a host's port: %w", e)
		}
	}
	if e := d.Memory.Close(); e != nil && err == nil {
		err = e
	}
	return err
}
