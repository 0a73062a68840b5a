package peers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
)

const (
	fcoeVLAN = 100
	fcoeMTU  = 2500 // of all devices; FCoE needs 2158 bytes
	fcfPort  = 2    // port3
	diskSize = 4 << 20
	fka      = 4 * time.Second // between advertisements, and between keep-alives
)

// snooping is the part of the switch's configuration that has it snoop.
var snooping = fmt.Sprintf("fcoe: {instances: [{name: storage, vlan: %d}]}\n", fcoeVLAN)

// fabric is two Linux guests, which can be ENodes, and an FCF, each behind a port of the switch.
// The target has a disk, which the initiator may use.
type fabric struct {
	*site
	initiator, target *host
	disk              string             // SHA-256 of the target's disk
	fcf               *program.Running   // the lab's
	links             []*program.Capture // of the ENodes' links
	capture           *program.Running   // of the FCF's port, by the switch: the FCF's AF_XDP socket hides the link
	file              string             // of this capture
}

// newFabric boots the guests, behind a switch that does not snoop.
func newFabric(t *testing.T) *fabric {
	t.Helper()
	program.NeedTshark(t)
	x := &fabric{site: newSite(t, 3, netns.MTU(fcoeMTU))}
	x.run(t, x.configuration(""))
	m := rig.Machine{Modules: []string{"8021q", "fcoe", "sd_mod"}, Tools: []string{"usr/bin/ip", "usr/sbin/fipvlan"},
		Punctual: true} // Fibre Channel has timeouts of two seconds
	x.initiator = boot(t, m, x.port(0))
	m.Modules = append(m.Modules, "target_core_file", "tcm_fc")
	x.target = boot(t, m, x.port(1))
	for _, h := range x.enodes() {
		h.joinFCoE(t)
	}
	x.target.export(t, x.initiator)
	x.disk = x.target.sum(t, "/tmp/disk")
	return x
}

// enodes returns the guests in the order of their ports.
func (x *fabric) enodes() []*host { return []*host{x.initiator, x.target} }

// configuration returns that of a switch whose ports are in VLAN 1, without tags, and in the FCoE
// VLAN.
func (x *fabric) configuration(fcoe string) string {
	var c strings.Builder
	c.WriteString("ports:\n")
	for i := range x.Hosts {
		role := ""
		if fcoe != "" && i == fcfPort {
			role = ", fcoe: {role: fcf}"
		}
		fmt.Fprintf(&c, "  - {device: port%d, speed: %.0fM, mtu: 2158, link: trunk, vlans: [1, %d]%s}\n", i+1,
			lineRate/1e6, fcoeVLAN, role)
	}
	fmt.Fprintf(&c, `forwarding: {loop_guard: off} # the hosts count every frame
memory: {buffers: 8192, buffer_size: 4096B}
classes:
  - {cos: [%d], lossless: true, share: 128KiB, headroom: 6MB}
metrics: {listen: none}
control: {socket: %s}
%s`, lossless, x.socket, fcoe)
	return c.String()
}

// joinFCoE gives a guest a device in the FCoE VLAN. All its frames have the lossless PCP: the
// kernel gives FIP and FCoE priority 0 or 6. The NIC is promiscuous because QEMU filters addresses,
// and learns the address of a VN_Port too late for the first answer to it.
func (h *host) joinFCoE(t *testing.T) {
	t.Helper()
	h.shell(t, fmt.Sprintf(`
/bin/ip link set eth0 mtu %d promisc on
/bin/ip link add link eth0 name eth0.%[2]d type vlan id %[2]d egress-qos-map 0:%[3]d 6:%[3]d
/bin/ip link set eth0.%[2]d up`, fcoeMTU, fcoeVLAN, lossless))
}

// wwpn returns the name that the kernel gives a guest's VN_Port.
func (h *host) wwpn(t *testing.T) string {
	t.Helper()
	return "20:00:" + strings.TrimSpace(h.run(t, "cat", "/sys/class/net/eth0/address"))
}

// export makes a guest a target with a disk, which is a file, for another guest.
func (h *host) export(t *testing.T, to *host) {
	t.Helper()
	h.shell(t, fmt.Sprintf(`
dd if=/dev/urandom of=/tmp/disk bs=64k count=%d
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/target
mkdir -p core/fileio_0/disk
echo fd_dev_name=/tmp/disk,fd_dev_size=%d > core/fileio_0/disk/control
echo 1 > core/fileio_0/disk/enable
group=$PWD/fc/%s/tpgt_1
initiator=$group/acls/%s
mkdir fc "${group%%/*}" "$group" "$group/lun/lun_0" "$initiator" "$initiator/lun_0"
ln -s "$PWD/core/fileio_0/disk" "$group/lun/lun_0/disk"
ln -s "$group/lun/lun_0" "$initiator/lun_0/disk"`, diskSize>>16, diskSize, h.wwpn(t), to.wwpn(t)))
}

// startENodes makes the guests ENodes, which look for an FCF (mode Fabric) or for each other
// (VN2VN).
func (x *fabric) startENodes(t *testing.T, mode string) {
	t.Helper()
	for _, h := range x.enodes() {
		h.shell(t, fmt.Sprintf(`
echo eth0.%d > /sys/bus/fcoe/ctlr_create
cd /sys/bus/fcoe/devices/ctlr_*
echo %s > mode
echo 1 > enabled`, fcoeVLAN, mode))
	}
}

// endENodes undoes that. fcoe.ko takes longer than its system call.
func (x *fabric) endENodes(t *testing.T) {
	t.Helper()
	for _, h := range x.enodes() {
		h.shell(t, fmt.Sprintf("echo eth0.%d > /sys/bus/fcoe/ctlr_destroy", fcoeVLAN))
		rigtest.Until(t, "a guest is no ENode any more", func() bool {
			return !strings.Contains(h.shell(t, "ls /sys/bus/fcoe/devices"), "ctlr_")
		})
	}
}

// fc returns attributes that a guest has of its VN_Ports, or of the FCF that it knows.
func (h *host) fc(t *testing.T, names ...string) string {
	t.Helper()
	files := ""
	for _, n := range names {
		files += fmt.Sprintf(" /sys/class/fc_host/host*/%s /sys/bus/fcoe/devices/fcf_*/%[1]s", n)
	}
	return strings.Join(strings.Fields(h.shell(t, "cat"+files+" 2>/dev/null || true")), " ")
}

// readDisk waits until the initiator has the disk, and reads it all.
func (x *fabric) readDisk(t *testing.T) {
	t.Helper()
	x.initiator.shell(t, "echo 1 > /proc/sys/vm/drop_caches")
	rigtest.Until(t, "the initiator has the disk", func() bool {
		r, err := x.initiator.Run("dd", "if=/dev/sda", "of=/dev/null", "bs=512", "count=1")
		rigtest.Must(t, err)
		return r.Status == 0
	})
	if got := x.initiator.sum(t, "/dev/sda"); got != x.disk {
		t.Errorf("the initiator has read %s, and the target has %s", got, x.disk)
	}
}

// snoop replaces the switch by one that snoops, and starts captures.
func (x *fabric) snoop(t *testing.T) {
	t.Helper()
	x.sw.Signal(unix.SIGTERM)
	if code := x.sw.ExitCode(); code != 0 {
		t.Errorf("exit code %d of the switch", code)
	}
	x.run(t, x.configuration(snooping))
	x.file = filepath.Join(t.TempDir(), "fcf.pcapng")
	x.capture = program.LaunchCommand(t, nil, exec.Command(x.program, "capture", "--socket", x.socket,
		"--port", fmt.Sprint("port", fcfPort+1), "--snaplen", "256", "-w", x.file))
	x.sw.Await(1, `msg="capture started"`)
	for i := range x.enodes() {
		x.links = append(x.links, program.StartCapture(t, x.Hosts[i], program.HostDevice))
	}
}

func (x *fabric) endCaptures(t *testing.T) {
	t.Helper()
	program.EndCaptures(x.links...)
	x.capture.Signal(unix.SIGINT)
	if code := x.capture.ExitCode(); code != 0 {
		t.Errorf("exit code %d of the capture", code)
	}
}

// kill kills the switch, and starts another one.
func (x *fabric) kill(t *testing.T) {
	t.Helper()
	x.sw.Signal(unix.SIGKILL)
	x.sw.ExitCode()
	x.run(t, x.configuration(snooping))
}

// startFCF starts the lab's FCF.
func (x *fabric) startFCF(t *testing.T) {
	t.Helper()
	x.fcf = program.LaunchCommand(t, x.Hosts[fcfPort], exec.Command(rigtest.Build(t, "sluice-lab"), "fcf", "--json",
		"-d", program.HostDevice, "--vlan", fmt.Sprint(fcoeVLAN), "--fka", fka.String(),
		"--speed", fmt.Sprintf("%.0fM", lineRate/1e6)))
}

// endFCF ends the FCF, and checks what it has counted: two logins of each ENode, registrations with
// its name server and keep-alives.
func (x *fabric) endFCF(t *testing.T) {
	t.Helper()
	x.fcf.Signal(unix.SIGINT)
	if code := x.fcf.ExitCode(); code != 0 {
		t.Errorf("exit code %d of the FCF", code)
	}
	var r struct {
		FLOGI         int `json:"flogi"`
		Registrations int `json:"registrations"`
		KeepAlives    int `json:"keep_alives"`
		Damaged       int `json:"damaged"`
		Malformed     int `json:"malformed"`
	}
	x.fcf.Document(&r)
	t.Logf("FCF: %s", &x.fcf.Output)
	if r.FLOGI < 4 || r.Registrations == 0 || r.KeepAlives == 0 || r.Damaged+r.Malformed > 0 {
		t.Errorf("the FCF has counted %+v", r)
	}
}

// fcfMAC returns the address of the FCF, which must be the only one that the switch knows.
func (x *fabric) fcfMAC(t *testing.T) string {
	t.Helper()
	fcfs := x.state(t).FCoE.FCFs
	if len(fcfs) != 1 {
		t.Fatalf("the switch knows %d FCFs: %+v", len(fcfs), fcfs)
	}
	return fcfs[0].MAC
}

// pull pulls the cables of the ENodes, first at the guests, so that the adapters lose nothing.
func (x *fabric) pull(t *testing.T) {
	t.Helper()
	for i, h := range x.enodes() {
		rigtest.Must(t, h.SetLink(0, false))
		program.OnLink(t, x.Hosts[i], program.HostDevice, netlink.LinkSetDown)
	}
}

// plug plugs them in again.
func (x *fabric) plug(t *testing.T) {
	t.Helper()
	for i, h := range x.enodes() {
		program.OnLink(t, x.Hosts[i], program.HostDevice, netlink.LinkSetUp)
		rigtest.Must(t, h.SetLink(0, true))
	}
}
