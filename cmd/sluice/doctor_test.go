package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/internal/doctor"
	"sluice/internal/report/show"
	"sluice/pmd/afxdp"
)

// These tests cause one problem on the machine, check that doctor finds it, apply the fix it
// prints, and run it again.

const (
	// smallSwitch takes 2 MiB, so that two ports stay within the usual limit of locked memory. It
	// has no control socket.
	smallSwitch = "metrics: {listen: none}\ncontrol: {socket: none}\nmemory: {buffers: 1024}\nports:\n  - {device: " +
		"port1, speed: 1G}\n  - {device: port2, speed: 1G}\n"
	nowhere = "/nonexistent/socket" // no switch listens there
	nobody  = 65534
)

// examination runs doctor in a given environment.
type examination struct {
	t    *testing.T
	home *netns.Namespace
	file string
	// prepare is a shell command that runs before doctor, in the same shell; env and user are those
	// of that shell.
	prepare string
	env     []string
	user    *syscall.Credential
	program string // default: this test's executable
	socket  string // default: nowhere
}

// shell runs a script in the namespace, as the user of the examination or else as root.
func (x *examination) shell(script string) *program.Running {
	x.t.Helper()
	c := exec.Command("sh", "-c", script)
	c.Env = append(append(os.Environ(), program.AsProgram+"=1"), x.env...)
	if x.user != nil {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: x.user}
	}
	return program.LaunchCommand(x.t, x.home, c)
}

func (x *examination) self() string {
	if x.program != "" {
		return x.program
	}
	self, err := os.Executable()
	if err != nil {
		x.t.Fatal(err)
	}
	return self
}

// report runs doctor. Its exit code must match its report.
func (x *examination) report() (r doctor.Report) {
	x.t.Helper()
	p := x.shell(fmt.Sprintf("%s\nexec %s doctor --json --socket %s -c %s", x.prepare, x.self(),
		cmp.Or(x.socket, nowhere), x.file))
	code := p.ExitCode()
	p.Document(&r)
	if want := min(r.Errors, 1); code != want {
		x.t.Errorf("exit code %d with %d errors", code, r.Errors)
	}
	return r
}

// finding runs doctor and returns the error about a subject.
func (x *examination) finding(subject string) doctor.Finding {
	x.t.Helper()
	r := x.report()
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool {
		return f.Subject == subject &&
			f.Status == doctor.Error
	})
	if i < 0 {
		x.t.Fatalf("no error about %s in %+v", subject, r)
	}
	f := r.Findings[i]
	x.t.Logf("%s: %s\n\tmend: %s %s", f.Subject, f.Text, f.Fix, f.At)
	return f
}

// well checks that doctor reports no error about a subject any more.
func (x *examination) well(subject string) {
	x.t.Helper()
	for _, f := range x.report().Findings {
		if f.Subject == subject && f.Status == doctor.Error {
			x.t.Errorf("still: %+v", f)
		}
	}
}

// fix runs a command as root.
func (x *examination) fix(command string) {
	x.t.Helper()
	p := program.LaunchCommand(x.t, x.home, exec.Command("sh", "-c", command))
	if code := p.ExitCode(); code != 0 {
		x.t.Fatalf("%s: exit code %d: %s", command, code, strings.Join(p.Log.All(), "\n"))
	}
}

// TestDoctorFixesDevices covers problems of a device.
func TestDoctorFixesDevices(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, program.Site){
		"program on a link": foreignProgram,
		"program":           netlinkProgram,
		"down": func(t *testing.T, s program.Site) {
			program.OnLink(t, s.Home, "port2",
				netlink.LinkSetDown)
		},
		"MTU too small": func(t *testing.T, s program.Site) {
			program.OnLink(t, s.Home, "port2", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1000) })
		},
		"MTU too large": func(t *testing.T, s program.Site) {
			program.OnLink(t, s.Home, "port2", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 40000) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := program.NewSite(t, 2)
			x := &examination{t: t, home: s.Home, file: readable(t, smallSwitch)}
			x.well("port2")
			spoil(t, s)
			f := x.finding("port2")
			if tool, _, _ := strings.Cut(f.Fix, " "); exec.Command(tool).Err != nil {
				t.Skipf("needs %s: it is what the doctor says", tool)
			}
			x.fix(f.Fix)
			x.well("port2")
			program.StartSwitch(t, s.Home, smallSwitch).Stop()
		})
	}
}

// TestDoctorFixesNamesOfShells checks that fixes quote any device name for the shell.
func TestDoctorFixesNamesOfShells(t *testing.T) {
	const name = "p;$(id)'\"&"
	s := program.NewSite(t, 2)
	if err := s.Lab.Veth(s.Home, name, s.Hosts[0], "other"); err != nil {
		t.Fatal(err)
	}
	program.OnLink(t, s.Home, name, netlink.LinkSetDown)
	x := &examination{t: t, home: s.Home, file: readable(t, strings.Replace(smallSwitch, "port2", "'p;$(id)''\"&'", 1))}
	x.fix(x.finding(name).Fix)
	x.well(name)
}

// TestDoctorBesideChangedDevice changes the settings of a device that a running switch has open: it
// puts them back, and then the doctor has nothing to say.
func TestDoctorBesideChangedDevice(t *testing.T) {
	if exec.Command("ethtool").Err != nil {
		t.Skip("needs ethtool: it changes the settings")
	}
	s := program.NewSite(t, 2, netns.Queues(2))
	socket := program.SocketPath(t)
	text := strings.Replace(smallSwitch, "socket: none", "socket: "+socket, 1)
	p := program.StartSwitch(t, s.Home, text)
	x := &examination{t: t, home: s.Home, file: readable(t, text), socket: socket}
	for _, spoil := range []string{"ethtool -K port2 gro on", "ethtool -L port2 rx 2 tx 2"} {
		before := x.report()
		x.fix(spoil)
		program.Until(t, "the switch to put back what "+spoil+" has changed", func() bool {
			return len(fixesOf(x.report(), before)) == 0
		})
	}
	p.Stop()
}

// fixesOf returns the fixes in a report that are not in an earlier one.
func fixesOf(r, before doctor.Report) (fixes []string) {
	for _, f := range r.Findings {
		known := slices.ContainsFunc(before.Findings, func(b doctor.Finding) bool { return b.Fix == f.Fix })
		if f.At == "" && !known {
			fixes = append(fixes, f.Fix)
		}
	}
	return fixes
}

// TestDoctorOfOthers runs doctor as a user who may neither use the control socket nor see the
// switch's programs. Doctor must say so, and must not disturb the switch or call its programs
// foreign.
func TestDoctorOfOthers(t *testing.T) {
	s := program.NewSite(t, 2)
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(directory, "socket")
	text := strings.Replace(smallSwitch, "socket: none", "socket: "+socket, 1)
	p := program.StartSwitch(t, s.Home, text)
	x := &examination{t: t, home: s.Home, file: readable(t, text), socket: socket, program: copyOfTest(t),
		user: &syscall.Credential{Uid: nobody, Gid: nobody}}
	for _, test := range []struct{ socket, about, say string }{
		{socket, "switch", "only root and its group"}, {socket, "port1", "only root can see"},
		{nowhere, "port1", "only root can see"},
	} {
		x.socket = test.socket
		r := x.report()
		said := false
		for _, f := range r.Findings {
			said = said || f.Subject == test.about && strings.Contains(f.Text, test.say)
			if strings.Contains(f.Text, "half a second") || strings.HasPrefix(f.Fix, "kill") ||
				strings.Contains(f.Fix, "xdp") {
				t.Errorf("%+v", f)
			}
		}
		if !said {
			t.Errorf("%q is not said about %s in %+v", test.say, test.about, r)
		}
	}
	p.Stop()
}

// TestDoctorBesideAnotherSwitch checks that doctor does not disturb a switch with other devices
// that polls on the same CPU.
func TestDoctorBesideAnotherSwitch(t *testing.T) {
	s := program.NewSite(t, 4)
	p := program.StartSwitch(t, s.Home, smallSwitch)
	x := &examination{t: t, home: s.Home,
		file: readable(t, strings.NewReplacer("port1", "port3", "port2", "port4").Replace(smallSwitch))}
	said := false
	for _, f := range x.report().Findings {
		said = said || strings.Contains(f.Text, fmt.Sprintf("would disturb process %d", p.Process.Pid))
	}
	if !said {
		t.Error("the switch is not seen")
	}
	p.Stop()
}

// TestDoctorOfUses covers devices that the machine itself uses.
func TestDoctorOfUses(t *testing.T) {
	s := program.NewSite(t, 2)
	x := &examination{t: t, home: s.Home, file: readable(t, smallSwitch)}
	before := x.report()
	x.fix("ip addr add 192.0.2.1/24 dev port1 && ip link add br0 type bridge && ip link set dev port2 master br0")
	after := x.report()
	if !strings.Contains(fmt.Sprint(after), "192.0.2.1/24") {
		t.Errorf("the address is not seen: %+v", after)
	}
	fixes := fixesOf(after, before)
	if len(fixes) != 1 {
		t.Fatalf("%q", fixes)
	}
	x.fix(fixes[0])
	if left := fixesOf(x.report(), before); len(left) > 0 {
		t.Errorf("after %s: still %q", fixes[0], left)
	}
}

// netlinkProgram attaches a foreign XDP program through netlink, as ip link does.
func netlinkProgram(t *testing.T, s program.Site) {
	xdp, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebody_elses", Type: ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer xdp.Close()
	program.OnLink(t, s.Home, "port2", func(l netlink.Link) error {
		return netlink.LinkSetXdpFdWithFlags(l, xdp.FD(), unix.XDP_FLAGS_SKB_MODE)
	})
}

// TestDoctorFixesHugepages applies the fix for missing hugepages, and restores their number.
func TestDoctorFixesHugepages(t *testing.T) {
	const count = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	s := program.NewSite(t, 2)
	before, err := os.ReadFile(count)
	if err != nil {
		t.Skipf("needs a kernel with hugepages of 2 MiB: %v", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(count, before, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(count, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(smallSwitch, "1024", "1024, buffer_size: 8192B", 1)
	x := &examination{t: t, home: s.Home, file: readable(t, text)}
	f := x.finding("hugepages")
	x.fix(f.Fix)
	for _, f = range x.report().Findings {
		if f.Subject == "hugepages" && f.Status == doctor.Error { // this kernel does not support such buffers
			t.Logf("%s\n\tmend: %s %s", f.Text, f.Fix, f.At)
			text = replaceAt(t, text, f.At, regexp.MustCompile(`buffer_size: [^,}]*`), f.Fix)
			x.file = readable(t, text)
		}
	}
	x.well("hugepages")
	program.StartSwitch(t, s.Home, text).Stop()
}

// TestDoctorFixesMemlock lowers the limit of locked memory in a shell that may raise it again.
func TestDoctorFixesMemlock(t *testing.T) {
	s := program.NewSite(t, 2)
	x := &examination{t: t, home: s.Home, file: readable(t, smallSwitch), prepare: "ulimit -S -l 64",
		env: []string{without + "=" + ipcLock}}
	f := x.finding("memlock")
	x.prepare += "\n" + f.Fix
	x.well("memlock")
	p := x.shell(x.prepare + "\nexec " + x.self() + " run -c " + x.file)
	p.Await(1, "msg=forwarding")
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestDoctorFixesCapabilities runs a copy of the program as the user nobody.
func TestDoctorFixesCapabilities(t *testing.T) {
	s := program.NewSite(t, 2)
	if exec.Command("setcap").Err != nil {
		t.Skip("needs setcap: it is what the doctor says")
	}
	x := &examination{t: t, home: s.Home, file: readable(t, smallSwitch), program: copyOfTest(t),
		user: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := afxdp.MakeStateDirectory(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(os.Chown(afxdp.RunDirectory, 0, 0), os.Chown(afxdp.StateDirectory, 0, 0)); err != nil {
			t.Error(err)
		}
	})
	for _, subject := range []string{"capabilities", afxdp.RunDirectory} {
		x.fix(x.finding(subject).Fix)
		x.well(subject)
	}
	p := x.shell("exec " + x.program + " run -c " + x.file)
	p.Await(1, "msg=forwarding")
	p.Await(1, "msg=confined")
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// copyOfTest copies this executable to a place where every user may run it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(t.TempDir(), "sluice")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close(), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDoctorFixesHeadroom applies doctor's fixes to the configuration: first for headroom that is
// too small for the loop's gaps on this machine, then for headroom that is too small on any. At
// 100M, pauses are long enough for any gap.
func TestDoctorFixesHeadroom(t *testing.T) {
	const lossless = "classes: [{cos: [3], lossless: true, name: storage}]\n"
	s := program.NewSite(t, 2)
	text := strings.NewReplacer("1024", "8388608", "1G}", "100M, response: 1us}").Replace(smallSwitch) + lossless
	x := &examination{t: t, home: s.Home}
	for mended := 0; ; mended++ { // each port has its own line, and measurements vary
		x.file = readable(t, text)
		r := x.report()
		i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return strings.HasPrefix(f.Fix, "response: ") })
		if i < 0 {
			if mended == 0 {
				t.Errorf("mended after %d lines", mended)
			}
			break
		}
		f := r.Findings[i]
		t.Logf("%s: %s\n\tmend: %s %s", f.Subject, f.Text, f.Fix, f.At)
		if f.Status != doctor.Error || mended > 20 {
			t.Fatalf("after %d lines: %+v", mended, f)
		}
		text = replaceAt(t, text, f.At, regexp.MustCompile(`response: [^,}]*`), f.Fix)
	}
	x.file = readable(t, strings.Replace(text, "name: storage", "headroom: 4096B", 1))
	f := x.finding("configuration")
	size, _, _ := strings.Cut(strings.TrimPrefix(f.Fix, "raise it to "), " ")
	x.file = readable(t, strings.Replace(text, "name: storage", "headroom: "+size, 1))
	x.well("configuration")
}

// replaceAt replaces the match of a pattern in the line at the position file:line:column.
func replaceAt(t *testing.T, text, at string, what *regexp.Regexp, with string) string {
	t.Helper()
	parts := strings.Split(at, ":")
	n, err := strconv.Atoi(parts[len(parts)-2])
	lines := strings.SplitAfter(text, "\n")
	if err != nil || n < 1 || n > len(lines) || !what.MatchString(lines[n-1]) {
		t.Fatalf("%s is no line of\n%s", at, text)
	}
	lines[n-1] = what.ReplaceAllString(lines[n-1], with)
	return strings.Join(lines, "")
}

// TestDoctorBesideSwitch examines a running switch, found through the configuration or through its
// socket. The link partner of port 2 sends a PFC frame as doctor recommends.
func TestDoctorBesideSwitch(t *testing.T) {
	s := program.NewSite(t, 2)
	socket := program.SocketPath(t)
	text := strings.Replace(smallSwitch, "socket: none", "socket: "+socket, 1) +
		"classes: [{cos: [3], lossless: true}]\n"
	text = strings.ReplaceAll(strings.Replace(text, "1024", "32768", 1), "1G", "100M")
	p := program.StartSwitch(t, s.Home, text)
	partner := program.Lab(t, s.Hosts[1], "gen", "-d", program.HostDevice, "--mode", "rxonly", "--inject", "3:1",
		"--duration", "1s")
	if code := partner.ExitCode(); code != 0 {
		t.Fatalf("the link partner ends with %d", code)
	}
	if err := os.WriteFile(p.Args[slices.Index(p.Args, "-c")+1], []byte("by now something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-c", readable(t, text)}, {"--socket", socket}} {
		d := program.Launch(t, s.Home, append([]string{"doctor", "--json"}, flags...)...)
		d.ExitCode()
		var r doctor.Report
		d.Document(&r)
		found := map[string]string{}
		for _, f := range r.Findings {
			found[f.Subject] += f.Text + "\n"
		}
		for subject, words := range map[string]string{"switch": "dropped no lossless frame",
			"port2": "belongs to the switch\n"} {
			if !strings.Contains(found[subject], words) {
				t.Errorf("%v: %q is not said about %s", flags, words, subject)
			}
		}
		for _, words := range []string{"open in mode copy (native)", "no PFC frame",
			"of headroom; with the longest wait of", "(in the last ten minutes)"} {
			if !strings.Contains(found["port1"], words) {
				t.Errorf("%v: %q is not said about port1", flags, words)
			}
		}
		if !strings.Contains(found["port2"], "has received 1 PFC frames of its link partner") {
			t.Errorf("%v: the frame of port2's partner is not told of", flags)
		}
		if strings.Contains(fmt.Sprint(found), "just measured") {
			t.Error("beside a switch that runs, something was measured")
		}
	}
	p.Stop()
}

// TestDoctorOfASwitchThatNobodyCanAsk checks a configuration without a control socket.
func TestDoctorOfASwitchThatNobodyCanAsk(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.Launch(t, s.Home, "doctor", "-c", readable(t, smallSwitch))
	p.ExitCode()
	if text := p.Output.String(); !strings.Contains(text, "no switch answers") {
		t.Error(text)
	}
}

// TestDoctorText checks the report in text form.
func TestDoctorText(t *testing.T) {
	s := program.NewSite(t, 2)
	program.OnLink(t, s.Home, "port2", netlink.LinkSetDown)
	p := program.Launch(t, s.Home, "doctor", "--socket", nowhere, "-c", readable(t, smallSwitch))
	if code := p.ExitCode(); code != cli.ExitFailure {
		t.Errorf("exit code %d", code)
	}
	text := p.Output.String()
	t.Log(text)
	for _, words := range []string{"ok       kernel ", "error    port2 ", "fix: ip link set dev port2 up\n",
		"errors: 1, warnings: "} {
		if !strings.Contains(text, words) {
			t.Errorf("%q is missing", words)
		}
	}
}

// TestDoctorFixesThePeer checks that `show ports` says why the transmitter does not send on a port,
// and that doctor has a fix for it, before the start and beside a running switch.
func TestDoctorFixesThePeer(t *testing.T) {
	if exec.Command("ethtool").Err != nil || exec.Command("nsenter").Err != nil {
		t.Skip("needs ethtool and nsenter: they are what the doctor says")
	}
	s := program.NewSite(t, 2)
	socket := program.SocketPath(t)
	text := strings.NewReplacer("socket: none", "socket: "+socket, "speed",
		"tx: resident, speed").Replace(smallSwitch) +
		"transmitter: {cpu: worker}\n"
	x := &examination{t: t, home: s.Home, file: readable(t, text), socket: socket}
	x.fix(x.peerFix("port1"))
	p := program.StartSwitch(t, s.Home, text)
	for port, want := range map[string][]string{
		"port1": {"copy (native) resident"},
		"port2": {"copy (native) xsk", "port2: its socket sends instead of the transmitter: the device accepts " +
			"no frames"},
	} {
		shown := x.showPorts(socket)
		for _, words := range want {
			if !strings.Contains(strings.Join(strings.Fields(shown), " "), words) {
				t.Errorf("%s: no %q in\n%s", port, words, shown)
			}
		}
	}
	fix := x.peerFix("port2")
	x.fix(fix)
	program.Until(t, "port2 to be the transmitter's",
		func() bool { return strings.Count(x.showPorts(socket), "  resident\n") == 2 })
	r := x.report()
	if i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool {
		return f.Subject == "port2" &&
			f.Text == "the transmitter sends"
	}); i < 0 {
		t.Errorf("after %s: %+v", fix, r)
	}
	for _, f := range r.Findings {
		if f.Subject == "transmitter" {
			t.Logf("%s: %s", f.Status, f.Text)
		}
	}
	p.Stop()
}

// peerFix returns doctor's command for the peer of a port.
func (x *examination) peerFix(port string) string {
	x.t.Helper()
	for _, f := range x.report().Findings {
		if f.Subject == port && f.Status == doctor.Warning && strings.Contains(f.Text, "GRO on") {
			x.t.Logf("%s: %s\n\tmend: %s", f.Subject, f.Text, f.Fix)
			return f.Fix
		}
	}
	x.t.Fatalf("nothing about the peer of %s", port)
	return ""
}

// showPorts returns the output of `sluice show ports`, whose lines must fit 80 columns.
func (x *examination) showPorts(socket string) string {
	x.t.Helper()
	p := program.Launch(x.t, nil, "show", "ports", "--socket", socket)
	if code := p.ExitCode(); code != 0 {
		x.t.Fatalf("exit code %d: %s", code, strings.Join(p.Log.All(), "\n"))
	}
	text := p.Output.String()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line) - 1; n > show.Width {
			x.t.Errorf("%d columns: %s", n, line)
		}
	}
	return text
}

// TestNoTransmitter checks that a switch whose transmitter can't run sends through sockets instead,
// and says why.
func TestNoTransmitter(t *testing.T) {
	s := program.NewSite(t, 2)
	socket := program.SocketPath(t)
	p := program.StartSwitch(t, s.Home, strings.Replace(smallSwitch, "socket: none", "socket: "+socket, 1)+
		"transmitter: {cpu: 4000}\n")
	x := &examination{t: t, home: s.Home}
	shown := strings.Join(strings.Fields(x.showPorts(socket)), " ")
	for _, words := range []string{"copy (native) xsk",
		"port2: its socket sends instead of the transmitter: transmitter: CPU 4000: invalid argument"} {
		if !strings.Contains(shown, words) {
			t.Errorf("no %q in %s", words, shown)
		}
	}
	p.Stop()
}
