package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// startDemo starts `sluice-lab demo` and waits until it has created everything on the machine: four
// namespaces, and the files with the original settings of three ports and three hosts. It returns
// their paths.
func startDemo(t *testing.T, args ...string) (p *program.Running, made []string) {
	t.Helper()
	program.NeedRoot(t)
	p = program.Launch(t, nil, append([]string{"demo", "--json"}, args...)...)
	for deadline := time.Now().Add(program.Patience); len(made) < 4+6; time.Sleep(5 * time.Millisecond) {
		if p.HasEnded() || time.Now().After(deadline) {
			t.Fatalf("the demo made only %q (ended: %v)", made, p.HasEnded())
		}
		made = madeBy(t, p.Process.Pid)
	}
	return p, made
}

// madeBy returns the namespaces with a process's PID in their names, and the files in /run/sluice
// that the process has open.
func madeBy(t *testing.T, pid int) []string {
	t.Helper()
	made, err := filepath.Glob(fmt.Sprintf("/run/netns/sluice-*-%d-*", pid))
	if err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if file, err := os.Readlink(fd); err == nil && strings.HasPrefix(file, "/run/sluice/") {
			made = append(made, file)
		}
	}
	return made
}

func expectGone(t *testing.T, paths []string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", path, err)
		}
	}
}

// object is a JSON object, accessed by the documented names.
type object map[string]any

// number returns a number from an inner object.
func (o object) number(t *testing.T, inner, name string) float64 {
	t.Helper()
	in, _ := o[inner].(map[string]any)
	n, ok := in[name].(float64)
	if !ok {
		t.Fatalf("no number %s.%s in %v", inner, name, o)
	}
	return n
}

// checkDemo checks what every run of the demo must report, whatever its verdict.
func checkDemo(t *testing.T, o object) {
	t.Helper()
	for _, class := range []string{"lossless", "lossy"} {
		sent, received, lost := o.number(t, class, "sent"), o.number(t, class, "received"), o.number(t, class, "lost")
		if received == 0 || sent != received+lost {
			t.Errorf("%s: %.0f sent, %.0f received, %.0f lost", class, sent, received, lost)
		}
		if n := o.number(t, class, "reordered"); n != 0 {
			t.Errorf("%s: %.0f reordered", class, n)
		}
	}
	if o.number(t, "lossy", "lost") == 0 {
		t.Error("the lossy class lost nothing, so there was no overload")
	}
	dropped := o.number(t, "lost_where", "switch_drops")
	lost := o.number(t, "lossless", "lost") + o.number(t, "lossy", "lost")
	if dropped > 1.1*lost+100 { // the kernel, too, sends some frames
		t.Errorf("the switch dropped %.0f frames, but %.0f are lost: it flooded, and dropped copies", dropped, lost)
	}
	ports, _ := o["ports"].([]any)
	if len(ports) != 3 {
		t.Fatalf("ports: %v", o["ports"])
	}
	mode := regexp.MustCompile(`^(zero-copy|copy \((native|generic)\))$`)
	for i, p := range ports {
		port, _ := p.(map[string]any)
		name, _ := port["name"].(string)
		if m, _ := port["mode"].(string); name != fmt.Sprintf("port%d", i+1) || !mode.MatchString(m) {
			t.Errorf("port %d: %v", i+1, p)
		}
	}
}

func TestDemo(t *testing.T)            { testDemo(t) }
func TestDemoJumbo(t *testing.T)       { testDemo(t, "--mtu", "9216") }
func TestDemoTransmitter(t *testing.T) { testDemo(t, "--resident") }

// runDemoAlone runs the demo until the machine leaves the worker its CPU, three times at most, and
// returns the result and the exit code. On an idle machine, the worker's longest gap is 15 ms. The
// buffers of a port last 49 ms; if the worker is away for longer, frames are lost before it.
func runDemoAlone(t *testing.T, args ...string) (o object, code int) {
	t.Helper()
	if program.UnderRace() { // hosts this slow could not pause in time at full speed
		args = append(args, "--speed", "100M")
	}
	const away = 30 // ms
	for range 3 {
		p, made := startDemo(t, args...)
		code, o = p.ExitCode(), nil
		p.Document(&o)
		expectGone(t, made)
		if n := len(p.Log.Find([]string{"changed by a program or its driver"})); n > 0 {
			t.Errorf("%d settings of devices changed while the switch ran", n)
		}
		where := func(name string) float64 { return o.number(t, "lost_where", name) }
		gap := where("worker_gap_max_ms")
		if gap < away || where("switch_ports") == 0 || where("switch_lossless_drops") > 0 {
			break
		}
		t.Logf("the worker was away for %.1f ms: %v", gap, o)
	}
	return o, code
}

func testDemo(t *testing.T, args ...string) {
	o, code := runDemoAlone(t, append(args, "--duration", "4s")...)
	checkDemo(t, o)
	if o["verdict"] != "pass" || o.number(t, "lossless", "lost") != 0 || code != 0 {
		t.Errorf("exit code %d: %v", code, o)
	}
	xoff, xon, frames := o.number(t, "pfc", "xoff"), o.number(t, "pfc", "xon"), o.number(t, "pfc", "frames")
	if xoff == 0 || xon == 0 || frames < xoff+xon || o.number(t, "pfc", "paused_ms") <= 0 {
		t.Errorf("PFC: %v", o["pfc"])
	}
}

func TestDemoWithoutPFC(t *testing.T) {
	p, made := startDemo(t, "--duration", "2s", "--no-pfc")
	code := p.ExitCode()
	var o object
	p.Document(&o)
	checkDemo(t, o)
	if o["verdict"] != "fail" || o.number(t, "lossless", "lost") == 0 || o.number(t, "pfc", "frames") != 0 ||
		code != cli.ExitFailure {
		t.Errorf("exit code %d: %v", code, o)
	}
	expectGone(t, made)
}

func TestDemoInterrupted(t *testing.T) {
	p, made := startDemo(t, "--duration", "1h")
	p.Signal(unix.SIGINT)
	if code := p.ExitCode(); code != cli.ExitFailure || p.Output.Len() > 0 {
		t.Errorf("exit code %d, printed %q", code, &p.Output)
	}
	expectGone(t, made)
}

// TestDemoDCBX: hosts that learn from the switch lose nothing, the same hosts without DCBX do, and
// then as an ordinary class: the switch counts no lossless drop.
func TestDemoDCBX(t *testing.T) {
	for _, c := range []struct {
		dcbx, duration string
		code           int
		agreement      string // of each port
	}{
		{dcbxOn, "4s", 0, "[agreed [3] [3]]"},
		{dcbxOff, "2s", cli.ExitFailure, "[no-peer [] []]"},
	} {
		t.Run(c.dcbx, func(t *testing.T) {
			o, code := runDemoAlone(t, "--dcbx", c.dcbx, "--duration", c.duration)
			checkDemo(t, o)
			lost, xoff := o.number(t, "lossless", "lost"), o.number(t, "pfc", "xoff")
			if on := c.dcbx == dcbxOn; code != c.code || (lost == 0) != on || (xoff > 0) != on ||
				o.number(t, "lost_where", "switch_lossless_drops") != 0 {
				t.Errorf("exit code %d: %v", code, o)
			}
			agreements, _ := o["dcbx"].([]any)
			if len(agreements) != 3 {
				t.Errorf("agreements: %v", agreements)
			}
			for _, a := range agreements {
				at, _ := a.(map[string]any)
				if got := fmt.Sprint([]any{at["state"], at["lossless"], at["host_honours"]}); got != c.agreement {
					t.Errorf("port %v: %s, want %s", at["port"], got, c.agreement)
				}
			}
		})
	}
}

func TestDemoRefuses(t *testing.T) {
	for arguments, want := range map[string]string{
		"--dcbx maybe":         "--dcbx maybe: choose on or off",
		"--dcbx on --no-pfc":   "leave out --no-pfc or --dcbx",
		"--mtu 9000 --size 64": "leave out --mtu or --size",
		"--mtu 9501":           "--mtu 9501: choose 576 to 9500",
	} {
		c := command()
		c.SetArgs(append([]string{"demo"}, strings.Fields(arguments)...))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("demo %s: %v, want an error that says %q", arguments, err, want)
		}
	}
}
