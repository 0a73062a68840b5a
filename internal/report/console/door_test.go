package console

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/state"
)

// silent is how many clients connect and send nothing: more than there are seats.
const silent = 300

// Groups for tests as root.
const operators, viewers = 61001, 61002

// asSomebody is an environment variable that makes the test binary a client. It has what the client
// does, and on which socket.
const asSomebody = "SLUICE_TEST_AS_SOMEBODY"

// run starts this test binary as a user with one group. It runs the part of a test that asSomebody
// selects.
func run(t *testing.T, test, what string, d *desk, group uint32) *exec.Cmd {
	t.Helper()
	if err := os.Chmod(filepath.Dir(d.socket), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(d.socket), "test")
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, self, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, "-test.run", "^"+test+"$")
	c.Env = append(os.Environ(), asSomebody+"="+what+" "+d.socket)
	c.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{group}}, Pdeathsig: syscall.SIGKILL,
	}
	c.Dir = "/"
	return c
}

// newOffice opens sockets for both groups.
func newOffice(t *testing.T) *desk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: processes of other users")
	}
	d := newDesk(t, "")
	d.write(ports + fmt.Sprintf("control: {socket: %s, group: %d, viewers: %d}\n", d.socket, operators, viewers))
	c, err := config.Load(d.file)
	if err != nil {
		t.Fatal(err)
	}
	d.config = c
	return d.open()
}

// TestViewers: members of the viewers' group, even by a supplementary group, may read; other
// requests get an error that says so.
func TestViewers(t *testing.T) {
	if what := os.Getenv(asSomebody); what != "" {
		_, socket, _ := strings.Cut(what, " ")
		client := Dial(socket)
		r, err := client.State(t.Context())
		fmt.Println("looks:", r != nil, err)
		_, err = client.ClearCounters(t.Context())
		fmt.Println("orders:", err)
		_, err = client.Reload(t.Context())
		fmt.Println("reloads:", err)
		_, err = client.Call(t.Context(), http.MethodGet, "/v1/capture")
		fmt.Println("captures:", err)
		return
	}
	d := newOffice(t)
	for _, test := range []struct {
		group uint32
		want  []string
	}{
		{operators, []string{"looks: true <nil>", "orders: <nil>"}},
		{viewers, []string{
			"looks: true <nil>", "orders: viewers have read-only access", "reloads: viewers have",
			"captures: viewers have",
		}},
		{65534, []string{"looks: false the switch at", "orders: the switch at", "control.viewers"}},
	} {
		out, err := run(t, "TestViewers", "look", d, test.group).CombinedOutput()
		for _, want := range test.want {
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("group %d: %v, without %q:\n%s", test.group, err, want, out)
			}
		}
	}
	if err := d.server.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.socket, config.ViewSocket(d.socket)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the end, %s: %v", path, err)
		}
	}
}

// TestSilentClients: a member of the group opens many connections and sends nothing, or requests
// long answers and does not read them. Neither delays root, and the former does not delay other
// members.
func TestSilentClients(t *testing.T) {
	if what := os.Getenv(asSomebody); what != "" {
		does, socket, _ := strings.Cut(what, " ")
		for range silent {
			c, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			if does == "ask" {
				fmt.Fprint(c, "GET /v2/fdb HTTP/1.1\r\nHost: s\r\n\r\n")
			}
		}
		fmt.Println("connected")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
		return
	}
	for _, does := range []string{"say nothing", "ask"} {
		t.Run(does, func(t *testing.T) {
			d := newOffice(t)
			d.fdb = make([]state.FDBEntry, 1<<16) // some MB
			first, _, _ := strings.Cut(does, " ")
			c := run(t, "TestSilentClients", first, d, operators)
			stdin, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdout.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			d.client.Patience = usual.write / 4 // well before clients that do not read are disconnected
			for range 20 {
				if _, err := d.client.State(t.Context()); err != nil {
					t.Fatalf("root is kept waiting: %v", err)
				}
			}
			if does == "say nothing" {
				out, err := run(t, "TestViewers", "look", d, operators).CombinedOutput()
				if err != nil || !strings.Contains(string(out), "looks: true") {
					t.Errorf("another member: %v\n%s", err, out)
				}
			}
			stdin.Close()
			_ = c.Wait()
		})
	}
}

// TestSilentRoot: as many silent connections of root do not keep root from being answered.
func TestSilentRoot(t *testing.T) {
	d := newDesk(t, "").open()
	for range silent {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	began := time.Now()
	if _, err := d.client.State(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("answered after %v", time.Since(began))
}

// TestViewersTakeNoLongAnswers: as many viewers as are served at a time request the whole FDB and
// do not read it. Operators still get theirs.
func TestViewersTakeNoLongAnswers(t *testing.T) {
	d := newOffice(t)
	d.fdb = make([]state.FDBEntry, 1<<16) // some MB
	for range maxTables {
		c, err := net.Dial("unix", config.ViewSocket(d.socket))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /v2/fdb HTTP/1.1\r\nHost: s\r\n\r\n")
	}
	for deadline := time.Now().Add(10 * time.Second); d.gathered.Load() < maxTables; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("viewers are not answered")
		}
	}
	d.client.Patience = usual.write / 2 // well before clients that do not read are disconnected
	if known, err := d.client.FDB(t.Context()); err != nil || len(known) != len(d.fdb) {
		t.Errorf("%d entries for root, %v", len(known), err)
	}
}
