package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/vm/protocol"
)

// agent has the methods that the host calls. Calls run concurrently.
type agent struct {
	lock      sync.Mutex
	processes []*process // by number
}

func newAgent() *agent { return &agent{} }

// process is a program that was started. Its output is kept until the guest ends.
type process struct {
	*exec.Cmd
	lock           sync.Mutex
	changed        *sync.Cond // there is more output, or it has ended
	stdout, stderr bytes.Buffer
	ended          bool
	status         int
}

// stream is the standard output or error of a process.
type stream struct {
	of *process
	to *bytes.Buffer
}

// Write keeps what the process writes.
func (s stream) Write(b []byte) (int, error) {
	s.of.lock.Lock()
	defer s.of.lock.Unlock()
	s.of.changed.Broadcast()
	return s.to.Write(b)
}

// Hello tells about the guest.
func (a *agent) Hello(_ protocol.Nothing, hello *protocol.Hello) error {
	var name unix.Utsname
	var since unix.Timespec
	err := errors.Join(unix.Uname(&name), unix.ClockGettime(unix.CLOCK_BOOTTIME, &since))
	hello.Kernel, hello.Uptime = unix.ByteSliceToString(name.Release[:]), time.Duration(since.Nano())
	return err
}

// Start starts a program and returns its number.
func (a *agent) Start(c protocol.Command, number *int) error {
	if len(c.Args) == 0 {
		return errors.New("no program")
	}
	p := &process{Cmd: exec.Command(c.Args[0], c.Args[1:]...)}
	p.changed = sync.NewCond(&p.lock)
	p.Stdout, p.Stderr = stream{p, &p.stdout}, stream{p, &p.stderr}
	// what the program has left in the background must not keep it from having ended
	p.WaitDelay = time.Second
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	go p.wait()
	a.lock.Lock()
	defer a.lock.Unlock()
	*number = len(a.processes)
	a.processes = append(a.processes, p)
	return nil
}

func (p *process) wait() {
	_ = p.Wait() // ProcessState has the result
	p.lock.Lock()
	defer p.lock.Unlock()
	p.ended, p.status = true, p.ProcessState.ExitCode()
	if w, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		p.status = 128 + int(w.Signal())
	}
	p.changed.Broadcast()
}

// find returns a process by its number.
func (a *agent) find(number int) (*process, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if number < 0 || number >= len(a.processes) {
		return nil, fmt.Errorf("no process %d", number)
	}
	return a.processes[number], nil
}

// Follow returns what a process has written since a position. It waits until there is something, or
// the process has ended.
func (a *agent) Follow(at protocol.Position, out *protocol.Output) error {
	p, err := a.find(at.Process)
	if err != nil {
		return err
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	late := false
	defer time.AfterFunc(at.Patience, func() {
		p.lock.Lock()
		defer p.lock.Unlock()
		late = true
		p.changed.Broadcast()
	}).Stop()
	for !late && !p.ended && p.stdout.Len() <= at.Stdout && p.stderr.Len() <= at.Stderr {
		p.changed.Wait()
	}
	out.Stdout, out.Stderr = from(&p.stdout, at.Stdout), from(&p.stderr, at.Stderr)
	out.Ended, out.Status = p.ended, p.status
	return nil
}

// from returns a copy of what a buffer has behind its first n bytes.
func from(b *bytes.Buffer, n int) []byte { return bytes.Clone(b.Bytes()[min(n, b.Len()):]) }

// Signal sends a signal to a process.
func (a *agent) Signal(s protocol.Signal, _ *protocol.Nothing) error {
	p, err := a.find(s.Process)
	if err != nil {
		return err
	}
	return p.Process.Signal(syscall.Signal(s.Number))
}

// Read reads a file.
func (a *agent) Read(path string, data *[]byte) (err error) {
	*data, err = os.ReadFile(path)
	return err
}

// Write writes a file.
func (a *agent) Write(f protocol.File, _ *protocol.Nothing) error {
	return os.WriteFile(f.Path, f.Data, f.Mode)
}

// Link describes a network device.
func (a *agent) Link(name string, link *protocol.Link) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	at := l.Attrs()
	*link = protocol.Link{Name: name, Flags: at.RawFlags, Promisc: at.Promisc, MTU: at.MTU,
		Carrier: at.RawFlags&unix.IFF_LOWER_UP != 0}
	if at.Xdp != nil && at.Xdp.Attached {
		link.XDP = max(at.Xdp.ProgId, 1)
	}
	return nil
}
