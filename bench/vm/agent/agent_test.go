package agent

import (
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/vm/protocol"
)

// connect serves an agent's calls, on the host.
func connect(t *testing.T) *rpc.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	s := rpc.NewServer()
	if err := s.RegisterName(protocol.Service, newAgent()); err != nil {
		t.Fatal(err)
	}
	go s.ServeConn(theirs)
	c := rpc.NewClient(ours)
	t.Cleanup(func() { c.Close() })
	return c
}

func call(t *testing.T, c *rpc.Client, method string, argument, result any) {
	t.Helper()
	if err := c.Call(protocol.Service+"."+method, argument, result); err != nil {
		t.Fatal(method, ": ", err)
	}
}

// follow collects a process's output until done returns true.
func follow(t *testing.T, c *rpc.Client, number int, done func(protocol.Output) bool) (all protocol.Output) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var out protocol.Output
		call(t, c, "Follow", protocol.Position{Process: number, Stdout: len(all.Stdout), Stderr: len(all.Stderr),
			Patience: time.Second}, &out)
		out.Stdout, out.Stderr = append(all.Stdout, out.Stdout...), append(all.Stderr, out.Stderr...)
		if all = out; done(all) {
			return all
		}
	}
	t.Fatalf("not done: %+v", all)
	return all
}

func ended(out protocol.Output) bool { return out.Ended }

func TestRun(t *testing.T) {
	c := connect(t)
	var number int
	command := protocol.Command{Args: []string{"sh", "-c", "echo output; echo error >&2; exit 7"}}
	call(t, c, "Start", command, &number)
	out := follow(t, c, number, ended)
	if string(out.Stdout) != "output\n" || string(out.Stderr) != "error\n" || out.Status != 7 {
		t.Errorf("%+v", out)
	}
	for _, args := range [][]string{nil, {"/no/such/program"}} {
		if err := c.Call(protocol.Service+".Start", protocol.Command{Args: args}, &number); err == nil {
			t.Errorf("%v was started", args)
		}
	}
}

// TestSignal: output comes while a process runs, and it ends by a signal.
func TestSignal(t *testing.T) {
	c := connect(t)
	var number int
	call(t, c, "Start", protocol.Command{Args: []string{"sh", "-c", "echo begun; exec sleep 1000"}}, &number)
	follow(t, c, number, func(out protocol.Output) bool { return string(out.Stdout) == "begun\n" && !out.Ended })
	call(t, c, "Signal", protocol.Signal{Process: number, Number: int(unix.SIGKILL)}, &protocol.Nothing{})
	if out := follow(t, c, number, ended); out.Status != 128+int(unix.SIGKILL) {
		t.Errorf("%+v", out)
	}
	if err := c.Call(protocol.Service+".Signal", protocol.Signal{Process: 9}, &protocol.Nothing{}); err == nil {
		t.Error("a process that was never started got a signal")
	}
}

func TestFiles(t *testing.T) {
	c := connect(t)
	path := filepath.Join(t.TempDir(), "file")
	call(t, c, "Write", protocol.File{Path: path, Data: []byte("content"), Mode: 0o600}, &protocol.Nothing{})
	var data []byte
	call(t, c, "Read", path, &data)
	if i, err := os.Stat(path); err != nil || i.Mode() != 0o600 || string(data) != "content" {
		t.Errorf("%q, %v, %v", data, i, err)
	}
	if err := c.Call(protocol.Service+".Read", path+"no", &data); err == nil {
		t.Error("a file that does not exist was read")
	}
}

func TestDescribe(t *testing.T) {
	c := connect(t)
	var link protocol.Link
	call(t, c, "Link", "lo", &link)
	if link.Name != "lo" || link.MTU == 0 || link.Flags&unix.IFF_LOOPBACK == 0 || link.XDP != 0 {
		t.Errorf("%+v", link)
	}
	var hello protocol.Hello
	call(t, c, "Hello", protocol.Nothing{}, &hello)
	if hello.Kernel == "" || hello.Uptime <= 0 {
		t.Errorf("%+v", hello)
	}
}
