// Package rigtest has what tests of rigs share: what they need, waits, flows between peers, and the
// conservation of frames and buffers.
package rigtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/bench/vm/rig"
	"sluice/internal/state"
)

// Patience bounds every wait. Emulation makes a guest a hundred times slower than this machine, and
// the machine may have others to serve: a program of low priority beside a worker that polls has
// taken more than a minute to start.
const Patience = 3 * time.Minute

// Need skips a test that nobody has asked for, or that lacks privileges.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv("SLUICE_RIG") != "1" {
		t.Skip("takes minutes and fetches 150 MB the first time: make rig")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and tap devices")
	}
}

// Build builds a program of this project without shared libraries, and returns its path.
func Build(t testing.TB, name string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), name)
	c := exec.Command("go", "build", "-pgo=off", "-ldflags", "-s -w", "-o", program, "sluice/cmd/"+name)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// Must fails the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Until waits until done returns true.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Run runs a program in a guest that must succeed, and returns its output.
func Run(t testing.TB, g *rig.Guest, args ...string) string {
	t.Helper()
	r, err := g.Run(args...)
	Must(t, err)
	if r.Status != 0 {
		t.Fatalf("%v: status %d: %s%s", args, r.Status, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// warnings is how often CheckKernel was called.
var warnings atomic.Int64

// CheckKernel reports faults that the guest's kernel has found. A warning of its own shows that the
// console has warnings, and all that came before.
func CheckKernel(t testing.TB, g *rig.Guest) {
	t.Helper()
	last := fmt.Sprintf("the last warning (%d)", warnings.Add(1))
	Must(t, g.WriteFile("/dev/kmsg", []byte("<4>"+last+"\n"), 0))
	Until(t, "the console shows warnings", func() bool { return strings.Contains(g.Console(), last) })
	console := g.Console()
	for _, word := range []string{"BUG", "WARNING", "Oops", "stall", "Call Trace"} {
		if strings.Contains(console, word) {
			t.Errorf("the guest's kernel reports a fault (%s):\n%s", word, console)
		}
	}
}

// Conserves checks that a switch accounts for every frame and every buffer. No frame may be under
// way.
func Conserves(t testing.TB, get func() state.Switch) {
	t.Helper()
	var of state.Switch
	Until(t, "queues and rings are empty", func() bool {
		of = get()
		for _, p := range of.Ports {
			if p.Buffers.Queued+p.Buffers.Sending > 0 {
				return false
			}
		}
		return true
	})
	if of.LosslessDropsTotal > 0 {
		t.Errorf("%d lossless frames dropped", of.LosslessDropsTotal)
	}
	var in, out uint64
	buffers := map[int]int{}
	for _, p := range of.Ports {
		if p.GivenTwice+p.CompletedTwice > 0 {
			t.Errorf("%s: the driver delivered %d buffers twice, and completed %d twice", p.Name, p.GivenTwice,
				p.CompletedTwice)
		}
		in += p.Received + p.FloodCopies - p.Control.Frames - p.Own.Received
		out += p.Sent + p.Dropped
		for _, d := range p.Drops {
			if d.Reason == "port_gone" {
				out -= d.Frames // they are in Sent, too
			}
		}
		buffers[p.Worker] += p.Buffers.Filled + p.Buffers.Spare
	}
	if in != out {
		t.Errorf("%d frames came in, %d left or were dropped", in, out)
	}
	for _, w := range of.Workers {
		if w.Free+buffers[w.Number] != w.Buffers {
			t.Errorf("worker %d: %d buffers are free, %d with drivers to receive, of %d", w.Number, w.Free,
				buffers[w.Number], w.Buffers)
		}
		if w.CellsInUse != 0 {
			t.Errorf("worker %d: %d cells in use", w.Number, w.CellsInUse)
		}
	}
}

// CheckDrivers reports frames that drivers have lost, before the switch or behind it.
func CheckDrivers(t testing.TB, of state.Switch) {
	t.Helper()
	for _, p := range of.Ports {
		if n := p.Driver.Lost(); n > 0 {
			t.Errorf("%s: the driver has lost %d frames: %+v", p.Name, n, p.Driver)
		}
	}
}
