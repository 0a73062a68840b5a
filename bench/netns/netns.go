// Package netns builds the hosts that tests, the demo and the benchmarks talk to: network
// namespaces of their own, joined by veth pairs. It needs root. Nothing outside of its namespaces
// is touched.
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

	"sluice/internal/ethtool"
)

// directory is where named network namespaces are mounted (ip-netns(8)).
const directory = "/run/netns"

// labs numbers the labs of this process, so that two of the same name do not meet.
var labs atomic.Uint32

// Lab owns a set of namespaces. It is used by one goroutine.
type Lab struct {
	name       string // prefix of its namespaces' names
	owner      string // suffix: the process that must live for the namespaces to be kept
	namespaces []*Namespace
	started    []*exec.Cmd
}

// Namespace is one network namespace. Its Name is known to ip-netns(8) too.
type Namespace struct {
	Name   string
	lab    *Lab
	handle netns.NsHandle
}

// New returns an empty lab. Namespaces that a killed process left behind are removed first.
func New(name string) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("netns: %w: network namespaces need root", os.ErrPermission)
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

// Namespace adds a namespace with its loopback device up, and with IPv6 off, because a host that
// has it on sends frames nobody asked for.
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
			return fmt.Errorf("netns: loopback device: %w", err)
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

// Option changes a veth pair from what Veth makes by default.
type Option func(*pair)

type pair struct {
	mtu, queues uint32
	features    map[string]bool // of ethtool
}

// MTU sets both ends' MTU; without it, it is 1500 bytes.
func MTU(bytes int) Option { return func(p *pair) { p.mtu = uint32(bytes) } }

// Queues gives both ends n receive and n transmit queues; without it, they have one of each.
func Queues(n int) Option { return func(p *pair) { p.queues = uint32(n) } }

// NoOffloads makes the kernel's stack send what a cable would carry: frames of at most an MTU, with
// checksums complete. By default veth leaves both to a receiver that never does them when it is an
// XDP program.
func NoOffloads() Option {
	return features(false, "tx-checksum-ip-generic", "tx-generic-segmentation", "tx-tcp-segmentation",
		"tx-tcp6-segmentation", "tx-udp-segmentation")
}

// GRO makes both ends take frames that XDP programs redirect to their peers, though they have no
// program themselves.
func GRO() Option { return features(true, "rx-gro") }

func features(on bool, names ...string) Option {
	return func(p *pair) {
		for _, name := range names {
			p.features[name] = on
		}
	}
}

// Veth joins two namespaces by a pair of devices, both up.
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
		// so that a's carrier comes when its peer is as it is to be
		err = errors.Join(b.setUp(bDev, p), a.setUp(aDev, p))
	}
	if err != nil {
		return fmt.Errorf("netns: veth %s - %s: %w", aDev, bDev, err)
	}
	return nil
}

func (n *Namespace) setUp(device string, p pair) error {
	// Of GRO that is turned on before a veth device is up the kernel does not tell its peer.
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

// Do runs f inside the namespace, on the calling goroutine and a thread that is locked meanwhile.
// Goroutines that f starts are not in the namespace; sockets that f opens stay in it.
func (n *Namespace) Do(f func() error) error {
	return visit(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("netns: enter namespace %s: %w", n.Name, err)
		}
		return f()
	})
}

// Start starts cmd inside the namespace. Closing the lab kills it; waiting for it is the caller's.
func (n *Namespace) Start(cmd *exec.Cmd) error {
	err := n.Do(cmd.Start) // a child begins in the namespace of the thread that forks it
	if err == nil {
		n.lab.started = append(n.lab.started, cmd)
	}
	return err
}

// Close kills what was started and removes the namespaces, and with them their devices.
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

// visit runs f, which may move its thread to another namespace, and brings the thread back.
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
			// The thread stays locked and so dies with its goroutine: nobody else may run in there.
			err = errors.Join(err, fmt.Errorf("netns: leave namespace: %w", back))
			return
		}
		runtime.UnlockOSThread()
	}()
	return f()
}

// ours matches the names that Namespace gives and finds the owner in them.
var ours = regexp.MustCompile(`^sluice-.+-(\d+)-(\d+)$`)

// removeStale removes namespaces whose owner is gone. A process is known by its number and its
// start time, because numbers are used again.
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

// remove removes a namespace by name. Killed at the wrong moment, a process leaves a file that is
// no mount point; and somebody else may be removing the same one.
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
		err = fmt.Errorf("process %d is no more", pid)
	}
	return strconv.FormatUint(stat.Starttime, 10), err
}
