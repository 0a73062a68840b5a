package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/report/console"
	"sluice/pmd/afxdp"
)

// fault is an external fault that strikes a running switch with three ports. Port 3 may be
// affected; the hosts behind ports 1 and 2 exchange lossless frames throughout and must lose none.
// Afterwards port 3 must forward again, SIGTERM must end the switch with exit code 0, and the
// devices must be restored.
//
// Other faults have their own tests: the four boot conditions, a metrics address in use and
// systemd's signals (systemd_test.go, metrics_test.go), kill -9 and deleted devices under load
// (lifecycle_test.go), silent clients of all sockets (orders_test.go), a memory limit
// (memory_test.go).
type fault struct {
	name string
	// wrap is an optional shell script that starts the switch with the command line "$@".
	wrap   string
	strike func(x *scene)
	ends   bool // strike ends the switch
}

// scene is a switch under test and its surroundings.
type scene struct {
	*program.Running
	program.Site
	t       *testing.T
	file    string // the configuration
	socket  string
	client  *console.Client
	stderr  *os.File      // the end of the log's pipe that the switch writes to
	reader  *os.File      // the other end
	reading chan struct{} // closed when the reader stops
}

// watchedSwitch is slowSwitch with metrics.
const watchedSwitch = slowSwitch + "metrics: {listen: \"" + metricsAddress + "\"}\n"

// Shell scripts that start a switch: directly, or with its own /run/sluice.
const (
	direct = `exec "$@"`
	ownRun = `mount -t tmpfs none /run/sluice; exec "$@"`
)

var faults = []fault{
	{name: "log reader gone", strike: func(x *scene) {
		if err := x.reader.Close(); err != nil {
			x.t.Fatal(err)
		}
		x.flap()
	}},
	{name: "log blocked", strike: func(x *scene) {
		x.block()
		x.flap()
	}},
	{name: "log on a full disk", wrap: `exec "$@" 2>/dev/full`, strike: func(x *scene) { x.flap() }},
	{name: "SIGTERM twice", ends: true, strike: func(x *scene) {
		x.Signal(unix.SIGTERM)
		time.Sleep(20 * time.Millisecond)
		x.Signal(unix.SIGTERM)
	}},
	{name: "out of descriptors", strike: func(x *scene) {
		restore := x.starve()
		x.replace(func() {})
		x.Await(1, "port stays down", "too many open files")
		restore()
	}},
	{name: "device set down, out of descriptors", strike: func(x *scene) {
		restore := x.starve()
		program.OnLink(x.t, x.Home, "port3", netlink.LinkSetDown)
		x.Await(1, "port closed", "port=port3")
		restore()
		program.OnLink(x.t, x.Home, "port3", netlink.LinkSetUp)
	}},
	{name: "full disk", wrap: `mount -t tmpfs -o size=64k none /run/sluice; exec "$@"`, strike: func(x *scene) {
		filler := fmt.Sprintf("/proc/%d/root/run/sluice/filler", x.Process.Pid)
		x.replace(func() {
			f, err := os.Create(filler)
			if err != nil {
				x.t.Fatal(err)
			}
			if _, err := io.Copy(f, neverEnding{}); !errors.Is(err, unix.ENOSPC) {
				x.t.Fatalf("the disk is not full: %v", err)
			}
			f.Close()
		})
		x.Await(1, "port stays down", "no space left on device")
		if err := os.Remove(filler); err != nil {
			x.t.Fatal(err)
		}
	}},
	{name: "state directory opened to others", wrap: ownRun, strike: func(x *scene) {
		x.replace(func() {
			if err := os.Chmod(x.stateDirectory(), 0o755); err != nil {
				x.t.Fatal(err)
			}
		})
	}},
	{name: "state directory removed", wrap: ownRun, strike: func(x *scene) {
		if err := os.RemoveAll(x.stateDirectory()); err != nil {
			x.t.Fatal(err)
		}
		x.replace(func() {})
	}},
	{name: "settings of a device changed by others", strike: func(x *scene) {
		x.Await(1, "msg=confined")
		program.OnLink(x.t, x.Home, "port3", netlink.SetPromiscOff)
		program.OnLink(x.t, x.Home, "port3", func(l netlink.Link) error {
			return netlink.QdiscDel(&netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index,
				Parent: netlink.HANDLE_ROOT}})
		})
		for _, setting := range []string{"promiscuous", "qdisc"} {
			x.Await(1, "changed by a program or its driver and put back", "port=port3", "setting="+setting)
		}
	}},
	{name: "device renamed and back", strike: func(x *scene) {
		rename := func(from, to string) {
			program.OnLink(x.t, x.Home, from, netlink.LinkSetDown)
			program.OnLink(x.t, x.Home, from, func(l netlink.Link) error { return netlink.LinkSetName(l, to) })
			program.OnLink(x.t, x.Home, to, netlink.LinkSetUp)
		}
		rename("port3", "other0")
		x.Await(1, "port closed", "port=port3")
		rename("other0", "port3")
	}},
	{name: "device deleted", strike: func(x *scene) { x.replace(func() {}) }},
	{name: "malformed netlink", strike: func(x *scene) {
		short := []byte{20, 0, 0, 0, unix.RTM_NEWLINK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		refused := false // by all long-lived sockets; short-lived ones are not connected to the kernel
		for range 100 {  // with the long messages, more than a socket buffer holds
			taken := x.netlink([]byte{1, 2, 3}, make([]byte, 16), []byte(strings.Repeat("\xff", 64)), short,
				make([]byte, 60000))
			refused = refused || taken == 0
		}
		if !refused {
			x.t.Error("netlink sockets take messages of other processes")
		}
		x.Await(1, "link changes missed; listing all links again")
		x.flap()
		x.replace(func() {})
	}},
	{name: "silent clients on either socket", strike: func(x *scene) {
		for range 300 {
			x.connect("unix", x.socket)
			x.connect("tcp", metricsAddress)
		}
		began := time.Now()
		up := x.portUp()
		body := getIn(clientIn(x.Home), "http://"+metricsAddress+"/metrics")
		if took := time.Since(began); !up || !bytes.Contains(body, []byte("\nsluice_up 1\n")) || took > 2*time.Second {
			x.t.Errorf("beside 300 silent clients, show and a scrape took %v; port3 up: %t\n%s", took, up, body)
		}
	}},
	{name: "SIGHUP again and again", strike: func(x *scene) {
		for range 50 {
			x.Signal(unix.SIGHUP)
			time.Sleep(time.Millisecond)
		}
	}},
}

type neverEnding struct{}

func (neverEnding) Read(b []byte) (int, error) { return len(b), nil }

// connect connects to a socket of the switch until the test ends.
func (x *scene) connect(network, address string) {
	x.t.Helper()
	err := x.Home.Do(func() error {
		c, err := net.Dial(network, address)
		if err == nil {
			x.t.Cleanup(func() { c.Close() })
		}
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

// block stops reading the log and fills its pipe.
func (x *scene) block() {
	if err := x.reader.SetReadDeadline(time.Now()); err != nil {
		x.t.Fatal(err)
	}
	<-x.reading
	// Open the pipe again: O_NONBLOCK on stderr would also affect the switch.
	pipe, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", x.stderr.Fd()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC,
		0)
	if err != nil {
		x.t.Fatal(err)
	}
	defer unix.Close(pipe)
	for err == nil {
		_, err = unix.Write(pipe, make([]byte, os.Getpagesize()))
	}
	if err != unix.EAGAIN {
		x.t.Fatalf("the pipe is not full: %v", err)
	}
}

// flap takes the link of port 3 down and up, and waits each time until the switch reports it.
func (x *scene) flap() {
	x.t.Helper()
	for _, up := range []bool{false, true} {
		set := netlink.LinkSetDown
		if up {
			set = netlink.LinkSetUp
		}
		program.OnLink(x.t, x.Hosts[2], program.HostDevice, set)
		program.Until(x.t, fmt.Sprintf("port3 to be up: %t", up), func() bool { return x.portUp() == up })
	}
}

// portUp reports whether the switch says that port 3 is up.
func (x *scene) portUp() bool {
	r, err := x.client.State(x.t.Context())
	return err == nil && program.Report{Switch: *r}.Port(x.t, "port3").Up
}

// stateDirectory returns the path of the state directory in the switch's mount namespace.
func (x *scene) stateDirectory() string {
	return fmt.Sprintf("/proc/%d/root%s", x.Process.Pid, afxdp.StateDirectory)
}

// starve prevents the switch from opening file descriptors until restore is called.
func (x *scene) starve() (restore func()) {
	x.t.Helper()
	pid := x.Process.Pid
	limit := func(to, was *unix.Rlimit) {
		x.t.Helper()
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, to, was); err != nil {
			x.t.Fatal(err)
		}
	}
	var before unix.Rlimit
	limit(nil, &before)
	limit(&unix.Rlimit{Cur: uint64(resourcesOf(x.t, pid).descriptors) / 2, Max: before.Max}, nil)
	return func() { limit(&before, nil) }
}

// replace deletes the device of port 3, calls between, and creates a new device.
func (x *scene) replace(between func()) {
	x.t.Helper()
	program.OnLink(x.t, x.Home, "port3", netlink.LinkDel)
	x.Await(1, "port closed", "port=port3")
	between()
	x.Veth(x.t, x.Home, "port3", x.Hosts[2], program.HostDevice)
}

// netlink sends messages to the multicast group for links, which root may do, and to each netlink
// socket of the switch. It returns how often these sockets accepted one. Long-lived sockets are
// connected to the kernel, so they refuse all.
func (x *scene) netlink(messages ...[]byte) (taken int) {
	x.t.Helper()
	ports := x.netlinkPorts() // before the test opens its own
	err := x.Home.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		all := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_LINK - 1)}
		for _, m := range messages {
			err := unix.Sendto(fd, m, unix.MSG_DONTWAIT, all)
			if err != nil && err != unix.ENOBUFS { // a receiver's socket is full
				return err
			}
			for _, p := range ports {
				err := unix.Sendto(fd, m, unix.MSG_DONTWAIT, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: p})
				if err != unix.ECONNREFUSED {
					taken++
				}
			}
		}
		return nil
	})
	if err != nil {
		x.t.Error(err)
	}
	return taken
}

// netlinkPorts returns the addresses of the switch's route netlink sockets.
func (x *scene) netlinkPorts() (ports []uint32) {
	x.t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", x.Process.Pid))
	if err != nil {
		x.t.Fatal(err)
	}
	const protocol, port = 1, 2 // columns; line 1 is the heading
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		field := strings.Fields(line)
		number, err := strconv.ParseUint(field[port], 10, 32)
		if err == nil && number != 0 && field[protocol] == strconv.Itoa(unix.NETLINK_ROUTE) {
			ports = append(ports, uint32(number))
		}
	}
	if len(ports) == 0 {
		x.t.Error("the switch has no netlink socket")
	}
	return ports
}

// enter starts a switch through a shell script. Its log goes through a pipe that the test can stop
// reading.
func enter(t *testing.T, s program.Site, wrap string) *scene {
	t.Helper()
	x := &scene{Site: s, t: t, socket: program.SocketPath(t)}
	x.client = console.Dial(x.socket)
	x.file = readable(t, program.WithTransmitter(t, watchedSwitch+"control: {socket: "+x.socket+"}\n"))
	var err error
	if x.reader, x.stderr, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.stderr.Close(); x.reader.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "--mount", "sh", "-c", wrap, "sh", self, "run", "-c", x.file, "--json")
	c.Env = append(os.Environ(), program.AsProgram+"=1")
	c.Stderr = x.stderr
	x.Running = program.LaunchCommand(t, s.Home, c)
	x.read()
	program.Until(t, "the ports to be up", func() bool {
		r, err := x.client.State(t.Context())
		return err == nil && len(r.Ports) == 3 && r.Ports[0].Up && r.Ports[1].Up && r.Ports[2].Up
	})
	return x
}

// read reads the log until block is called.
func (x *scene) read() {
	if err := x.reader.SetReadDeadline(time.Time{}); err != nil {
		x.t.Fatal(err)
	}
	x.reading = make(chan struct{})
	go func() {
		defer close(x.reading)
		_, _ = io.Copy(&x.Log, x.reader)
	}()
}

// TestOutputOnAFullDisk checks that the exit code tells how the switch ended, and that the log
// reports the lost output.
func TestOutputOnAFullDisk(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--json"}, nil} {
		s := program.NewSite(t, 2)
		before, files := statesOf(t, s), program.Remembered(t, s)
		run := append([]string{"-c", `exec "$@" >/dev/full`, "sh", self, "run", "-c",
			readable(t, program.WithSocket(t, good))}, flags...)
		c := exec.Command("sh", run...)
		c.Env = append(os.Environ(), program.AsProgram+"=1")
		p := program.LaunchCommand(t, s.Home, c)
		p.Await(1, "msg=forwarding")
		p.Signal(unix.SIGTERM)
		if code := p.ExitCode(); code != 0 {
			t.Errorf("%q: exit code %d", flags, code)
		}
		p.Await(1, "final counters not printed", "no space left on device")
		checkRestored(t, s, before, files)
	}
}

// TestFaults runs each fault against a switch of its own.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := program.NewSite(t, 3)
			before, files := statesOf(t, s), program.Remembered(t, s)
			c := newCrew(t, s, 2, []int{1, 2}, map[int][]traffic.Flow{1: {flow(1, 2, lossless)},
				2: {flow(3, 1, lossless)}})
			wrap := f.wrap
			if wrap == "" {
				wrap = direct
			}
			x := enter(t, s, wrap)
			c.more(50, 1, 3)
			warm := c.received()
			f.strike(x)
			if !f.ends {
				program.Until(t, "port 3 to be up", x.portUp)
				c.more(50, 1, 3)
				c.settle(1, 3)
				x.Signal(unix.SIGTERM)
			}
			if code := x.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			for _, id := range []uint32{1, 3} {
				if got := c.received()[id]; got.Missing != warm[id].Missing ||
					got.Reordered+got.Duplicates+got.Stale > 0 {
					t.Errorf("flow %d between the other ports: %+v, and %d were missing at first", id, got,
						warm[id].Missing)
				}
			}
			c.leave()
			var r program.Report
			x.Document(&r)
			if r.LosslessDrops > 0 {
				t.Errorf("%d lossless drops", r.LosslessDrops)
			}
			checkRestored(t, s, before, files)
		})
	}
}
