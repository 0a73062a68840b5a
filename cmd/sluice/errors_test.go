package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// without is an environment variable, used beside program.AsProgram, that makes the program start
// with a restriction.
const (
	without      = "SLUICE_TEST_WITHOUT"
	root         = "root"         // runs as nobody
	capabilities = "capabilities" // runs as root without CAP_NET_ADMIN and others, as in a container
	afXDP        = "AF_XDP"       // runs on a kernel without AF_XDP
	ipcLock      = "ipc_lock"     // runs as root with a limit on locked memory
)

func init() {
	var err error
	switch os.Getenv(without) {
	case root:
		err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
	case capabilities:
		err = dropCapabilities(unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_BPF, unix.CAP_NET_RAW)
	case ipcLock:
		err = dropCapabilities(unix.CAP_IPC_LOCK)
	case afXDP:
		err = refuseSockets(unix.AF_XDP)
	}
	if err != nil {
		panic(err)
	}
}

// dropCapabilities executes the program again without some capabilities.
func dropCapabilities(list ...uintptr) error {
	for _, c := range list {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	if err := os.Unsetenv(without); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

// TestRefusals causes one error at a time. Each must produce a helpful message and leave no trace
// on the devices.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name    string
		text    string   // default: good
		without string   // what the program lacks
		code    int      // default: 1
		say     []string // what the message must contain
	}{
		{name: "not root", without: root, say: []string{"sluice.yaml:2:", "port1", "permission denied", "run as root",
			"CAP_NET_ADMIN"}},
		{name: "no capabilities", without: capabilities, say: []string{"sluice.yaml:2:", "port1", "permission denied",
			"run as root", "CAP_NET_ADMIN"}},
		{name: "no AF_XDP", without: afXDP, say: []string{"sluice.yaml:2:", "port1", "no AF_XDP sockets",
			"CONFIG_XDP_SOCKETS"}},
		{name: "configured MTU", text: strings.Replace(good, "1G}", "1G, mtu: 9501}", 1), code: cli.ExitConfiguration,
			say: []string{"sluice.yaml:2:37", `mtu "9501"`, "from 68 to 9500"}},
		{name: "configured cell", text: "memory: {cell: 2048B}\n" + strings.Replace(good, "1G}", "1G, mtu: 9000}", 1),
			code: cli.ExitConfiguration, say: []string{"sluice.yaml:1:16", "cell of 2048 bytes", "mtu of port port1",
				"at most 1664B"}},
		{name: "unknown key", text: strings.Replace(good, "1G}", "1G, mtuu: 1500}", 1), code: cli.ExitConfiguration,
			say: []string{"sluice.yaml:2:32", `"mtuu"`, "is not a key", `did you mean "mtu"?`}},
		{name: "device twice", text: strings.Replace(good, "port2", "port1", 1), code: cli.ExitConfiguration,
			say: []string{"sluice.yaml:3:14", "port1", "already a port", "line 2", "another device"}},
		{name: "no such CPU", text: "workers: [4000]\n" + good, say: []string{"sluice.yaml:1:10", "CPU 4000",
			"may use CPUs [", "online"}},
		{name: "too little memory", text: "memory: {buffers: 256}\n" + good, code: cli.ExitConfiguration,
			say: []string{"sluice.yaml:1:", "256 buffers", "raise buffers to", "or lower"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := program.NewSite(t, 2)
			before, files := statesOf(t, s), program.Remembered(t, s)
			if test.text == "" {
				test.text = good
			}
			if test.code == 0 {
				test.code = cli.ExitFailure
			}
			t.Setenv(without, test.without)
			p := program.Launch(t, s.Home, "run", "-c", readable(t, test.text+"control: {socket: none}\n"))
			checkRefusal(t, p, test.code, test.say)
			if p.Output.Len() > 0 {
				t.Errorf("on standard output: %s", &p.Output)
			}
			checkRestored(t, s, before, files)
		})
	}
}

// good is a configuration of a switch with two ports.
const good = "ports:\n  - {device: port1, speed: 1G}\n  - {device: port2, speed: 1G}\n"

// TestDeviceCannotBeOpened checks that the switch starts without the device, forwards between its
// other ports, and logs a fix.
func TestDeviceCannotBeOpened(t *testing.T) {
	on := func(do func(netlink.Link) error) func(*testing.T, program.Site) {
		return func(t *testing.T, s program.Site) { program.OnLink(t, s.Home, "port2", do) }
	}
	for _, test := range []struct {
		name  string
		spoil func(*testing.T, program.Site)
		say   []string // what a log line must contain
	}{
		{"it has a program", foreignProgram, []string{"port stays down", "sluice.yaml:3:14", "port2",
			"somebody_elses", "id ", "stop its owner", "ip link set dev port2 xdp off"}},
		{"it is down", on(netlink.LinkSetDown), []string{"port waits", "sluice.yaml:3:14", "port2", "is set down",
			"ip link set dev port2 up"}},
		{"its MTU is too large", on(func(l netlink.Link) error { return netlink.LinkSetMTU(l, 40000) }),
			[]string{"port stays down", "sluice.yaml:3:14", "port2", "MTU 40000", "ip link set dev port2 mtu 29934",
				"larger buffers"}},
		{"its MTU is too small", on(func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1400) }),
			[]string{"port stays down", "sluice.yaml:3:", "port2", "1400", "ip link set dev port2 mtu 1500"}},
		{"it is in use", func(t *testing.T, s program.Site) {
			other := program.StartSwitch(t, s.Home, strings.Replace(good, "  - {device: port1, speed: 1G}\n", "", 1))
			t.Cleanup(func() { other.Stop() })
		}, []string{"port stays down", "sluice.yaml:3:14", "port2", "in use", "stop that process first"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := program.NewSite(t, 2)
			test.spoil(t, s)
			before, files := statesOf(t, s), program.Remembered(t, s)
			p := program.Launch(t, s.Home, "run", "-c", readable(t, program.WithSocket(t, good)))
			p.Await(1, test.say...)
			p.Await(1, "msg=forwarding")
			p.Await(1, `msg="link changed"`, "port=port1", "up=true")
			p.Signal(unix.SIGTERM)
			if code := p.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			checkRestored(t, s, before, files)
		})
	}
}

// readable writes a configuration that every user may read.
func readable(t *testing.T, text string) string {
	t.Helper()
	directory := t.TempDir()
	file := filepath.Join(directory, "sluice.yaml")
	if err := errors.Join(os.Chmod(filepath.Dir(directory), 0o755),
		os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}

// beginning matches the start of an error message after the log: the usual one, or one about a
// configuration.
var beginning = regexp.MustCompile(`(?m)^(sluice: |\S+:\d+:\d+: )`)

// checkRefusal checks that a program ended with an exit code, and with a message after its log that
// says why.
func checkRefusal(t *testing.T, p *program.Running, code int, say []string) {
	t.Helper()
	if got := p.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	log, message := strings.Join(p.Log.All(), "\n"), ""
	if at := beginning.FindStringIndex(log); at != nil {
		log, message = log[:at[0]], log[at[0]:]
	}
	t.Log(message)
	if message == "" || strings.Contains(message, "goroutine ") || strings.Contains(message, "\ntime=") {
		t.Errorf("the message does not come last, or a crash does:\n%s", log)
	}
	for _, words := range say {
		if !strings.Contains(message, words) {
			t.Errorf("%q is not in the message", words)
		}
	}
}

// foreignProgram attaches an XDP program that is not the switch's.
func foreignProgram(t *testing.T, s program.Site) {
	xdp, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebody_elses", Type: ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { xdp.Close() })
	program.OnLink(t, s.Home, "port2", func(l netlink.Link) error {
		attached, err := link.AttachXDP(link.XDPOptions{Program: xdp, Interface: l.Attrs().Index})
		if err == nil {
			t.Cleanup(func() { attached.Close() })
		}
		return err
	})
}

// TestWrongCalls runs command lines that are invalid on any machine.
func TestWrongCalls(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		say  []string
	}{
		{[]string{"run"}, cli.ExitUsage, []string{"config"}},
		{[]string{"run", "-c", "/nowhere/sluice.yaml"}, cli.ExitNoInput,
			[]string{"/nowhere/sluice.yaml", "no such file", "examples/"}},
		{[]string{"run", "-c", "/"}, cli.ExitNoInput, []string{"/", "directory"}},
		{[]string{"doctor", "-c", "/nowhere/sluice.yaml"}, cli.ExitNoInput,
			[]string{"/nowhere/sluice.yaml", "no such file", "examples/"}},
		{[]string{"rnu"}, cli.ExitUsage, []string{`"rnu"`, "run"}},
		{[]string{"run", "--confine"}, cli.ExitUsage, []string{"--confine"}},
		{[]string{"run", "-c", "/nowhere/sluice.yaml", "more"}, cli.ExitUsage, []string{`"more"`}},
		{[]string{"run", "-c", "/nowhere/sluice.yaml", "--log-level", "all"}, cli.ExitUsage, []string{"--log-level"}},
		{[]string{"storm", "up"}, cli.ExitUsage, []string{`"up"`}},
		{[]string{"storm", "on", "port1", "--cos", "9"}, cli.ExitUsage, []string{"--cos 9", "0 to 7"}},
		{[]string{"storm", "off", "port1", "--cos", "3,-1"}, cli.ExitUsage, []string{"--cos -1", "0 to 7"}},
		{[]string{"clear", "fdb", "--vlan", "5000"}, cli.ExitUsage,
			[]string{"--vlan 5000", "1 to 4094", "leave --vlan out"}},
		{[]string{"clear", "fdb", "--vlan", "0"}, cli.ExitUsage, []string{"--vlan 0", "1 to 4094"}},
		{[]string{"clear", "fdb", "--port="}, cli.ExitUsage, []string{"--port is empty", "name a port"}},
		{[]string{"capture", "--json", "-w", "-"}, cli.ExitUsage, []string{"--json and -w -", "capture to a file"}},
		{[]string{"headroom", "--speed", "10"}, cli.ExitUsage, []string{"1M to 400G"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			checkRefusal(t, program.Launch(t, nil, test.args...), test.code, test.say)
		})
	}
}
