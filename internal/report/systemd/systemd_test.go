package systemd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/state"
)

// patience bounds every wait. The events take well below a second on an idle machine.
const patience = 30 * time.Second

// fake is a switch whose state a test sets.
type fake struct {
	lock    sync.Mutex
	up      []bool
	shut    string // name of a port
	err     error
	ready   bool
	stalled time.Duration
}

func (f *fake) Ready() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.ready
}

func (f *fake) Total() (*state.Switch, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	s := &state.Switch{Ports: make([]state.Port, len(f.up)), StalledNS: f.stalled.Nanoseconds()}
	for i, up := range f.up {
		name := "sw" + strconv.Itoa(i)
		s.Ports[i] = state.Port{Name: name, Shut: name == f.shut, Up: up}
	}
	return s, f.err
}

func (f *fake) set(err error, up ...bool) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.up, f.err = up, err
}

func (f *fake) open() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.ready = true
}

func (f *fake) stall(still time.Duration) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.stalled = still
}

// manager is the socket on which systemd listens.
type manager struct {
	t *testing.T
	*net.UnixConn
}

func newManager(t *testing.T) *manager {
	t.Helper()
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	c, err := net.ListenUnixgram("unixgram", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", at.Name)
	t.Setenv("WATCHDOG_USEC", "")
	return &manager{t, c}
}

// next returns the lines of the next message, or nil if none arrives in time.
func (m *manager) next(within time.Duration) []string {
	m.t.Helper()
	if err := m.SetReadDeadline(time.Now().Add(within)); err != nil {
		m.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := m.Read(b)
	if err != nil {
		return nil
	}
	return strings.Split(string(b[:n]), "\n")
}

// await skips messages until one has the line, and returns that message.
func (m *manager) await(line string) []string {
	m.t.Helper()
	var before [][]string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		got := m.next(time.Until(deadline))
		if slices.Contains(got, line) {
			return got
		}
		before = append(before, got)
	}
	m.t.Fatalf("was not told %q, but %q", line, before)
	return nil
}

// silentAbout fails the test if a message with the line arrives in time.
func (m *manager) silentAbout(line string, within time.Duration) {
	m.t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if got := m.next(time.Until(deadline)); slices.Contains(got, line) {
			m.t.Fatalf("was told %q", got)
		}
	}
}

func follow(t *testing.T, f *fake) (n *Notifier, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	return Follow(ctx, f, slog.New(slog.NewTextHandler(t.Output(), nil))), stop
}

// TestShutPortsAreNamed checks that the status tells ports that were shut from ports that are down.
func TestShutPortsAreNamed(t *testing.T) {
	m, f := newManager(t), &fake{shut: "sw1"}
	f.set(nil, false, false)
	follow(t, f)
	m.await("STATUS=lossless drops: 0, ports up: 0 of 2, down: sw0 sw1 (shut)")
}

// TestReadyWhenDevicesAreOpen checks that READY is sent when the devices are open, not earlier, and
// does not wait for links. The status names the ports that are down.
func TestReadyWhenDevicesAreOpen(t *testing.T) {
	m, f := newManager(t), new(fake)
	f.set(errors.New("not begun"), false, false)
	_, stop := follow(t, f)
	m.await("STATUS=starting")
	m.await("STATUS=a worker does not answer: not begun")
	f.set(nil, true, false)
	m.await("STATUS=lossless drops: 0, ports up: 1 of 2, down: sw1")
	m.silentAbout("READY=1", 5*lookInterval)
	f.open()
	m.await("READY=1")
	f.set(nil, true, true)
	m.await("STATUS=lossless drops: 0, ports up: 2 of 2")
	f.set(nil, false, false)
	m.await("STATUS=lossless drops: 0, ports up: 0 of 2, down: sw0 sw1")
	stop()
	m.await("STOPPING=1")
	m.silentAbout("READY=1", 2*lookInterval)
}

// TestWatchdog checks that the watchdog gets three messages per timeout while the workers answer
// and the control loop runs, and none otherwise.
func TestWatchdog(t *testing.T) {
	m, f := newManager(t), new(fake)
	t.Setenv("WATCHDOG_USEC", "300000")
	f.set(nil, true)
	f.open()
	follow(t, f)
	m.await("READY=1")
	began := time.Now()
	for range 5 {
		m.await("WATCHDOG=1")
	}
	if took := time.Since(began); took > 5*300*time.Millisecond {
		t.Errorf("five words to the watchdog took %v", took)
	}
	f.set(errors.New("stuck"), true)
	m.await("STATUS=a worker does not answer: stuck")
	m.silentAbout("WATCHDOG=1", time.Second)
	f.set(nil, true)
	f.stall(7 * time.Second)
	m.await("STATUS=control loop stalled for 7s")
	m.silentAbout("WATCHDOG=1", time.Second)
	f.stall(0)
	f.set(nil, false) // a port that is down does not mean that a worker hangs
	m.await("STATUS=lossless drops: 0, ports up: 0 of 1, down: sw0")
	for range 5 {
		m.await("WATCHDOG=1")
	}
}

// TestManyPortsDown checks that a message never gets so long that systemd ignores it.
func TestManyPortsDown(t *testing.T) {
	m, f := newManager(t), new(fake)
	f.set(nil, make([]bool, 1024)...)
	follow(t, f)
	m.await("STATUS=starting")
	if got := m.next(patience); len(got) != 1 ||
		!strings.HasPrefix(got[0], "STATUS=lossless drops: 0, ports up: 0 of 1024, down: sw0 sw1 ") ||
		!strings.HasSuffix(got[0], " sw63 and 960 more") {
		t.Errorf("told %q", got)
	}
}

// TestWatchdogOfAnother checks that a watchdog meant for another process is ignored.
func TestWatchdogOfAnother(t *testing.T) {
	m, f := newManager(t), new(fake)
	t.Setenv("WATCHDOG_USEC", "300000")
	t.Setenv("WATCHDOG_PID", "1")
	f.set(nil, true)
	f.open()
	follow(t, f)
	m.await("READY=1")
	m.silentAbout("WATCHDOG=1", time.Second)
}

func TestReload(t *testing.T) {
	m, f := newManager(t), new(fake)
	f.set(nil, false)
	n, _ := follow(t, f)
	if err := n.Reload(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	m.silentAbout("READY=1", 3*lookInterval) // the switch was not ready, and a reload must not make it so
	f.open()
	m.await("READY=1")
	refused := errors.New("refused")
	err := n.Reload(func() error {
		told := m.await("RELOADING=1")
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			t.Error(err)
		}
		text, ok := strings.CutPrefix(told[len(told)-1], "MONOTONIC_USEC=")
		if at, err := strconv.ParseInt(text, 10, 64); !ok || err != nil || at > now.Nano()/1000 ||
			at < now.Nano()/1000-patience.Microseconds() {
			t.Errorf("told %q at %d us", told, now.Nano()/1000)
		}
		return refused
	})
	if err != refused {
		t.Errorf("the error of a reload became %v", err)
	}
	m.await("READY=1")
}

// TestNobodyListens checks that a switch started by hand reloads without systemd.
func TestNobodyListens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n, _ := follow(t, new(fake))
	done := false
	if err := n.Reload(func() error { done = true; return nil }); n != nil || err != nil || !done {
		t.Errorf("%v, %v, reloaded: %t", n, err, done)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nowhere"))
	if n, _ := follow(t, new(fake)); n != nil {
		t.Error("speaks to a socket that there is not")
	}
}
