package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/vm/agent"
	"sluice/bench/vm/protocol"
)

// Driver is a network driver of the guest, with the device that QEMU emulates for it.
type Driver struct {
	Name    string // of the driver, as ethtool has it
	device  string // QEMU's, with options
	module  string
	machine string // QEMU's
	bridged bool   // each device is behind a port of its own on a PCIe machine
}

// Drivers that guests can have.
var (
	// VirtioNet uses DMA addresses of the guest's kernel, without which there is no zero-copy mode.
	VirtioNet = Driver{Name: "virtio_net", device: "virtio-net-pci,iommu_platform=on,disable-legacy=on",
		module: "virtio_net", machine: "pc"}
	// VirtioNetDirect lacks the descriptors without which zero-copy mode loses frames.
	VirtioNetDirect = Driver{Name: "virtio_net", module: "virtio_net", machine: "pc",
		device: "virtio-net-pci,iommu_platform=on,disable-legacy=on,indirect_desc=off"}
	// VirtioNetPlain is what most virtual machines have: sockets in zero-copy mode are refused.
	VirtioNetPlain = Driver{Name: "virtio_net", device: "virtio-net-pci", module: "virtio_net", machine: "pc"}
	IGB            = Driver{Name: "igb", device: "igb", module: "igb", machine: "q35", bridged: true}
	E1000E         = Driver{Name: "e1000e", device: "e1000e", module: "e1000e", machine: "q35", bridged: true}
	VMXNET3        = Driver{Name: "vmxnet3", device: "vmxnet3", module: "vmxnet3", machine: "pc"}
)

// Machine describes a guest.
type Machine struct {
	Driver   Driver
	NICs     int      // eth0, eth1, … in the guest; each ends at a tap device on the host
	Adapters bool     // each NIC ends at an Adapter instead
	Queues   int      // of each NIC, for virtio_net; default 1
	CPUs     int      // default 1
	Memory   int64    // bytes, default 512 MiB
	Modules  []string // further ones to load
	Switch   bool     // the guest has the program sluice, built from source
	Tools    []string // further programs of the packages, by path, such as usr/sbin/tc
	Files    []string // further files of the packages, by path, such as libraries that a tool loads itself
	// Punctual has the guest tell the time by ACPI's timer, which is slow to read. By default it is
	// the CPU's counter, and a kernel that gets no CPU while it measures the counter's speed has a
	// clock that is several times too fast.
	Punctual bool
	// Agent is a program without shared libraries that runs agent.Main if its first argument is
	// agent.Command. Without it, one is built from source.
	Agent []byte
}

// TapDevice is the name of the device of each NIC, in the NIC's namespace.
const TapDevice = "tap0"

// tapQueue is how many frames a tap device holds for a guest that is slow. The default, 500, is
// what an emulated machine is late by.
const tapQueue = 16384

func (m *Machine) complete() error {
	if m.Queues == 0 {
		m.Queues = 1
	}
	if m.CPUs == 0 {
		m.CPUs = 1
	}
	if m.Memory == 0 {
		m.Memory = 512 << 20
	}
	switch {
	case m.Driver.module == "":
		return errors.New("rig: a machine needs a driver")
	case m.NICs < 1 || m.NICs > 8:
		return fmt.Errorf("rig: %d NICs: there must be 1 to 8", m.NICs)
	case m.Adapters && m.Queues > 1:
		return errors.New("rig: an adapter has one queue")
	case m.Queues > 1 && m.Driver.module != "virtio_net":
		return fmt.Errorf("rig: QEMU gives %s one queue", m.Driver.Name)
	}
	return nil
}

// tap creates a tap device in a namespace and returns a descriptor for each of its queues. The
// device ends when they are closed.
func tap(in *netns.Namespace, queues int) ([]*os.File, error) {
	t := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP, Queues: queues,
		NonPersist: true, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR}
	t.Name, t.TxQLen = TapDevice, tapQueue
	if queues > 1 {
		t.Flags |= netlink.TUNTAP_MULTI_QUEUE
	} else {
		t.Flags |= netlink.TUNTAP_ONE_QUEUE
	}
	err := in.Do(func() error {
		if err := netlink.LinkAdd(t); err != nil {
			return err
		}
		link, err := netlink.LinkByName(TapDevice)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetTxQLen(link, tapQueue), netlink.LinkSetUp(link))
	})
	if err != nil {
		descriptors(t.Fds).close()
		return nil, fmt.Errorf("rig: tap device: %w", err)
	}
	return t.Fds, nil
}

// descriptors collects files for a process to inherit.
type descriptors []*os.File

// add returns the number of the descriptor in the process.
func (d *descriptors) add(f *os.File) string {
	*d = append(*d, f)
	return strconv.Itoa(2 + len(*d))
}

func (d descriptors) close() {
	for _, f := range d {
		f.Close()
	}
}

// boot begins the kernel's command line. The console shows warnings and errors (level 4 and below).
// No time is spent on what an emulated guest has no use for: calibration, mitigations, entropy. The
// kernel gives the agent each option that it does not know.
const boot = "console=ttyS0 loglevel=5 panic=-1 mitigations=off tsc=reliable no_timer_check " +
	"random.trust_cpu=on audit=0 ipv6.disable=1 noautogroup 8250.nr_uarts=1 rodata=off init_on_alloc=0 " +
	"cryptomgr.notests"

// kernelCommandLine returns the options of the guest's kernel, which end with those of the agent.
func (m *Machine) kernelCommandLine() string {
	line := boot
	if m.Punctual {
		line += " tsc=unstable" // and not reliable; then the scheduler's clock follows the timer, too
	}
	return line + " -- " + agent.Command
}

// command prepares QEMU for a machine. The files are for the process to inherit.
func (m *Machine) command(ctx context.Context, t Tree, monitor, control, initrd *os.File, nics [][]*os.File) (
	*exec.Cmd, descriptors) {
	var files descriptors
	args := []string{
		"-L", string(t) + "/usr/share/qemu", "-bios", "qboot.rom",
		"-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
		"-machine", m.Driver.machine + ",hpet=off,usb=off,i8042=off", "-accel", "tcg,thread=multi",
		"-cpu", "max,la57=off", "-smp", strconv.Itoa(m.CPUs), "-m", strconv.FormatInt(m.Memory>>20, 10) + "M",
		"-kernel", string(t) + "/vmlinux", "-initrd", "/proc/self/fd/" + files.add(initrd),
		"-append", m.kernelCommandLine(), "-serial", "stdio",
		"-chardev", "socket,id=monitor,fd=" + files.add(monitor), "-mon", "chardev=monitor,mode=control",
		"-chardev", "socket,id=agent,fd=" + files.add(control),
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=" + protocol.Port,
	}
	for n, queues := range nics {
		var fds []string
		for _, q := range queues {
			fds = append(fds, files.add(q))
		}
		device := fmt.Sprintf("%s,netdev=n%d,mac=%s%02x", m.Driver.device, n, protocol.Addresses, n)
		if m.Queues > 1 {
			device += fmt.Sprintf(",mq=on,vectors=%d", 2*m.Queues+2)
		}
		if m.Driver.bridged {
			args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%d", n, n+1))
			device += fmt.Sprintf(",bus=port%d", n)
		}
		netdev := fmt.Sprintf("tap,id=n%d,vhost=off,fds=%s", n, strings.Join(fds, ":"))
		if m.Adapters {
			netdev = fmt.Sprintf("dgram,id=n%d,local.type=fd,local.str=%s", n, fds[0])
		}
		args = append(args, "-netdev", netdev, "-device", device+",romfile=")
	}
	c := t.Command(ctx, "usr/bin/qemu-system-x86_64", args...)
	c.ExtraFiles = files
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return c, files
}
