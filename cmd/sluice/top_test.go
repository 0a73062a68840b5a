package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/internal/state"
)

// standIn answers on a socket like a switch with 40 ports, each forwarding a million 60-byte frames
// per second.
type standIn struct {
	t      *testing.T
	path   string
	silent atomic.Bool // does not answer
	change func(*state.Switch)
	server *http.Server
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	return newStandInWith(t, func(*state.Switch) {})
}

// newStandInWith returns a switch whose reports a function changes.
func newStandInWith(t *testing.T, change func(*state.Switch)) *standIn {
	t.Helper()
	s := &standIn{t: t, path: program.SocketPath(t), change: change}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// start starts a new run of the switch.
func (s *standIn) start() {
	s.t.Helper()
	began := time.Now()
	listener, err := net.Listen("unix", s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.silent.Load() {
			<-r.Context().Done()
			return
		}
		report := standInReport(began)
		s.change(report)
		_ = json.NewEncoder(w).Encode(report)
	})}
	go s.server.Serve(listener)
}

func (s *standIn) stop() { s.server.Close() }

func standInReport(began time.Time) *state.Switch {
	now := time.Now()
	up := now.Sub(began).Nanoseconds()
	r := &state.Switch{Time: now, UptimeNS: up, CellBytes: 256, Workers: []state.Worker{{NowNS: up, BurstSize: 64}}}
	for i := range 40 {
		n := uint64(up / 1e3)
		p := state.Port{Name: fmt.Sprintf("port%d", i+1), Number: i, NowNS: up, Up: true, Mode: "zero-copy", Speed: 1e9,
			FlowControl: "pfc",
			Received:    n, ReceivedBytes: 60 * n, Sent: n, SentBytes: 60 * n}
		for cos := range 8 {
			p.ByCoS = append(p.ByCoS, state.CoS{CoS: cos, Lossless: cos == lossless})
		}
		r.Ports = append(r.Ports, p)
	}
	return r
}

// TestTopEnds ends top in every possible way. The exit code must be 0 and the terminal restored.
func TestTopEnds(t *testing.T) {
	s := newStandIn(t)
	signal := func(n unix.Signal) func(*viewer) {
		return func(v *viewer) { _ = v.cmd.Process.Signal(n) }
	}
	press := func(keys string) func(*viewer) {
		return func(v *viewer) { v.press(keys) }
	}
	for name, end := range map[string]func(*viewer){
		"q": press("q"), "Ctrl-C": press("\x03"), "Ctrl-\\": press("\x1c"), "keys before q": press("jj\x1b[A\tq"),
		"SIGTERM": signal(unix.SIGTERM), "SIGHUP": signal(unix.SIGHUP),
	} {
		t.Run(name, func(t *testing.T) {
			v := onTerminal(t, "top", "--socket", s.path)
			v.awaitText("lossless drops: 0")
			end(v)
			if code := v.exitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if got := v.screen.all(); len(got) > 0 {
				t.Errorf("left on the screen: %q", got)
			}
		})
	}
}

// TestTopKeys selects a section, scrolls to its end and back, and moves to the next section.
func TestTopKeys(t *testing.T) {
	v := onTerminal(t, "top", "--socket", newStandIn(t).path)
	v.awaitText("1.00M") // frames/s: there were two reports
	v.press("1")
	v.await("the ports alone", func(lines []string) bool {
		return onScreen(lines, "port20 ") &&
			!onScreen(lines, "WORKERS")
	})
	v.press("j\x1b[B\x1bOBk")
	v.await("two lines less at the top", func(lines []string) bool {
		return onScreen(lines, "port3 ") &&
			!onScreen(lines, "port2 ")
	})
	v.press("\x1b[6~ \x1b[6~")
	v.awaitText("port40 ")
	v.press("\x1b[A") // must count from the end, not from beyond it
	v.await("a line back", func(lines []string) bool {
		return onScreen(lines, "port39 ") &&
			!onScreen(lines, "port40 ")
	})
	v.press("\x1b[15~\x1b[1;5A") // unknown sequences
	v.press("\t")
	v.await("the pauses alone", func(lines []string) bool {
		return onScreen(lines, "rcvd 0") && onScreen(lines, "port1 ") && !onScreen(lines, "frame/s")
	})
	v.press("0")
	v.awaitText("WORKERS")
	v.press("q")
	v.exitCode()
}

// TestTopWindowSize changes the size of the window while top runs.
func TestTopWindowSize(t *testing.T) {
	v := onTerminal(t, "top", "--socket", newStandIn(t).path)
	v.awaitText("q quit")
	v.resize(40, 10)
	v.await("a small window, full", func(lines []string) bool {
		return lines[0] == "lossless drops: 0" && strings.HasPrefix(lines[9], "q quit")
	})
	v.resize(132, 50)
	v.await("a large window, full", func(lines []string) bool {
		return onScreen(lines, "PFC out") &&
			strings.HasPrefix(lines[49], "q quit")
	})
	v.press("q")
	v.exitCode()
}

// TestTopOutlivesTheSwitch checks that top reports a missing answer, still handles keys, and
// continues when the switch answers again.
func TestTopOutlivesTheSwitch(t *testing.T) {
	s := newStandIn(t)
	v := onTerminal(t, "top", "--socket", s.path, "--interval", "100ms")
	v.awaitText("1.00M")
	s.stop()
	lines := v.awaitText("no switch answers at")
	if !strings.HasPrefix(lines[0], "lossless drops: unknown; 0 in the last report, ") {
		t.Errorf("the first line is %q", lines[0])
	}
	s.start()
	v.await("the switch again", func(lines []string) bool {
		return lines[0] == "lossless drops: 0" &&
			onScreen(lines, "1.00M")
	})
	s.silent.Store(true)
	v.awaitText("has not answered within 3s")
	v.press("5")
	v.await("the workers alone", func(lines []string) bool {
		return onScreen(lines, "WORKERS") &&
			!onScreen(lines, "PORTS")
	})
	s.silent.Store(false)
	v.await("an answer", func(lines []string) bool { return lines[0] == "lossless drops: 0" })
	v.press("q")
	if code := v.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestTopOfAKilledSwitch watches a switch that is killed and replaced by another.
func TestTopOfAKilledSwitch(t *testing.T) {
	s := program.NewSite(t, 2)
	socket := program.SocketPath(t)
	text := "control: {socket: " + socket + "}\nports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]"
	first := program.StartSwitch(t, s.Home, text)
	v := onTerminal(t, "top", "--socket", socket, "--interval", "100ms")
	running := func(lines []string) bool {
		return lines[0] == "lossless drops: 0" && strings.Contains(lines[3], "port1") &&
			!strings.Contains(lines[3], " - ")
	}
	v.await("rates of the first", running)
	first.Signal(unix.SIGKILL)
	first.ExitCode()
	v.awaitText("no switch answers at " + socket)
	second := program.StartSwitch(t, s.Home, text)
	v.await("rates of the second", running)
	second.Stop()
	v.awaitText("no switch answers at " + socket)
	v.press("q")
	if code := v.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestTopStopped checks that Ctrl-Z returns the terminal to the shell and that top can continue.
// Without a shell, top continues at once.
func TestTopStopped(t *testing.T) {
	s := newStandIn(t)
	v := onTerminal(t, "top", "--socket", s.path)
	v.awaitText("q quit")
	v.press("\x1a")
	program.Until(t, "the screen to be taken again", func() bool { return strings.Count(v.written(), takeScreen) == 2 })
	v.awaitText("q quit")
	v.press("q")
	v.exitCode()

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PS1", "$ ")
	v = commandOnTerminal(t, exec.Command("/bin/sh", "-i"))
	v.press(self + " top --socket " + s.path + "\n")
	v.awaitText("q quit")
	v.press("\x1a")
	v.await("the shell", atPrompt)
	if now := v.settings(); now.Lflag&unix.ICANON == 0 || now.Lflag&unix.ECHO == 0 {
		t.Error("the shell has got a keyboard that is not as it was")
	}
	v.press("fg\n")
	v.awaitText("q quit")
	v.press("q")
	v.await("the shell", atPrompt) // input typed before this is lost
	v.press("exit\n")
	v.exitCode()
}

// atPrompt reports whether the last line is a shell prompt.
func atPrompt(lines []string) bool {
	return strings.HasSuffix(strings.TrimRight(strings.Join(lines, "\n"), "\n"), "\n$")
}

// TestTopStyles checks that NO_COLOR disables styles and leaves the text unchanged.
func TestTopStyles(t *testing.T) {
	s := newStandIn(t)
	for value, want := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", value)
		v := onTerminal(t, "top", "--socket", s.path)
		v.awaitText("q quit")
		if got := strings.Contains(v.written(), styleNormal); got != want {
			t.Errorf("NO_COLOR=%s: styles %t", value, got)
		}
		v.press("q")
		v.exitCode()
	}
}

// TestTopElsewhere checks that top prints plain text without a terminal.
func TestTopElsewhere(t *testing.T) {
	s := newStandIn(t)
	once := program.Launch(t, nil, "top", "--socket", s.path, "--once", "--interval", "100ms")
	if code := once.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text := once.Output.String()
	if strings.Count(text, "lossless drops: 0\n") != 1 || !strings.Contains(text, "port40 ") ||
		!strings.Contains(text, "1.00M") || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	p := program.Launch(t, nil, "top", "--socket", s.path, "--interval", "100ms")
	time.Sleep(time.Second)
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count("\n"+p.Output.String(), "\n\nlossless drops: 0\n"); n < 1 {
		t.Errorf("printed %d times more:\n%s", n, &p.Output)
	}
}

// TestTopRefuses checks the errors of top.
func TestTopRefuses(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for want, test := range map[string]struct {
		code int
		args []string
	}{
		"no switch answers at " + nowhere:              {cli.ExitFailure, []string{"--socket", nowhere}},
		"--interval 1ms is too short":                  {cli.ExitUsage, []string{"--interval", "1ms"}},
		"unknown command \"port1\" for \"sluice top\"": {cli.ExitUsage, []string{"port1"}},
	} {
		p := program.Launch(t, nil, append([]string{"top"}, test.args...)...)
		if code := p.ExitCode(); code != test.code || !strings.Contains(strings.Join(p.Log.All(), "\n"), want) {
			t.Errorf("%q: exit code %d, %q", test.args, code, p.Log.All())
		}
	}
}
