package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"sluice/cells"
	"sluice/internal/gen"
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
	memory *cells.Memory
	list   []*gen.Host
	active int // of list, from the first on, are stepped
	ports  []*afxdp.Port
	calls  chan func(now int64) // run by the thread that steps the hosts, which alone may touch them
	done   chan struct{}
}

func newHosts(n int) (*hosts, error) {
	memory, err := cells.Map(n*hostBuffers, hostBuffer)
	if err != nil {
		return nil, err
	}
	return &hosts{memory: memory, active: 1, calls: make(chan func(int64)), done: make(chan struct{})}, nil
}

// add opens a device, in the calling thread's network namespace, and puts a host on it.
func (h *hosts) add(device string, p gen.Params) error {
	p.Memory, p.BufferSize, p.First, p.Buffers = h.memory.Bytes(), hostBuffer, len(h.list)*hostBuffers, hostBuffers
	port, err := afxdp.Open(afxdp.Config{Device: device, Memory: p.Memory, BufferSize: hostBuffer, RingSize: hostRing})
	if err != nil {
		return err
	}
	h.ports = append(h.ports, port)
	p.Port = port
	host, err := gen.New(p)
	if err != nil {
		return err
	}
	h.list = append(h.list, host)
	return nil
}

// run steps the hosts in turn, at first only the first one, until stop, on one CPU and a thread of its own. A negative
// CPU is any.
func (h *hosts) run(cpu int, stop <-chan struct{}) {
	runtime.LockOSThread() // and never unlocked: the thread, bound to its CPU, ends with the goroutine
	defer close(h.done)
	if cpu >= 0 {
		var set unix.CPUSet
		set.Set(cpu)
		_ = unix.SchedSetaffinity(0, &set) // slower, but no less right, where it is refused
	}
	for {
		select {
		case <-stop:
			return
		case call := <-h.calls:
			call(monotonic())
		default:
		}
		for range 16 {
			now := monotonic()
			for _, host := range h.list[:h.active] {
				host.Step(now)
			}
		}
	}
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
func (h *hosts) stats() []gen.Stats {
	answer := make(chan []gen.Stats)
	h.calls <- func(now int64) {
		var all []gen.Stats
		for _, host := range h.list {
			all = append(all, host.Stats(now))
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
		for _, host := range h.list {
			host.Stop()
		}
	}
}

// lost returns what the hosts' own ports are known to have lost: not the switch's fault.
func (h *hosts) lost() uint64 {
	n := uint64(0)
	for _, p := range h.ports {
		n += p.Stats().Lost()
	}
	return n
}

// close closes the ports. The hosts must not be running.
func (h *hosts) close() error {
	var err error
	for _, p := range h.ports {
		if e := p.Close(); e != nil {
			err = fmt.Errorf("closing a host's port: %w", e)
		}
	}
	if e := h.memory.Close(); e != nil && err == nil {
		err = e
	}
	return err
}
