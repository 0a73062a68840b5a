package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/pmd/afxdp"
)

// container is a systemd-nspawn container whose PID 1 is systemd, which runs the unit in deploy/.
// It uses this machine's files through a temporary overlay, and the network namespace of a lab.
type container struct {
	t    *testing.T
	init int // PID of systemd on this machine
}

// bootScript mounts the overlay in its own mount namespace, so that nothing remains if the test is
// killed, and boots the container. $1 is a directory of files that replace those of this machine;
// the other arguments are those of systemd-nspawn.
const bootScript = `
set -e
mount -t tmpfs none "$1/disk"
mkdir "$1/disk/upper" "$1/disk/work" "$1/disk/root"
cp -a "$1/files/." "$1/disk/upper"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/disk/upper,workdir=$1/disk/work" "$1/disk/root"
rm -rf "$1/disk/root/etc/systemd/system/"*.wants "$1/disk/root/var/log/journal" "$1/disk/root/etc/machine-id"
root=$1/disk/root
shift
systemctl --root="$root" --quiet enable sluice
exec systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --console=pipe "$@"
`

// boot starts a container, and waits until systemd has started the unit with a configuration.
// changes is the unit's drop-in file.
func boot(t *testing.T, in *netns.Namespace, configuration, changes string) *container {
	t.Helper()
	if _, err := exec.LookPath("systemd-nspawn"); err != nil {
		t.Skip("needs systemd-nspawn, to have a real systemd run the unit")
	}
	unit, err := os.ReadFile("../../deploy/sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	place := t.TempDir()
	for path, text := range map[string]string{
		"files/etc/systemd/system/sluice.service": string(unit),
		"files/etc/systemd/system/sluice.service.d/test.conf": "[Service]\nEnvironment=" + program.AsProgram + "=1\n" +
			changes,
		"files/etc/sluice/sluice.yaml": configuration,
		"files/usr/local/bin/sluice":   "",
		"disk/.keep":                   "",
	} {
		file := filepath.Join(place, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	p := program.LaunchCommand(t, nil, exec.Command("unshare", "--mount", "--propagation", "private",
		"sh", "-c", bootScript, "sh", place, "--network-namespace-path=/run/netns/"+in.Name,
		"--bind-ro="+self+":/usr/local/bin/sluice", "--capability=all",
		"--system-call-filter=bpf landlock_create_ruleset landlock_add_rule landlock_restrict_self",
		"--boot", "--", "--unit=multi-user.target"))
	c := &container{t: t}
	program.Until(t, "systemd to be PID 1", func() bool {
		if p.HasEnded() {
			t.Fatalf("systemd-nspawn ended: %s", p.Output.Bytes())
		}
		c.init = child(p.Process.Pid)
		return c.init != 0 && c.run("systemctl", "list-units") == nil
	})
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := c.output("journalctl", "--no-pager", "--unit=sluice")
			t.Logf("journal:\n%s", out)
		}
		_ = unix.Kill(c.init, unix.SIGKILL)
	})
	return c
}

// child returns the first child of a process, or 0.
func child(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, _ := strconv.Atoi(first)
	return n
}

// output runs a program in the container and returns its output.
func (c *container) output(command ...string) (string, error) {
	args := []string{"--target", strconv.Itoa(c.init), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}
	out, err := exec.Command("nsenter", append(args, command...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c *container) run(command ...string) error {
	_, err := c.output(command...)
	return err
}

// property returns a property of the unit (org.freedesktop.systemd1).
func (c *container) property(name string) string {
	out, err := c.output("systemctl", "show", "sluice", "--property="+name, "--value")
	if err != nil {
		c.t.Fatalf("systemctl show: %v: %s", err, out)
	}
	return out
}

// await waits until a property of the unit has a value.
func (c *container) await(name, value string) {
	c.t.Helper()
	program.Until(c.t, name+"="+value, func() bool { return c.property(name) == value })
}

// write replaces the configuration.
func (c *container) write(text string) {
	c.t.Helper()
	write(c.t, fmt.Sprintf("/proc/%d/root/etc/sluice/sluice.yaml", c.init), text)
}

// status waits until the unit's status contains all words.
func (c *container) status(words ...string) {
	c.t.Helper()
	program.Until(c.t, fmt.Sprintf("the status to have %q", words), func() bool {
		text := c.property("StatusText")
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
}

// TestUnitStartsInAnyOrder boots before anything exists that is configured during a boot. The unit
// must be up, so that the boot continues, and each port must forward once its device is ready.
func TestUnitStartsInAnyOrder(t *testing.T) {
	const address = "192.0.2.1:9473"
	s := program.NewSite(t, 2)
	late, err := s.Lab.Namespace("late")
	if err != nil {
		t.Fatal(err)
	}
	mtu := func(bytes int) func(netlink.Link) error {
		return func(l netlink.Link) error { return netlink.LinkSetMTU(l, bytes) }
	}
	program.OnLink(t, s.Home, "port1", mtu(1400))
	program.OnLink(t, s.Home, "port2", netlink.LinkSetDown)
	c := boot(t, s.Home, "metrics: {listen: \""+address+"\"}\n"+threePorts, "")
	c.await("ActiveState", "active")
	program.Until(t, "the boot to end",
		func() bool { return c.run("systemctl", "is-active", "multi-user.target") == nil })
	c.status("ports up: 0 of 3, down: port1 port2 port3")
	program.OnLink(t, s.Home, "port1", mtu(1500))
	program.OnLink(t, s.Home, "port2", netlink.LinkSetUp)
	s.Veth(t, s.Home, "port3", late, program.HostDevice)
	if err := addAddress(s.Home, "lo", "192.0.2.1/32"); err != nil {
		t.Fatal(err)
	}
	c.status("lossless drops: 0, ports up: 3 of 3")
	crossing(t, s)
	program.Until(t, "metrics", func() bool {
		return bytes.Contains(getIn(clientIn(s.Home), "http://"+address+"/metrics"), []byte("\nsluice_up 1\n"))
	})
	if n := c.property("NRestarts"); n != "0" {
		t.Errorf("it took %s restarts", n)
	}
}

const threePorts = "ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}, {device: port3, speed: 1G}]\n"

const twoPorts = "ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]\n"

// forwards waits until the unit is active and its two ports forward.
func (c *container) forwards(s program.Site) {
	c.t.Helper()
	c.await("ActiveState", "active")
	c.status("lossless drops: 0, ports up: 2 of 2")
	crossing(c.t, s)
}

// TestUnitComesBack checks that systemd restarts the switch after any end, any number of times, and
// that the switch survives restarts of the journal.
func TestUnitComesBack(t *testing.T) {
	s := program.NewSite(t, 2)
	before := statesOf(t, s)
	c := boot(t, s.Home, twoPorts, "WatchdogSec=2\n")
	c.forwards(s)
	restarts := 0
	again := func(signal string) {
		t.Helper()
		if out, err := c.output("systemctl", "kill", "--kill-whom=main", "--signal="+signal, "sluice"); err != nil {
			t.Fatalf("%s: %v: %s", signal, err, out)
		}
		restarts++
		c.await("NRestarts", strconv.Itoa(restarts))
	}
	for range 8 { // more than systemd's default limit of 5 in 10 s
		again("KILL")
		c.await("ActiveState", "active")
	}
	c.forwards(s)
	for _, signal := range []string{"TERM", "STOP", "ABRT"} { // STOP triggers the watchdog; a crash ends with ABRT
		again(signal)
		c.forwards(s)
	}
	pid := c.property("MainPID")
	for range 2 {
		if out, err := c.output("systemctl", "kill", "--signal=KILL", "systemd-journald"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := c.output("systemctl", "reload", "sluice"); err != nil { // the switch logs each reload
			t.Errorf("reload: %v: %s", err, out)
		}
	}
	c.forwards(s)
	if now := c.property("MainPID"); now != pid {
		t.Errorf("process %s has become %s when its log was gone", pid, now)
	}
	if modes, err := c.output("stat", "--format=%a", afxdp.StateDirectory, "/run/sluice/sluice.sock"); err != nil ||
		modes != "700\n660" {
		t.Errorf("modes of the settings' directory and of the socket: %s, %v", modes, err)
	}
	if out, err := c.output("systemctl", "stop", "sluice"); err != nil || c.property("Result") != "success" {
		t.Errorf("stop: %v: %s: %s", err, out, c.property("Result"))
	}
	sameStates(t, before, statesOf(t, s))
}

// TestUnitRefusesConfiguration checks that an invalid configuration is neither reloaded nor started
// repeatedly.
func TestUnitRefusesConfiguration(t *testing.T) {
	s := program.NewSite(t, 2)
	c := boot(t, s.Home, twoPorts, "")
	c.forwards(s)
	c.write("ports: {}\n")
	if out, err := c.output("systemctl", "reload", "sluice"); err == nil {
		t.Errorf("a wrong configuration was reloaded: %s", out)
	}
	c.forwards(s)
	if err := c.run("systemctl", "restart", "sluice"); err == nil {
		t.Error("it started with a wrong configuration")
	}
	c.await("ActiveState", "failed")
	if status, n := c.property("ExecMainStatus"), c.property("NRestarts"); status != "2" || n != "0" {
		t.Errorf("with a wrong configuration: exit status %s, %s restarts", status, n)
	}
	c.write(twoPorts)
	if out, err := c.output("systemctl", "start", "sluice"); err != nil {
		t.Fatalf("start: %v: %s", err, out)
	}
	c.forwards(s)
}
