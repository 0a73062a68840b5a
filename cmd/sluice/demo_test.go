package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startDemo launches `sluice demo` and waits until it has made all that it makes on the machine: four namespaces, and
// the files that keep the original settings of three ports and three hosts. It returns their paths.
func startDemo(t *testing.T, args ...string) (p *process, made []string) {
	t.Helper()
	needRoot(t)
	p = launch(t, nil, append([]string{"demo", "--json"}, args...)...)
	for deadline := time.Now().Add(patience); len(made) < 4+6; time.Sleep(5 * time.Millisecond) {
		if p.hasEnded() || time.Now().After(deadline) {
			t.Fatalf("the demo made only %q (ended: %v)", made, p.hasEnded())
		}
		made = madeBy(t, p.Process.Pid)
	}
	return p, made
}

// madeBy returns the namespaces that carry a process's number, and the files in /run/sluice that it has open.
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

// object is a JSON object, looked into by the names that users know it by.
type object map[string]any

// number returns a number in an object within the object.
func (o object) number(t *testing.T, inner, name string) float64 {
	t.Helper()
	in, _ := o[inner].(map[string]any)
	n, ok := in[name].(float64)
	if !ok {
		t.Fatalf("no number %s.%s in %v", inner, name, o)
	}
	return n
}

// checkDemo checks what every run of the demo has to say, whatever the verdict.
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

func TestDemo(t *testing.T)         { testDemo(t) }
func TestDemoResident(t *testing.T) { testDemo(t, "--resident") }

func testDemo(t *testing.T, args ...string) {
	args = append(args, "--duration", "4s")
	if underRace() { // hosts so slow could not pause in time at full speed
		args = append(args, "--speed", "100M")
	}
	p, made := startDemo(t, args...)
	code := p.exitCode()
	var o object
	p.document(&o)
	checkDemo(t, o)
	if o["verdict"] != "pass" || o.number(t, "lossless", "lost") != 0 || code != 0 {
		t.Errorf("exit code %d: %v", code, o)
	}
	xoff, xon, frames := o.number(t, "pfc", "xoff"), o.number(t, "pfc", "xon"), o.number(t, "pfc", "frames")
	if xoff == 0 || xon == 0 || frames < xoff+xon || o.number(t, "pfc", "paused_ms") <= 0 {
		t.Errorf("PFC: %v", o["pfc"])
	}
	expectGone(t, made)
}

func TestDemoWithoutPFC(t *testing.T) {
	p, made := startDemo(t, "--duration", "2s", "--no-pfc")
	code := p.exitCode()
	var o object
	p.document(&o)
	checkDemo(t, o)
	if o["verdict"] != "fail" || o.number(t, "lossless", "lost") == 0 || o.number(t, "pfc", "frames") != 0 || code != exitFailure {
		t.Errorf("exit code %d: %v", code, o)
	}
	expectGone(t, made)
}

func TestDemoInterrupted(t *testing.T) {
	p, made := startDemo(t, "--duration", "1h")
	p.signal(unix.SIGINT)
	if code := p.exitCode(); code != exitFailure || p.stdout.Len() > 0 {
		t.Errorf("exit code %d, printed %q", code, &p.stdout)
	}
	expectGone(t, made)
}

// TestFootprint measures a switch with three ports and the default memory: what it holds, and how soon it forwards.
func TestFootprint(t *testing.T) {
	const (
		mostMemory = 200e6           // bytes
		mostStart  = 5 * time.Second // it is 0.1 s on a machine that does nothing else
	)
	p := startSwitch(t, newSite(t, 3).home, `
ports:
  - {device: port1, speed: 10G}
  - {device: port2, speed: 10G}
  - {device: port3, speed: 10G}
`)
	start := p.await(1, "msg=forwarding")
	now, peak := p.memory("VmRSS"), p.memory("VmHWM")
	t.Logf("forwards after %v; resident %.1f MB, at the most %.1f MB (race detector: %v)", start, now/1e6, peak/1e6, underRace())
	if start > mostStart {
		t.Errorf("forwards only after %v", start)
	}
	if peak > mostMemory && !underRace() {
		t.Errorf("%.1f MB resident, more than %.0f", peak/1e6, mostMemory/1e6)
	}
	p.stop()
}

// memory returns one of the amounts in /proc/PID/status, in bytes.
func (p *process) memory(name string) float64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindSubmatch(status)
	if line == nil {
		p.t.Fatalf("no %s in %s", name, status)
	}
	kB, err := strconv.Atoi(string(line[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return float64(kB) * 1024
}
