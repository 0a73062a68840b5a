package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/internal/linux/confine"
	"sluice/pmd/afxdp"
)

// statusOf returns the named lines of /proc/PID/status for each thread of a process.
func statusOf(t *testing.T, pid int, names ...string) (threads []map[string]string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		status := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			for _, n := range names {
				if n == name {
					status[n] = strings.TrimSpace(value)
				}
			}
		}
		threads = append(threads, status)
	}
	return threads
}

// checkConfined checks that all threads of a switch have exactly the privileges it needs.
func checkConfined(t *testing.T, pid int) {
	t.Helper()
	mask := uint64(0)
	for _, c := range confine.Needs {
		mask |= 1 << c.Number
	}
	const none = "0000000000000000"
	want := map[string]string{
		"CapInh": none, "CapPrm": fmt.Sprintf("%016x", mask), "CapEff": fmt.Sprintf("%016x", mask), "CapBnd": none,
		"CapAmb":     none,
		"NoNewPrivs": "1", "Seccomp": "2",
	}
	threads := statusOf(t, pid, "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
	t.Logf("%d threads, the first: %v", len(threads), threads[0])
	for _, status := range threads {
		for name, value := range want {
			if status[name] != value {
				t.Errorf("a thread has %s %s, want %s", name, status[name], value)
			}
		}
	}
}

// napiOf returns the settings by which a device defers interrupts.
func napiOf(t *testing.T, n *netns.Namespace, device string) (settings string) {
	t.Helper()
	err := n.Do(func() error {
		sysfs, err := afxdp.Sysfs()
		if err != nil {
			return err
		}
		for _, name := range []string{"napi_defer_hard_irqs", "gro_flush_timeout"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/class/net/%s/%s", sysfs.Fd(), device, name))
			if err != nil {
				return err
			}
			settings += strings.TrimSpace(string(text)) + " "
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

// crossing sends frames between two hosts in both directions, and returns when each host has
// received one.
func crossing(t *testing.T, s program.Site) {
	t.Helper()
	one, two := newSocket(t, s.Hosts[0]), newSocket(t, s.Hosts[1])
	defer one.close()
	defer two.close()
	a, b := hostMAC(1), hostMAC(2)
	for range 10 {
		one.say(a, b)
		two.say(b, a)
	}
	one.hear(1, a)
	two.hear(1, b)
}

// TestConfined runs a confined switch, replaces one of its devices, ends the switch, and checks
// that the devices are restored.
func TestConfined(t *testing.T) {
	s := program.NewSite(t, 2, netns.Queues(2))
	before, files := statesOf(t, s), program.Remembered(t, s)
	p := program.StartSwitch(t, s.Home, smallSwitch)
	p.Await(1, "msg=confined")
	checkConfined(t, p.Process.Pid)
	crossing(t, s)
	program.OnLink(t, s.Home, "port2", netlink.LinkDel)
	p.Await(1, `msg="port closed" port=port2`)
	if err := s.Lab.Veth(s.Home, "port2", s.Hosts[1], program.HostDevice, netns.Queues(2)); err != nil {
		t.Fatal(err)
	}
	p.Await(2, `msg="link changed" port=port2 up=true`)
	crossing(t, s)
	checkConfined(t, p.Process.Pid)
	p.Stop()
	checkRestored(t, s, before, files)
}

// TestConfinedBusyPortComes adds by reload a port that can't have busy polling, since veth copies.
// It stays down, says why, and its device is restored.
func TestConfinedBusyPortComes(t *testing.T) {
	const onePort = "metrics: {listen: none}\ncontrol: {socket: none}\nmemory: {buffers: 131072}\nports:\n  - " +
		"{device: port1, speed: 1G}\n"
	s := program.NewSite(t, 2, netns.Queues(2))
	before, file := napiOf(t, s.Home, "port2"), readable(t, onePort)
	p := program.Launch(t, s.Home, "run", "-c", file)
	p.Await(1, "msg=confined")
	write(t, file, onePort+"  - {device: port2, speed: 1G, busy_poll: true}\n")
	p.Signal(unix.SIGHUP)
	p.Await(1, "port stays down", "port=port2", "remove busy_poll: true")
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 || napiOf(t, s.Home, "port2") != before {
		t.Errorf("exit code %d, and interrupts are put off by %q, at first by %q", code, napiOf(t, s.Home, "port2"),
			before)
	}
}

// TestConfinedFromConfiguration checks that a confined switch warns if it can no longer read a file
// that it could only read with a capability. A file that replaces it can be read.
func TestConfinedFromConfiguration(t *testing.T) {
	s := program.NewSite(t, 2)
	file := readable(t, smallSwitch)
	if err := errors.Join(os.Chown(file, nobody, nobody), os.Chmod(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	p := program.Launch(t, s.Home, "run", "-c", file)
	p.Await(1, "level=WARN", "every reload will fail", "permission denied")
	p.Signal(unix.SIGHUP)
	p.Await(1, "configuration not reloaded", "permission denied")
	write(t, file, smallSwitch)
	p.Signal(unix.SIGHUP)
	p.Await(1, "configuration reloaded")
	directory := filepath.Dir(file)
	if err := errors.Join(os.Rename(directory, directory+".old"), os.Mkdir(directory, 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, file, smallSwitch)
	p.Signal(unix.SIGHUP)
	p.Await(1, "configuration not reloaded", "permission denied", "restart the switch")
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestConfinedServesMetrics uses a web_config in another directory, which is read for each request.
func TestConfinedServesMetrics(t *testing.T) {
	s := program.NewSite(t, 2)
	web := filepath.Join(t.TempDir(), "web.yaml")
	certificate := filepath.Join(t.TempDir(), "certificate.pem")
	if err := os.WriteFile(web, []byte("tls_server_config: {cert_file: "+certificate+", key_file: key.pem}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if files := filesOfWeb(web); !slices.Equal(files,
		[]string{web, certificate, filepath.Join(filepath.Dir(web), "key.pem")}) {
		t.Errorf("%s: reads %q", web, files)
	}
	if err := os.WriteFile(web, []byte("basic_auth_users: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := program.StartSwitch(t, s.Home,
		strings.Replace(smallSwitch, "none", fmt.Sprintf("%q, web_config: %s", metricsAddress, web), 1))
	p.Await(1, "msg=confined")
	if body := getIn(clientIn(s.Home), "http://"+metricsAddress+"/metrics"); !bytes.Contains(body,
		[]byte("\nsluice_up 1\n")) {
		t.Errorf("%s", body)
	}
	p.Stop()
}

// TestSharedDirectory checks that check and run warn of a configuration among files that are not
// the switch's, and work nevertheless.
func TestSharedDirectory(t *testing.T) {
	if notes := sharedNotes([]string{"/", "/etc", "/etc/sluice", t.TempDir()}); len(notes) != 2 {
		t.Errorf("%q, want a note for / and one for /etc", notes)
	}
	s := program.NewSite(t, 2)
	for _, shared := range []bool{false, true} {
		file := readable(t, smallSwitch)
		directory := filepath.Dir(file)
		if shared {
			if err := os.Chmod(directory, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		note := "can read everything in " + directory
		var r checkDocument
		if check(t, "-c", file, "--json").Document(&r); strings.Contains(strings.Join(r.Notes, "\n"), note) != shared {
			t.Errorf("shared: %t, notes %q", shared, r.Notes)
		}
		p := program.Launch(t, s.Home, "run", "-c", file)
		p.Await(1, "msg=confined")
		if log := strings.Join(p.Log.All(), "\n"); strings.Contains(log, note) != shared {
			t.Errorf("shared: %t, in the log:\n%s", shared, log)
		}
		p.Signal(unix.SIGTERM)
		if code := p.ExitCode(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestNotConfined checks that --no-confine keeps all privileges and logs a warning.
func TestNotConfined(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.Launch(t, s.Home, "run", "--no-confine", "-c", readable(t, smallSwitch))
	p.Await(1, "level=WARN", "NOT CONFINED", "--no-confine")
	p.Await(1, "msg=forwarding")
	for _, status := range statusOf(t, p.Process.Pid, "CapEff", "Seccomp") {
		own := statusOf(t, os.Getpid(), "CapEff", "Seccomp")[0]
		if fmt.Sprint(status) != fmt.Sprint(own) {
			t.Errorf("%v, want as this process: %v", status, own)
		}
	}
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestLogFlags checks the JSON log format and the log level.
func TestLogFlags(t *testing.T) {
	s := program.NewSite(t, 2)
	for _, test := range []struct {
		flags      []string
		want, none string
	}{
		{[]string{"--log-format", "json"}, `"msg":"forwarding"`, "msg="},
		{[]string{"--log-level", "error"}, "", "forwarding"},
	} {
		p := program.Launch(t, s.Home, append([]string{"run", "-c", readable(t, smallSwitch)}, test.flags...)...)
		if test.want != "" {
			p.Await(1, test.want)
		} else {
			program.Until(t, "the ports to be open", func() bool { return stateOf(t, s.Home, "port2").Program != 0 })
		}
		p.Signal(unix.SIGTERM)
		p.ExitCode()
		if log := strings.Join(p.Log.All(), "\n"); strings.Contains(log, test.none) {
			t.Errorf("%v: the log has %q:\n%s", test.flags, test.none, log)
		}
	}
	checkRefusal(t, program.Launch(t, s.Home, "run", "--log-format", "xml", "-c", readable(t, smallSwitch)),
		cli.ExitUsage, []string{"xml", "text or json"})
}
