package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/state"
)

func TestPermissions(t *testing.T) {
	umask := unix.Umask(0) // others could connect if the mode were set late
	defer unix.Umask(umask)
	group := os.Getegid()
	more := ""
	if os.Geteuid() == 0 {
		group = 4
		more = "control: {socket: %s, group: adm}\n"
	}
	d := newDesk(t, "")
	if more != "" {
		d.write(ports + fmt.Sprintf(more, d.socket))
		c, err := config.Load(d.file)
		if err != nil {
			t.Fatal(err)
		}
		d.config = c
	}
	d.open()
	info, err := os.Stat(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("mode %v, want that of root and its group", info.Mode())
	}
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Gid) != group || int(owner.Uid) != os.Geteuid() {
		t.Errorf("belongs to %d:%d, want group %d", owner.Uid, owner.Gid, group)
	}
}

// TestOthersMayNotAsk has another user call the switch, and try to make the same socket. That takes
// another process, since all of a process has one user.
func TestOthersMayNotAsk(t *testing.T) {
	const asNobody = "SLUICE_TEST_AS_NOBODY"
	if socket := os.Getenv(asNobody); socket != "" {
		_, err := Dial(socket).State(t.Context())
		fmt.Println(err)
		fmt.Println(clearWay(socket))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: a process of another user")
	}
	d := newDesk(t, "").open()
	if err := os.Chmod(filepath.Dir(d.socket), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(d.socket), "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-test.run", "^TestOthersMayNotAsk$")
	c.Env = append(os.Environ(), asNobody+"="+d.socket)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c.Dir = "/"
	out, err := c.CombinedOutput()
	for _, want := range []string{"accepts only root and its group", "can't be created: permission denied"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, without %q:\n%s", err, want, out)
		}
	}
}

// TestSocketInUse: a second switch gets an error, and the first one goes on.
func TestSocketInUse(t *testing.T) {
	d := newDesk(t, "").open()
	second := &desk{fake: d.fake, t: t, log: new(record)}
	if err := second.serve(); err == nil || !strings.Contains(err.Error(), d.socket+" is in use: stop the switch") {
		t.Fatalf("a second switch: %v", err)
	}
	if _, err := d.client.State(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStaleSocket: the socket of a killed switch is replaced, and a switch that ends regularly
// leaves none.
func TestStaleSocket(t *testing.T) {
	d := newDesk(t, "")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.socket})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := d.client.State(t.Context()); err == nil || !strings.Contains(err.Error(), "no switch answers") {
		t.Errorf("of a dead switch: %v", err)
	}
	if err := d.serve(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.client.State(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// TestRaceForAStaleSocket: of several switches that find the socket of a killed one, one gets it,
// and the others get an error.
func TestRaceForAStaleSocket(t *testing.T) {
	const rounds, switches = 50, 4
	d := newDesk(t, "")
	for range rounds {
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.socket})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		dead.Close()
		made := make(chan net.Listener, switches)
		for range switches {
			go func() {
				l, err := listen(d.config)
				if err != nil && !strings.Contains(err.Error(), "in use") {
					t.Error(err)
				}
				made <- l
			}()
		}
		var won []net.Listener
		for range switches {
			if l := <-made; l != nil {
				won = append(won, l)
			}
		}
		if _, err := os.Lstat(d.socket); len(won) != 1 || err != nil {
			t.Fatalf("%d have it: %v", len(won), err)
		}
		won[0].Close()
	}
}

// TestSocketInTheWay has various problems with the socket. The message says what to do, and
// existing files are not touched.
func TestSocketInTheWay(t *testing.T) {
	for _, test := range []struct {
		name, socket string
		group        string
		say          []string
	}{
		{name: "no directory", socket: "/proc/nowhere/at/all/socket",
			say: []string{"can't be created", "no such file or directory", "directory /proc/nowhere/at/all",
				"control.socket"}},
		{name: "no place for a directory", socket: "/proc/nowhere/socket",
			say: []string{"can't be created", "directory /proc/nowhere", "control.socket"}},
		{name: "no place for a socket", socket: "/proc/socket", say: []string{"can't be created", "directory /proc,",
			"or to none"}},
		{name: "a file", socket: "/etc/passwd", say: []string{"/etc/passwd", "not a socket", "move it away"}},
		{name: "no such group", group: "nobodys", say: []string{"sluice.yaml:", "control.group",
			"group nobodys does not exist", "groupadd nobodys"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t, "")
			if test.socket == "" {
				test.socket = d.socket
			}
			if test.group == "" {
				test.group = "0"
			}
			d.write(ports + fmt.Sprintf("control: {socket: %s, group: %s}\n", test.socket, test.group))
			c, err := config.Load(d.file)
			if err != nil {
				t.Fatal(err)
			}
			d.config = c
			err = d.serve()
			if err == nil {
				t.Fatal("made all the same")
			}
			t.Log(err)
			for _, words := range test.say {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in the message", words)
				}
			}
			if config.AtFault(err) {
				t.Error("the configuration is at fault, though another machine may have what it names")
			}
		})
	}
}

// TestNoSocket: a switch without a control socket makes none.
func TestNoSocket(t *testing.T) {
	d := newDesk(t, "control: {socket: none}\n")
	if err := d.serve(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(d.socket)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v; want the configuration alone", entries, err)
	}
	if err := d.server.Close(); err != nil {
		t.Error(err)
	}
}

// TestTheDirectoryIsMade: the directory is made if it is missing, as /run/sluice is after a boot.
// The group can enter it, whatever the umask.
func TestTheDirectoryIsMade(t *testing.T) {
	umask := unix.Umask(0o077)
	defer unix.Umask(umask)
	d := newDesk(t, "")
	d.socket = filepath.Join(filepath.Dir(d.socket), "sluice", "socket")
	d.write(ports)
	c, err := config.Load(d.file)
	if err != nil {
		t.Fatal(err)
	}
	d.config, d.client = c, Dial(d.socket)
	d.open()
	if _, err := d.client.State(t.Context()); err != nil {
		t.Error(err)
	}
	for path, mode := range map[string]fs.FileMode{filepath.Dir(d.socket): 0o755, d.socket: socketMode} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if now := unix.Umask(0o077); now != 0o077 {
		t.Errorf("the umask is %#o now", now)
	}
}

// TestSlowClients: clients that send half a request, or nothing, are disconnected, and delay no
// others even if there are more of them than seats.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "").open()
	var slow []net.Conn
	for i := range 300 {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		slow = append(slow, c)
		if i%2 == 0 { // the others send nothing
			fmt.Fprintf(c, "GET /v4/state HTTP/1.1\r\nHost: s\r\nX-Slow: ") // it may be disconnected by now
		}
	}
	began := time.Now()
	if _, err := d.client.State(t.Context()); err != nil || time.Since(began) > usual.header/2 {
		t.Errorf("behind slow clients: %v after %v", err, time.Since(began))
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(10 * usual.header))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a slow client is not cut off")
		}
	}
}

// TestFaithfulClients: clients that make one request after another, as many at a time as are
// served, keep no others waiting.
func TestFaithfulClients(t *testing.T) {
	d := newDesk(t, "").open()
	var all []net.Conn
	for range maxConnections {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /v1/config HTTP/1.1\r\nHost: s\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, c) // it sends another request if it can
	}
	d.client.Patience = 5 * time.Second
	if _, err := d.client.State(t.Context()); err != nil {
		t.Errorf("beside %d others: %v", len(all), err)
	}
}

// TestEndWithAFullHouse: a switch that ends waits neither for its clients nor for connections that
// are not accepted yet.
func TestEndWithAFullHouse(t *testing.T) {
	d := newDesk(t, "")
	if err := d.serve(); err != nil {
		t.Fatal(err)
	}
	for range 2 * maxConnections {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	began := time.Now()
	if err := d.server.Close(); err != nil || time.Since(began) > usual.header {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// TestClientThatReadsNothing requests much more than a socket holds. The client is disconnected,
// and delays no others.
func TestClientThatReadsNothing(t *testing.T) {
	d := newDesk(t, "")
	d.limits.write = 2 * time.Second
	d.open()
	c, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 1000 { // answers of some 30 KB each
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := fmt.Fprint(c, "GET /v4/state HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
			break
		}
	}
	began := time.Now()
	if _, err := d.client.State(t.Context()); err != nil || time.Since(began) > time.Second {
		t.Errorf("beside a client that reads nothing: %v after %v", err, time.Since(began))
	}
	time.Sleep(d.limits.write + d.limits.write/4)
	_ = c.SetReadDeadline(time.Now().Add(d.limits.write))
	if n, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("is not cut off; read %d bytes", n)
	}
}

// TestLongAnswers: few long answers are sent at a time, however many clients request one and do not
// read it. Other requests are answered meanwhile, and in the end long ones too.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "").open()
	d.fdb = make([]state.FDBEntry, 1<<16) // some MB
	var all []net.Conn
	for range 4 * maxTables {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /v2/fdb HTTP/1.1\r\nHost: s\r\n\r\n")
		all = append(all, c)
	}
	time.Sleep(time.Second)
	if _, err := d.client.State(t.Context()); err != nil || d.gathered.Load() != maxTables {
		t.Errorf("%d at a time, want %d: %v", d.gathered.Load(), maxTables, err)
	}
	for _, c := range all {
		c.Close() // both those that wait and those that are being answered
	}
	if known, err := d.client.FDB(t.Context()); err != nil || len(known) != len(d.fdb) {
		t.Errorf("%d entries, %v", len(known), err)
	}
}

// TestNobodyWaitsForATurnForLong: the wait for a long answer is bounded, since it takes a
// connection.
func TestNobodyWaitsForATurnForLong(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	s := &Server{limits: limits{write: time.Millisecond}}
	h := s.few(1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(began); <-end }))
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	go h.ServeHTTP(httptest.NewRecorder(), request)
	<-began
	said := httptest.NewRecorder()
	if h.ServeHTTP(said, request); said.Code != http.StatusServiceUnavailable ||
		!strings.Contains(said.Body.String(), "try again") {
		t.Errorf("%d %s", said.Code, said.Body)
	}
	close(end)
}

// TestNonsense: requests that can't be understood get an answer, and take bounded memory.
func TestNonsense(t *testing.T) {
	d := newDesk(t, "").open()
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/nothing", "", 404},
		{"GET", "/", "", 404},
		{"GET", "/v1/reload", "", 404},
		{"DELETE", "/v4/state", "", 404},
		{"POST", "/v1/storm", "{", 400},
		{"POST", "/v1/storm", `{"device": "sw0", "cos": [3], "on": true, "for": "ever"}`, 400},
		{"POST", "/v1/storm", `{"device": "sw0", "cos": [3], "on": true} {}`, 400},
		{"POST", "/v1/storm", `{"device": "` + strings.Repeat("x", 2*maxBody) + `"}`, 400},
	} {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", test.method,
			test.path, len(test.body), test.body)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s %s: %v", test.method, test.path, err)
		}
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != test.status || !strings.Contains(string(body), `{"error":"`) {
			t.Errorf("%s %s: %s, want %d: %s", test.method, test.path, response.Status, test.status, body)
		}
		c.Close()
	}
}

// TestStateOfAnotherVersion calls a switch whose state has another schema, and that has no previews
// of reloads.
func TestStateOfAnotherVersion(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	if _, err := Dial(socket).State(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "different versions") {
		t.Errorf("%v", err)
	}
	if _, err := Dial(socket).Preview(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "different versions") {
		t.Errorf("%v", err)
	}
}
