// Package rdma tests `sluice-lab roce` from end to end.
package rdma

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/rigtest"
)

// namespaces returns those that a process has made.
func namespaces(t *testing.T, of *os.Process) []string {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/run/netns/sluice-*-%d-*", of.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// result is what the test reads of the command's document.
type result struct {
	Verdict  string
	Why      []string
	Lossless round
	Lossy    round
}

type round struct {
	Ratio      float64
	Sender     map[string]int
	Receiver   map[string]int
	Drops      map[string]int
	XOFF, XON  int
	PFCFrames  int `json:"pfc_frames"`
	Honoured   int `json:"pauses_honoured"`
	ECNMarked  int `json:"ecn_marked"`
	ECNArrived int `json:"ecn_received"`
}

// command prepares the command, which the kernel ends with this thread, and so with the test.
func command(ctx context.Context, t *testing.T, args ...string) (c *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	rigtest.Need(t)
	runtime.LockOSThread() // until the test ends
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	c = exec.CommandContext(ctx, rigtest.Build(t, "sluice-lab"), append([]string{"roce"}, args...)...)
	c.Stdout, c.Stderr, c.SysProcAttr = out, errs, &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return c, out, errs
}

func TestRoCE(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, out, errs := command(ctx, t, "--json", "--duration", "5s")
	failed := c.Run()
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v; %v: %s%s", err, failed, out, errs)
	}
	t.Logf("%s%s", out, errs)
	if failed != nil || r.Verdict != "pass" || len(r.Why) > 0 {
		t.Errorf("%s, because of %q: %v", r.Verdict, r.Why, failed)
	}
	a, b := r.Lossless, r.Lossy
	if a.Ratio < 0.95 || a.Receiver["rcvd_pkts"] == 0 || a.Receiver["out_of_seq_request"] != 0 ||
		a.Sender["completer_retry_err"] != 0 || a.Drops["ingress_full"] != 0 || a.XOFF == 0 ||
		a.XON == 0 || a.ECNArrived == 0 || a.ECNArrived > a.ECNMarked { // a frame may be under way
		t.Errorf("lossless: %+v", a)
	}
	if b.Ratio >= a.Ratio || b.Receiver["out_of_seq_request"] == 0 || b.Sender["completer_retry_err"] == 0 ||
		b.Drops["ingress_full"] == 0 || b.PFCFrames > 0 {
		t.Errorf("lossy: %+v", b)
	}
	if n := namespaces(t, c.Process); len(n) > 0 {
		t.Errorf("left: %q", n)
	}
}

// TestRoCEWithoutPFC: if the sender ignores PFC, the lossless class loses frames, too.
func TestRoCEWithoutPFC(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, out, errs := command(ctx, t, "--json", "--duration", "5s", "--no-pfc")
	_ = c.Run()
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v; %v: %s%s", err, c.ProcessState, out, errs)
	}
	t.Logf("%s%s", out, errs)
	if a := r.Lossless; c.ProcessState.ExitCode() != 1 || r.Verdict != "fail" || a.XOFF == 0 || a.Honoured != 0 ||
		a.Drops["headroom_full"] == 0 || a.Receiver["out_of_seq_request"] == 0 {
		t.Errorf("%v, %s: %+v", c.ProcessState, r.Verdict, a)
	}
}

// TestRoCEInterrupted: SIGINT ends the command while its machines run, and nothing is left.
func TestRoCEInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, out, errs := command(ctx, t, "--duration", "1h")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	const made = 3 // switch and two hosts, once the machines have booted
	for len(namespaces(t, c.Process)) < made && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	if err := c.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if ctx.Err() != nil || c.ProcessState.ExitCode() != 1 || out.Len() > 0 ||
		!bytes.Contains(errs.Bytes(), []byte("sluice-lab: interrupted\n")) {
		t.Errorf("%v, %v: %s%s", ctx.Err(), c.ProcessState, out, errs)
	}
	if n := namespaces(t, c.Process); len(n) > 0 {
		t.Errorf("left: %q", n)
	}
}
