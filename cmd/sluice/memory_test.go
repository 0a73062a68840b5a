package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// limitedGroup creates a control group, of version 1 or 2, with a memory limit in bytes.
func limitedGroup(t *testing.T, bytes string) limited {
	t.Helper()
	program.NeedRoot(t)
	for root, limit := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes",
		"/sys/fs/cgroup": "memory.max"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		group, err := os.MkdirTemp(root, "sluice-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(group); err != nil {
				t.Error(err)
			}
		})
		if os.WriteFile(filepath.Join(group, limit), []byte(bytes), 0o600) == nil {
			return limited{t: t, directory: group, limit: limit}
		}
	}
	t.Skip("needs a memory controller that may be used")
	return limited{}
}

// limited is a control group with a limit.
type limited struct {
	t         *testing.T
	directory string
	limit     string // file that sets the limit
	hidden    bool   // from the launched program, which gets its own /sys, as under ip netns exec
	lacks     string // capability that the launched program lacks
}

// launch runs the program in the group.
func (g limited) launch(in *netns.Namespace, args ...string) *program.Running {
	g.t.Helper()
	self, err := os.Executable()
	if err != nil {
		g.t.Fatal(err)
	}
	script := `echo $$ > "$0"/cgroup.procs && exec "$@"`
	if g.hidden {
		script = `echo $$ > "$0"/cgroup.procs && exec unshare -m ` +
			`sh -c 'umount -l /sys && mount -t sysfs sysfs /sys && exec "$0" "$@"' "$@"`
		if g.lacks != "" {
			script = strings.Replace(script, `exec "$0"`, "exec setpriv --bounding-set=-"+g.lacks+` "$0"`, 1)
		}
	}
	c := exec.Command("sh", append([]string{"-c", script, g.directory, self}, args...)...)
	c.Env = append(os.Environ(), program.AsProgram+"=1")
	return program.LaunchCommand(g.t, in, c)
}

// taken returns the memory use of the group in bytes.
func (g limited) taken() (n int) {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.directory, "memory.usage_in_bytes"))
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(g.directory, "memory.current"))
	}
	if err == nil {
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

// TestLimitedMemory checks that a switch does not start in a control group that is too small, that
// run and check say why, and that the switch works with the recommended number of buffers.
func TestLimitedMemory(t *testing.T) {
	group := limitedGroup(t, "268435456")
	s := program.NewSite(t, 2)
	text := strings.Replace(smallSwitch, "buffers: 1024", "buffers: 4194304", 1) // 8 GiB
	file := readable(t, text)
	say := []string{"memory.buffers is 4194304", file + ":3:19", "the switch needs 8.", "control group /sluice-test-",
		"left of 256 MiB", "lower memory.buffers to "}
	run := group.launch(s.Home, "run", "-c", file)
	checkRefusal(t, run, cli.ExitFailure, say)
	check := group.launch(s.Home, "check", "-c", file)
	if code := check.ExitCode(); code != 0 ||
		!strings.Contains(check.Output.String(), "note: `sluice run` would not start here: the switch needs 8.") {
		t.Errorf("exit code %d:\n%s", code, check.Output.String())
	}
	_, rest, _ := strings.Cut(strings.Join(run.Log.All(), "\n"), "lower memory.buffers to ")
	most, _, _ := strings.Cut(rest, " ")
	mended := readable(t, strings.Replace(smallSwitch, "buffers: 1024", "buffers: "+most, 1))
	p := group.launch(s.Home, "run", "-c", mended, "--json")
	p.Await(2, `msg="link changed"`, "up=true")
	t.Logf("%s buffers; %d of 268435456 bytes taken", most, group.taken())
	p.Stop()
}

// TestCaptureInLimitedMemory checks that a confined switch rejects a capture if its control group
// has too little memory, continues to run, and accepts a capture with the recommended snap length.
func TestCaptureInLimitedMemory(t *testing.T) {
	for name, hidden := range map[string]bool{"mounted": false, "hidden": true} {
		t.Run(name, func(t *testing.T) { captureInLimitedMemory(t, hidden) })
	}
}

func captureInLimitedMemory(t *testing.T, hidden bool) {
	group := limitedGroup(t, "268435456")
	group.hidden = hidden
	s := program.NewSite(t, 2)
	socket := program.SocketPath(t)
	p := group.launch(s.Home, "run", "-c",
		readable(t, strings.Replace(smallSwitch, "socket: none", "socket: "+socket, 1)), "--json")
	p.Await(2, `msg="link changed"`, "up=true")
	p.Await(1, "msg=confined")
	const left = 20 << 20
	program.Must(t, os.WriteFile(filepath.Join(group.directory, group.limit), fmt.Append(nil, group.taken()+left),
		0o600))
	whole := program.Launch(t, nil, "capture", "--socket", socket, "-w", filepath.Join(t.TempDir(), "whole.pcapng"))
	checkRefusal(t, whole, cli.ExitFailure, []string{"the capture needs 37 MiB of memory",
		"control group /sluice-test-", "MiB left of ", "--snaplen ", "MemoryMax="})
	_, rest, _ := strings.Cut(strings.Join(whole.Log.All(), "\n"), "sluice capture --snaplen ")
	most, _, _ := strings.Cut(rest, ")")
	short := startCapture(t, p, 1, socket, "--snaplen", most, "-w", filepath.Join(t.TempDir(), "short.pcapng"))
	t.Logf("of each frame %s bytes; %d bytes taken", most, group.taken())
	short.Signal(unix.SIGINT)
	if code := short.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.Stop()
}

// TestLimitedMemoryHidden checks that a limit counts even if /sys does not show it.
func TestLimitedMemoryHidden(t *testing.T) {
	group := limitedGroup(t, "268435456")
	group.hidden = true
	file := readable(t, strings.Replace(smallSwitch, "buffers: 1024", "buffers: 4194304", 1))
	check := group.launch(nil, "check", "-c", file)
	if code := check.ExitCode(); code != 0 || !strings.Contains(check.Output.String(), "control group /sluice-test-") {
		t.Errorf("exit code %d:\n%s", code, check.Output.String())
	}
}

// TestLimitNotReadable checks that check and run report an unknown limit if they lack the privilege
// to read it.
func TestLimitNotReadable(t *testing.T) {
	group := limitedGroup(t, "268435456")
	group.hidden, group.lacks = true, "sys_admin"
	say := []string{"can't read the limits of control group /sluice-test-", "operation not permitted",
		"cap_sys_admin"}
	s := program.NewSite(t, 2)
	check := group.launch(nil, "check", "-c", readable(t, smallSwitch))
	if code := check.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, word := range say {
		if !strings.Contains(check.Output.String(), word) {
			t.Errorf("check does not say %q:\n%s", word, check.Output.String())
		}
	}
	run := group.launch(s.Home, "run", "-c", readable(t, smallSwitch))
	run.Await(1, append(say, "level=WARN")...)
	run.Await(1, "msg=confined")
	run.Signal(unix.SIGTERM)
	if code := run.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
