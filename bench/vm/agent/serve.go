// Package agent is the first process of a rig's guest. It mounts what programs expect, loads the
// modules of its image, and does what the host asks for (package protocol) until the host goes
// away.
package agent

import (
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/vm/protocol"
)

// Command is the first argument of the program, which may have others as well.
const Command = "agent"

// Main runs the agent until the guest ends. It never returns.
func Main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "agent: runs only as the first process of a guest (see bench/vm/rig)")
		os.Exit(64)
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err) // on the console
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // the guest ends, whatever the kernel says
}

// serve prepares the guest and serves calls until the host closes the port.
func serve() error {
	if err := errors.Join(mountAll(), os.Setenv("PATH", "/bin"), os.Setenv("HOME", "/")); err != nil {
		return err
	}
	if err := errors.Join(loadModules(), nameDevices(), loopback()); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	defer port.Close()
	server := rpc.NewServer()
	if err := server.RegisterName(protocol.Service, newAgent()); err != nil {
		return err
	}
	server.ServeConn(port)
	return nil
}

func mountAll() (err error) {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"},
		{"bpf", "/sys/fs/bpf"},
	} {
		if failed := unix.Mount(m.kind, m.at, m.kind, 0, ""); failed != nil {
			err = errors.Join(err, fmt.Errorf("mount %s at %s: %w", m.kind, m.at, failed))
		}
	}
	return err
}

// loadModules loads the modules of the image, each of which follows those that it needs.
func loadModules() error {
	paths, err := filepath.Glob(protocol.Modules + "/*.ko")
	for _, path := range paths {
		if loaded := load(path); loaded != nil && !errors.Is(loaded, unix.EEXIST) {
			err = errors.Join(err, fmt.Errorf("load %s: %w", path, loaded))
		}
	}
	return err
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// nameDevices gives each device the number that is the last octet of its address: eth2 is that of
// NIC 2, in whatever order the kernel has found them.
func nameDevices() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	for _, prefix := range []string{"nic", "eth"} { // in two steps, since names may change places
		for _, l := range links {
			if a := l.Attrs().HardwareAddr; strings.HasPrefix(a.String(), protocol.Addresses) {
				err = errors.Join(err, netlink.LinkSetName(l, fmt.Sprint(prefix, a[5])))
			}
		}
	}
	return err
}

func loopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback device: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// openPort opens the port to the host, which the kernel may find only after the agent has started.
func openPort() (*os.File, error) {
	const patience = 10 * time.Second
	for waited := time.Duration(0); ; waited += 10 * time.Millisecond {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == protocol.Port {
				return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(name))), os.O_RDWR, 0)
			}
		}
		if waited > patience {
			return nil, fmt.Errorf("no virtio-serial port %s", protocol.Port)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
