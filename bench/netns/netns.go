// Package netns builds hosts for tests, the demo and benchmarks: network namespaces joined by veth
// pairs. It needs root and changes nothing outside its namespaces.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"sluice/internal/linux/ethtool"
)

// directory is where named network namespaces are mounted (ip-netns(8)).
const directory = "/run/netns"

// labs numbers the labs of this process, so that labs with the same name do not collide.
var labs atomic.Uint32

// Lab owns a set of namespaces. It is used by one goroutine.
type Lab struct {
	name       string // prefix of its namespaces' names
	owner      string // suffix: the process whose end makes the namespaces stale
	namespaces []*Namespace
	started    []*exec.Cmd
}

// Namespace is one network namespace. Its Name is visible to ip-netns(8).
type Namespace struct {
	Name   string
	lab    *Lab
	handle netns.NsHandle
}

// New returns an empty lab. It first removes namespaces that a killed process left behind.
func New(name string) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("netns: %w: run as root, which network namespaces need", os.ErrPermission)
	}
	if err := removeStale(); err != nil {
		return nil, err
	}
	started, err := startTime(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	return &Lab{
		name:  fmt.Sprintf("sluice-%s%d", name, labs.Add(1)),
		owner: fmt.Sprintf("%d-%s", os.Getpid(), started),
	}, nil
}

// Namespace adds a namespace with its loopback device up and IPv6 off, because a host with IPv6
// sends frames on its own.
func (l *Lab) Namespace(name string) (*Namespace, error) {
	n := &Namespace{Name: l.name + "-" + name + "-" + l.owner, lab: l, handle: netns.None()}
	create := func() (err error) {
		n.handle, err = netns.NewNamed(n.Name) // moves the thread into it
		return err
	}
	if err := visit(create); err != nil {
		return nil, fmt.Errorf("netns: create namespace %s: %w", n.Name, err)
	}
	l.namespaces = append(l.namespaces, n)
	return n, n.Do(func() error {
		for _, scope := range []string{"all", "default"} {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/"+scope+"/disable_ipv6", []byte("1"), 0)
			if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
				return fmt.Errorf("netns: %w", err)
			}
		}
		if err := setUp("lo"); err != nil {
			return fmt.Errorf("netns: set up the loopback device: %w", err)
		}
		return nil
	})
}

func setUp(device string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// Option changes the defaults of a veth pair.
type Option func(*pair)

type pair struct {
	mtu, queues uint32
	features    map[string]bool // of ethtool
}

// MTU sets both ends' MTU. The default is 1500 bytes.
func MTU(bytes int) Option { return func(p *pair) { p.mtu = uint32(bytes) } }

// Queues gives both ends n receive and n transmit queues. The default is one of each.
func Queues(n int) Option { return func(p *pair) { p.queues = uint32(n) } }

// NoOffloads makes the kernel's stack send frames as on a cable: at most an MTU long, with complete
// checksums. By default veth leaves segmentation and checksums to the receiver, and an XDP program
// does neither.
func NoOffloads() Option {
	return features(false, "tx-checksum-ip-generic", "tx-generic-segmentation", "tx-tcp-segmentation",
		"tx-tcp6-segmentation", "tx-udp-segmentation")
}

// GRO makes both ends accept frames that XDP programs redirect to their peers, without having a
// program themselves.
func GRO() Option { return features(true, "rx-gro") }

func features(on bool, names ...string) Option {
	return func(p *pair) {
		for _, name := range names {
			p.features[name] = on
		}
	}
}

// Veth joins two namespaces by a pair of devices and sets both up.
func (l *Lab) Veth(a *Namespace, aDev string, b *Namespace, bDev string, options ...Option) error {
	p := pair{mtu: 1500, queues: 1, features: map[string]bool{}}
	for _, o := range options {
		o(&p)
	}
	veth := netlink.NewVeth(netlink.LinkAttrs{
		Name: aDev, MTU: int(p.mtu), TxQLen: -1, NumTxQueues: int(p.queues), NumRxQueues: int(p.queues)})
	veth.PeerName, veth.PeerMTU, veth.PeerNamespace = bDev, p.mtu, netlink.NsFd(b.handle)
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = p.queues, p.queues
	err := a.Do(func() error { return netlink.LinkAdd(veth) })
	if err == nil {
		// in this order, so that a gets its carrier when its peer is configured
		err = errors.Join(b.setUp(bDev, p), a.setUp(aDev, p))
	}
	if err != nil {
		return fmt.Errorf("netns: create veth pair %s, %s: %w", aDev, bDev, err)
	}
	return nil
}

func (n *Namespace) setUp(device string, p pair) error {
	// A veth device does not notice GRO on its peer that was turned on before the peer was up.
	return n.Do(func() error { return errors.Join(setUp(device), change(device, p.features)) })
}

func change(device string, features map[string]bool) error {
	if len(features) == 0 {
		return nil
	}
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.SetFeatures(device, features)
}

// Do runs f inside the namespace, on the calling goroutine with its thread locked. Goroutines that
// f starts are not in the namespace; sockets that f opens stay in it.
func (n *Namespace) Do(f func() error) error {
	return visit(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("netns: enter namespace %s: %w", n.Name, err)
		}
		return f()
	})
}

// Start starts cmd inside the namespace. Closing the lab kills it; the caller must wait for it.
func (n *Namespace) Start(cmd *exec.Cmd) error {
	err := n.Do(cmd.Start) // a child begins in the namespace of the thread that forks it
	if err == nil {
		n.lab.started = append(n.lab.started, cmd)
	}
	return err
}

// Close kills the started commands and removes the namespaces with their devices.
func (l *Lab) Close() error {
	var errs []error
	for _, cmd := range l.started {
		if err := cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	for _, n := range l.namespaces {
		errs = append(errs, n.handle.Close(), netns.DeleteNamed(n.Name))
	}
	l.started, l.namespaces = nil, nil
	return errors.Join(errs...)
}

// visit runs f, which may move its thread to another namespace, and restores the thread's
// namespace.
func visit(f func() error) (err error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("netns: %w", err)
	}
	defer func() {
		defer home.Close()
		if back := netns.Set(home); back != nil {
			// The thread stays locked, so it exits with its goroutine and no other goroutine runs
			// on it.
			err = errors.Join(err, fmt.Errorf("netns: leave namespace: %w", back))
			return
		}
		runtime.UnlockOSThread()
	}()
	return f()
}

// ours matches the names of Namespace and extracts the owner.
var ours = regexp.MustCompile(`^sluice-.+-(\d+)-(\d+)$`)

// removeStale removes namespaces whose owner is gone. A process is identified by its number and its
// start time, because numbers are reused.
func removeStale() error {
	paths, err := filepath.Glob(filepath.Join(directory, "sluice-*"))
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		match := ours.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		pid, err := strconv.Atoi(match[1])
		if err != nil {
			continue
		}
		if started, err := startTime(pid); err == nil && started == match[2] {
			continue
		}
		if err := remove(name); err != nil {
			return fmt.Errorf("netns: remove stale namespace %s: %w", name, err)
		}
	}
	return nil
}

// remove removes a namespace by name. A killed process may leave a file that is not a mount point,
// and another process may be removing the same namespace.
func remove(name string) error {
	if err := netns.DeleteNamed(name); err == nil {
		return nil
	}
	if err := os.Remove(filepath.Join(directory, name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// startTime returns when a process started, in clock ticks since boot.
func startTime(pid int) (string, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return "", err
	}
	stat, err := process.Stat()
	if err == nil && stat.State == "Z" {
		err = fmt.Errorf("process %d has ended", pid)
	}
	return strconv.FormatUint(stat.Starttime, 10), err
}
