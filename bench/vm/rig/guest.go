// Package rig boots virtual machines in which the switch meets drivers and stacks that no
// namespace has. QEMU emulates the machine, so no KVM and no hardware is needed, and speeds mean
// nothing. The guest has a kernel of Debian, a few programs and an agent (bench/vm/agent); each
// of its NICs ends at a tap device in a namespace on the host, where a Peer plays the host behind
// it, or at an Adapter, which makes the guest a host that honours PFC. All logic is on this side:
//
//	g, err := rig.Boot(ctx, rig.Machine{Driver: rig.IGB, NICs: 2}, log.Printf)
//	defer g.Close()
//	out, err := g.Run("sluice", "doctor")
//
// Kernel, QEMU and programs are Debian's packages. They are fetched once, in the versions of
// pins.txt, into a cache; nothing is installed.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/vm/protocol"
)

// Limits for a guest that hangs. Tests change them.
var (
	answerTime = 2 * time.Minute // of each answer of agent and QEMU; the agent's first includes the boot
	runTime    = 5 * time.Minute // of Run
)

// Guest is a running virtual machine. Its methods may be called concurrently.
type Guest struct {
	protocol.Hello
	Hosts []*netns.Namespace // by NIC; each has the TapDevice of the NIC (none with Adapters)

	lab         *netns.Lab
	cables      []net.Conn // by NIC, for adapters; each frame is a datagram
	qemu        *exec.Cmd
	ended       chan struct{} // closed when QEMU has ended; nil: it was not started
	connections []net.Conn    // to QEMU, for monitor and agent
	console     console
	monitor     *monitor
	agent       *rpc.Client
}

// console keeps what a guest prints.
type console struct {
	lock sync.Mutex
	text bytes.Buffer
}

// Write keeps what QEMU and the guest print.
func (c *console) Write(b []byte) (int, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.text.Write(b)
}

func (c *console) String() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return strings.ReplaceAll(c.text.String(), "\r", "")
}

// Boot starts a machine and returns when its agent answers. The guest ends with the context, with
// Close or with this process, whichever is first.
func Boot(ctx context.Context, m Machine, logf func(format string, args ...any)) (*Guest, error) {
	if err := m.complete(); err != nil {
		return nil, err
	}
	tree, err := Fetch(ctx, logf)
	if err != nil {
		return nil, err
	}
	content, err := newImage(ctx, tree, &m)
	if err != nil {
		return nil, err
	}
	g := &Guest{}
	if g.lab, err = netns.New("rig"); err != nil {
		return nil, err
	}
	if err := g.start(ctx, tree, &m, content); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// start starts QEMU and waits for the agent.
func (g *Guest) start(ctx context.Context, t Tree, m *Machine, content []byte) error {
	initrd, err := unnamed(content)
	if err != nil {
		return err
	}
	var nics [][]*os.File
	for n := 0; n < m.NICs && err == nil; n++ {
		var queues []*os.File
		queues, err = g.addNIC(m, n)
		nics = append(nics, queues)
	}
	monitor, theirMonitor, errMonitor := socketPair(unix.SOCK_STREAM)
	agent, theirAgent, errAgent := socketPair(unix.SOCK_STREAM)
	g.connections = []net.Conn{monitor, agent}
	var files descriptors
	g.qemu, files = m.command(ctx, t, theirMonitor, theirAgent, initrd, nics)
	defer files.close()
	if err = errors.Join(err, errMonitor, errAgent); err != nil {
		return err
	}
	g.qemu.Stdout, g.qemu.Stderr = &g.console, &g.console
	if err := g.launch(); err != nil {
		return err
	}
	files.close() // only QEMU has them now, so that connections end with it
	if g.monitor, err = newMonitor(monitor); err == nil {
		g.agent = rpc.NewClient(agent)
		err = g.call("Hello", protocol.Nothing{}, &g.Hello)
	}
	if err != nil {
		return fmt.Errorf("%w; the guest's console:\n%s", err, g.Console())
	}
	return nil
}

// addNIC creates what is behind a NIC, and returns what QEMU needs of it.
func (g *Guest) addNIC(m *Machine, n int) (queues []*os.File, err error) {
	if m.Adapters {
		cable, theirs, err := socketPair(unix.SOCK_DGRAM)
		g.cables = append(g.cables, cable)
		return []*os.File{theirs}, err
	}
	host, err := g.lab.Namespace(fmt.Sprintf("nic%d", n))
	if err != nil {
		return nil, err
	}
	g.Hosts = append(g.Hosts, host)
	return tap(host, m.Queues)
}

// launch starts QEMU on a thread that exists for as long as QEMU does, because the kernel kills
// QEMU with the thread that started it.
func (g *Guest) launch() error {
	g.ended = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		defer close(g.ended)
		err := g.qemu.Start()
		started <- err
		if err == nil {
			_ = g.qemu.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("rig: QEMU: %w", err)
	}
	return nil
}

// unnamed returns a file without a name that has some content.
func unnamed(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("initrd", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	f := os.NewFile(uintptr(fd), "initrd")
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(fmt.Errorf("rig: %w", err), f.Close())
	}
	return f, nil
}

// socketPair returns a connection and its other end, for QEMU.
func socketPair(kind int) (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("rig: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "rig"), os.NewFile(uintptr(fds[1]), "qemu")
	defer ours.Close() // the connection has a copy
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("rig: %w", err), theirs.Close())
	}
	return c, theirs, nil
}

// call calls a method of the agent.
func (g *Guest) call(method string, argument, result any) error {
	c := g.agent.Go(protocol.Service+"."+method, argument, result, nil)
	select {
	case <-c.Done:
	case <-time.After(answerTime):
		return fmt.Errorf("rig: agent: %s: no answer within %v", method, answerTime)
	}
	if c.Error != nil {
		return fmt.Errorf("rig: agent: %s: %w", method, c.Error)
	}
	return nil
}

// Console returns what the guest's kernel and QEMU have printed.
func (g *Guest) Console() string { return g.console.String() }

// Close ends the guest and removes its devices and namespaces.
func (g *Guest) Close() error {
	if g.ended != nil {
		if g.qemu.Process != nil {
			_ = g.qemu.Process.Kill() // there is nothing in it to keep
		}
		<-g.ended
	}
	for _, c := range slices.Concat(g.connections, g.cables) {
		if c != nil {
			c.Close()
		}
	}
	return g.lab.Close()
}

// SetLink plugs the cable of a NIC in, or pulls it.
func (g *Guest) SetLink(nic int, up bool) error {
	return g.monitor.do("set_link", map[string]any{"name": fmt.Sprintf("n%d", nic), "up": up})
}

// Link describes a device of the guest.
func (g *Guest) Link(device string) (link protocol.Link, err error) {
	err = g.call("Link", device, &link)
	return link, err
}

// ReadFile reads a file of the guest.
func (g *Guest) ReadFile(path string) (data []byte, err error) {
	err = g.call("Read", path, &data)
	return data, err
}

// WriteFile writes a file of the guest.
func (g *Guest) WriteFile(path string, data []byte, mode fs.FileMode) error {
	return g.call("Write", protocol.File{Path: path, Data: data, Mode: mode}, &protocol.Nothing{})
}

// Run runs a program of the guest to its end, which must be within runTime. A status other than 0
// is not an error.
func (g *Guest) Run(args ...string) (Result, error) {
	p, err := g.Start(args...)
	if err != nil {
		return Result{}, err
	}
	return p.Wait(runTime)
}

// Start starts a program in the guest.
func (g *Guest) Start(args ...string) (*Process, error) {
	p := &Process{guest: g, args: slices.Clone(args), ended: make(chan struct{})}
	if err := g.call("Start", protocol.Command{Args: args}, &p.number); err != nil {
		return nil, err
	}
	go p.follow()
	return p, nil
}

// Process is a program in the guest.
type Process struct {
	guest  *Guest
	args   []string
	number int
	ended  chan struct{}
	lock   sync.Mutex
	result Result
	err    error // of the guest, once ended is closed
}

// Result is what a program has printed, and its exit status once it has ended: 128 and the signal's
// number if a signal ended it.
type Result struct {
	Stdout, Stderr string
	Status         int
}

// follow collects the output until the process ends.
func (p *Process) follow() {
	defer close(p.ended)
	var r Result
	for {
		var out protocol.Output
		at := protocol.Position{Process: p.number, Stdout: len(r.Stdout), Stderr: len(r.Stderr), Patience: time.Second}
		p.err = p.guest.call("Follow", at, &out)
		if p.err != nil {
			return
		}
		r.Stdout, r.Stderr, r.Status = r.Stdout+string(out.Stdout), r.Stderr+string(out.Stderr), out.Status
		p.lock.Lock()
		p.result = r
		p.lock.Unlock()
		if out.Ended {
			return
		}
	}
}

// Result returns what the process has printed so far.
func (p *Process) Result() Result {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.result
}

// Signal sends the process a signal.
func (p *Process) Signal(s unix.Signal) error {
	return p.guest.call("Signal", protocol.Signal{Process: p.number, Number: int(s)}, &protocol.Nothing{})
}

// Wait waits for the process to end.
func (p *Process) Wait(patience time.Duration) (Result, error) {
	select {
	case <-p.ended:
		return p.Result(), p.err
	case <-time.After(patience):
		return p.Result(), fmt.Errorf("rig: %v has not ended within %v", p.args, patience)
	}
}

// HasEnded reports whether the process has ended; Result is complete then.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Await waits until count lines of standard error contain all the words.
func (p *Process) Await(patience time.Duration, count int, words ...string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		over := p.HasEnded() || time.Now().After(deadline)
		found := 0
		r := p.Result()
		for line := range strings.Lines(r.Stderr) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				found++
			}
		}
		if found >= count {
			return nil
		}
		if over {
			return fmt.Errorf("rig: %v: %d times %q in its log, not %d, within %v:\n%s", p.args, found, words, count,
				patience, r.Stderr)
		}
	}
}
