// Package program runs sluice and sluice-lab in tests as users do: as separate processes, on real
// devices, inside a lab. A typical test:
//
//	s := program.NewSite(t, 2)                 // a namespace with port1 and port2, connected to two hosts
//	p := program.StartSwitch(t, s.Home, text)  // sluice run, forwarding
//	…                                          // p.Await(1, "link changed", "port1"), p.Signal(unix.SIGHUP), …
//	r := p.Stop()                              // SIGTERM, exit code 0, the final report
package program

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/config"
	"sluice/internal/state"
	"sluice/pmd/afxdp"
)

const (
	// AsProgram, set in the environment, makes the test binary run the program. So the program is
	// built like the tests: with the race detector, or with coverage, which `go test` adds to that
	// of the tests.
	AsProgram = "SLUICE_TEST_AS_PROGRAM"
	// Patience bounds every wait for an event that takes well below a second on an idle machine.
	Patience = 30 * time.Second
	// HostDevice is the name of each host's device in its own namespace.
	HostDevice = "host0"
)

// TXEngine selects the TX engine: with -tx resident the switches of StartSwitch use a transmitter.
var TXEngine = flag.String("tx", afxdp.TXSocket, "who transmits: "+afxdp.TXSocket+" or "+afxdp.TXTransmitter)

// Site is a place for a switch: the devices port1, port2, … in the namespace Home, each connected
// to a host.
type Site struct {
	Lab   *netns.Lab
	Home  *netns.Namespace
	Hosts []*netns.Namespace // Hosts[i] is behind port(i+1); its device is HostDevice

	options []netns.Option // of all pairs
}

// NeedRoot skips the test if the process lacks the privileges for these tests.
func NeedRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and AF_XDP sockets")
	}
}

// NewSite creates a site with n hosts. It is removed when the test ends.
func NewSite(t *testing.T, n int, options ...netns.Option) Site {
	t.Helper()
	NeedRoot(t)
	l, err := netns.New("program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	s := Site{Lab: l, options: options}
	if s.Home, err = l.Namespace("switch"); err != nil {
		t.Fatal(err)
	}
	// from a namespace with the same inode, left by a switch that a test killed
	for _, f := range slices.Concat(Remembered(t, s), sessions(t, s)) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, f := range sessions(t, s) {
			if err := os.Remove(f); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range n {
		host, err := l.Namespace(fmt.Sprintf("host%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		s.Veth(t, s.Home, fmt.Sprintf("port%d", i+1), host, HostDevice)
		s.Hosts = append(s.Hosts, host)
	}
	return s
}

// Veth connects two namespaces by a veth pair, with the options of the site and further ones. If a
// transmitter is selected, the devices accept its frames.
func (s Site) Veth(t *testing.T, a *netns.Namespace, aDevice string, b *netns.Namespace, bDevice string,
	options ...netns.Option) {
	t.Helper()
	options = slices.Concat(s.options, options)
	if *TXEngine == afxdp.TXTransmitter {
		options = append(options, netns.GRO())
	}
	if err := s.Lab.Veth(a, aDevice, b, bDevice, options...); err != nil {
		t.Fatal(err)
	}
}

// AddressIn returns the MAC address of a device in a namespace.
func AddressIn(t *testing.T, n *netns.Namespace, device string) string {
	t.Helper()
	var mac net.HardwareAddr
	err := n.Do(func() error {
		i, err := net.InterfaceByName(device)
		if err == nil {
			mac = i.HardwareAddr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return mac.String()
}

// Final report of a switch.
type (
	Report     struct{ state.Switch }
	PortReport = state.Port
	DropReport = state.Drop
)

// Running is a running program, for use by the test's goroutine.
type Running struct {
	*exec.Cmd
	T      *testing.T
	Began  time.Time
	Output bytes.Buffer // complete once ended is closed
	sends  bool         // through the transmitter of WithTransmitter
	Log    logLines     // its standard error
	ended  chan struct{}
}

// Launch starts the program under test in a namespace, or in that of the test if in is nil; see
// LaunchCommand.
func Launch(t *testing.T, in *netns.Namespace, args ...string) *Running {
	t.Helper()
	return launch(t, in, self, args...)
}

// Lab starts sluice-lab.
func Lab(t *testing.T, in *netns.Namespace, args ...string) *Running {
	t.Helper()
	return launch(t, in, "sluice-lab", args...)
}

func launch(t *testing.T, in *netns.Namespace, name string, args ...string) *Running {
	t.Helper()
	c := exec.Command(Path(t, name), args...)
	c.Env = append(os.Environ(), AsProgram+"=1")
	return LaunchCommand(t, in, c)
}

// LaunchCommand starts any program. Its standard error is the log, unless the command redirects it.
// If the program still runs when the test ends, it is killed, and by the kernel when this process
// ends; if the test failed, its log is shown.
func LaunchCommand(t *testing.T, in *netns.Namespace, c *exec.Cmd) *Running {
	t.Helper()
	p := &Running{Cmd: c, T: t, ended: make(chan struct{})}
	p.Stdout = &p.Output
	if p.Stderr == nil {
		p.Stderr = &p.Log
	}
	start := p.Start
	if in != nil {
		start = func() error { return in.Start(p.Cmd) }
	}
	if p.SysProcAttr == nil {
		p.SysProcAttr = &unix.SysProcAttr{}
	}
	p.SysProcAttr.Pdeathsig = unix.SIGKILL
	p.Began = time.Now()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the kernel kills the program with the thread that started it
		err := start()
		started <- err
		if err == nil {
			_ = p.Wait() // p.ProcessState has the result
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.Cmd, strings.Join(p.Log.All(), "\n"))
		}
	})
	return p
}

// StartSwitch launches `sluice run` with a configuration and returns when the switch forwards and
// all its ports are up. Unless the configuration says otherwise, the switch has its own control
// socket and does not serve metrics.
func StartSwitch(t *testing.T, in *netns.Namespace, text string) *Running {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(WithTransmitter(t, WithSocket(t, text))), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t, in, "sluice", "run", "-c", file, "--json")
	p.sends = *TXEngine == afxdp.TXTransmitter && c.HasTransmitter()
	p.Await(1, "msg=forwarding")
	p.Await(len(c.Ports), `msg="link changed"`, "up=true")
	return p
}

// WithSocket completes a configuration, because several switches run in one place: without a
// control section it adds a unique socket, without a metrics section it turns serving off.
func WithSocket(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains("\n"+text, "\ncontrol:") {
		text = fmt.Sprintf("%s\ncontrol: {socket: %s}\n", strings.TrimRight(text, "\n"), SocketPath(t))
	}
	if !strings.Contains("\n"+text, "\nmetrics:") {
		text = strings.TrimRight(text, "\n") + "\nmetrics: {listen: none}\n"
	}
	return text
}

// WithTransmitter adds a transmitter to a configuration, if TXEngine selects one.
func WithTransmitter(t *testing.T, text string) string {
	t.Helper()
	if *TXEngine != afxdp.TXTransmitter {
		return text
	}
	text = strings.ReplaceAll(text, "{device:", "{tx: resident, device:")
	text = regexp.MustCompile(`(?m)^( *)- device:`).ReplaceAllString(text, "$1- tx: resident\n$1  device:")
	text += "\ntransmitter: {cpu: worker}\n"
	c, err := config.Parse("with a transmitter", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Ports {
		if c.Ports[i].TX != config.TXTransmitter {
			t.Fatalf("%s has another engine:\n%s", c.Ports[i].Device, text)
		}
	}
	return text
}

// SocketPath returns a path for a socket, since a path in the test's directory may be too long. It
// is removed when the test ends.
func SocketPath(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "sluice")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	return filepath.Join(directory, "socket")
}

// Await waits until count lines of the log contain all the words. It returns the time from the
// program's start to the last of these lines. It fails the test if the program ends.
func (p *Running) Await(count int, words ...string) time.Duration {
	p.T.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(5 * time.Millisecond) {
		ended := p.HasEnded() // checked first: if so, the log is complete
		if at := p.Log.Find(words); len(at) >= count {
			return at[count-1].Sub(p.Began)
		}
		if ended || time.Now().After(deadline) {
			p.T.Fatalf("the log lacks %d lines with %q after %v (ended: %v)", count, words, time.Since(p.Began), ended)
		}
	}
}

// HasEnded reports whether the program has ended; its log is complete then.
func (p *Running) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Signal sends the program a signal.
func (p *Running) Signal(s unix.Signal) {
	p.T.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.T.Fatal(err)
	}
}

// ExitCode waits for the program to end and returns its exit code, or -1 if a signal ended it.
func (p *Running) ExitCode() int {
	p.T.Helper()
	select {
	case <-p.ended:
	case <-time.After(Patience):
		p.T.Fatalf("has not ended within %v", Patience)
	}
	return p.ProcessState.ExitCode()
}

// Document decodes the output of an ended program, which must be exactly one JSON document, into v.
func (p *Running) Document(v any) {
	p.T.Helper()
	if err := json.Unmarshal(p.Output.Bytes(), v); err != nil {
		p.T.Fatalf("not one JSON document: %v\n%s", err, p.Output.Bytes())
	}
}

// Stop stops a switch of StartSwitch as an operator would, and returns its report.
func (p *Running) Stop() (r Report) {
	p.T.Helper()
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		p.T.Fatalf("exit code %d after SIGTERM", code)
	}
	p.Document(&r)
	if p.sends {
		p.checkTransmitted()
	}
	return r
}

// checkTransmitted tests that the transmitter has sent for all ports of a switch whose frames are
// not too long for it, except around the start or end of a peer.
func (p *Running) checkTransmitted() {
	p.T.Helper()
	count := func(words ...string) int { return len(p.Log.Find(words)) }
	opened := count(`msg="port open"`)
	long := count("port sends through its socket", "more than the transmitter's maximum")
	if transmitted := count(`msg="port open"`, "tx=resident"); opened == 0 || transmitted < opened-long {
		p.T.Errorf("%d ports were opened, %d of them with frames too long for the transmitter, but %d with it", opened,
			long, transmitted)
	}
	left, peers, back := count("port switched to its socket"), count("accepts no frames from XDP programs"),
		count("port switched back to the transmitter")
	if left > peers {
		p.T.Errorf("the transmitter left a port to its socket %d times, but %d times because of the peer", left, peers)
	}
	const recently = 2 * time.Second // it returns within one
	since := time.Now().Add(-recently)
	settled := slices.DeleteFunc(p.Log.Find([]string{"port switched to its socket"}), since.Before)
	if len(settled) > back {
		p.T.Errorf("the transmitter left a port to its socket %d times, and came back %d times", len(settled), back)
	}
}

// Port returns a report's part for a port.
func (r Report) Port(t *testing.T, name string) PortReport {
	t.Helper()
	i := slices.IndexFunc(r.Ports, func(p PortReport) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no port %s in %+v", name, r)
	}
	return r.Ports[i]
}

// Drops returns how many frames of a CoS were dropped on any port, for any reason.
func (r Report) Drops(cos int) (n uint64) {
	for _, p := range r.Ports {
		for _, d := range p.Drops {
			if d.CoS == cos {
				n += d.Frames
			}
		}
	}
	return n
}

// logLines keeps the lines written to it and their times.
type logLines struct {
	lock    sync.Mutex
	lines   []string
	at      []time.Time // of lines
	partial []byte      // the line that has not ended yet
}

// Write is called by a single goroutine of exec.Cmd.
func (l *logLines) Write(b []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.partial = append(l.partial, b...)
	for {
		line, rest, ended := bytes.Cut(l.partial, []byte("\n"))
		if !ended {
			return len(b), nil
		}
		l.lines, l.at = append(l.lines, string(line)), append(l.at, time.Now())
		l.partial = rest
	}
}

// Find returns the times of the lines that contain all the words.
func (l *logLines) Find(words []string) (at []time.Time) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for i, line := range l.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			at = append(at, l.at[i])
		}
	}
	return at
}

// All returns all lines.
func (l *logLines) All() []string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return append(slices.Clone(l.lines), string(l.partial))
}

// UnderRace reports whether the race detector is enabled. It multiplies memory and run time.
func UnderRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-race" &&
			s.Value == "true"
	})
}

// OnLink calls do with a device of a namespace.
func OnLink(t *testing.T, n *netns.Namespace, device string, do func(netlink.Link) error) {
	t.Helper()
	err := n.Do(func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return do(link)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Remembered returns the files that hold the settings of a site's ports. A deleted namespace with
// the same inode may have left files, too.
func Remembered(t *testing.T, s Site) (files []string) {
	t.Helper()
	return matching(t, s, afxdp.StateDirectory, "-*.json")
}

// sessions returns the files in which switches keep their FCoE sessions, and their locks.
func sessions(t *testing.T, s Site) (files []string) {
	t.Helper()
	return matching(t, s, filepath.Join(afxdp.RunDirectory, "fcoe"), `[.\-]*`)
}

// matching returns the files in a directory whose names are the inode of the switch's namespace and
// then match a pattern.
func matching(t *testing.T, s Site, directory, pattern string) (files []string) {
	t.Helper()
	err := s.Home.Do(func() error {
		inode, _, err := afxdp.Namespace()
		if err == nil {
			files, err = filepath.Glob(filepath.Join(directory, fmt.Sprint(inode)+pattern))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Until waits until done returns true.
func Until(t *testing.T, what string, done func() bool) {
	t.Helper()
	UntilWithin(t, Patience, what, done)
}

// UntilWithin waits until done returns true, for events that may take longer than Patience.
func UntilWithin(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

// OpenTerminal returns both ends of a pseudo-terminal (pty(7)) with width columns.
func OpenTerminal(t *testing.T, width uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// self is the name of the program that the test binary can run.
var self string

// Main is the TestMain of a program's package. It runs the tests or, in a process of Launch, the
// program.
func Main(m *testing.M, name string, main func()) {
	if os.Getenv(AsProgram) != "" {
		main()
		os.Exit(0)
	}
	self = name
	code := m.Run()
	if built.directory != "" {
		os.RemoveAll(built.directory)
	}
	os.Exit(code)
}

// built holds the programs other than the test binary.
var built struct {
	lock      sync.Mutex
	directory string
	paths     map[string]string // by name
}

// Path returns the path of a program: the test binary, which runs the program if AsProgram is set,
// or another program, built now, with the race detector if the test has it.
func Path(t *testing.T, name string) string {
	t.Helper()
	if name == self {
		path, err := os.Executable()
		Must(t, err)
		return path
	}
	built.lock.Lock()
	defer built.lock.Unlock()
	if path, done := built.paths[name]; done {
		return path
	}
	if built.directory == "" {
		var err error
		built.directory, err = os.MkdirTemp("", "sluice-programs")
		Must(t, err)
		built.paths = map[string]string{}
	}
	path := filepath.Join(built.directory, name)
	build := exec.Command("go", "build", fmt.Sprintf("-race=%t", UnderRace()), "-o", path, "sluice/cmd/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	built.paths[name] = path
	return path
}

// Memory returns one of the sizes in /proc/PID/status, in bytes.
func (p *Running) Memory(name string) float64 {
	p.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		p.T.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindSubmatch(status)
	if line == nil {
		p.T.Fatalf("no %s in %s", name, status)
	}
	kB, err := strconv.Atoi(string(line[1]))
	if err != nil {
		p.T.Fatal(err)
	}
	return float64(kB) * 1024
}

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Class sums up all ports' counters for a CoS.
func (r Report) Class(cos int) (received, sent uint64, drops map[string]uint64) {
	drops = map[string]uint64{}
	for _, p := range r.Ports {
		received += p.ByCoS[cos].Received
		sent += p.ByCoS[cos].Sent
		for _, d := range p.Drops {
			if d.CoS == cos {
				drops[d.Reason] += d.Frames
			}
		}
	}
	return received, sent, drops
}

// Namespace adds a namespace to the lab of a site.
func (s Site) Namespace(t *testing.T, name string) *netns.Namespace {
	t.Helper()
	n, err := s.Lab.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
