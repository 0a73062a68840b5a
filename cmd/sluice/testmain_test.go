package main

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
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/config"
	"sluice/internal/console"
	"sluice/pmd/afxdp"
)

// These tests run the program as its users do: as a process of its own, on real devices, inside a lab. A typical one:
//
//	s := newSite(t, 2)                  // a namespace with port1 and port2, leading to two hosts
//	p := startSwitch(t, s.home, text)   // sluice run, forwarding
//	…                                   // p.await(1, "msg=\"link changed\" port=port1 up=false"), p.signal(unix.SIGHUP), …
//	r := p.stop()                       // SIGTERM, exit code 0, the final report

const (
	// asProgram, set in the environment, makes the test binary be the program. So the program has what the tests were
	// built with: the race detector, or coverage, which `go test` adds to that of the tests.
	asProgram = "SLUICE_TEST_AS_PROGRAM"
	// patience bounds every wait for something that takes well below a second on a machine with nothing else to do.
	patience = 30 * time.Second
	// hostDevice is what each host of a site calls its device, in its own namespace.
	hostDevice = "host0"
)

// txEngine is who transmits: with -tx resident the switches of startSwitch have a transmitter.
var txEngine = flag.String("tx", afxdp.TXSocket, "who transmits: "+afxdp.TXSocket+" or "+afxdp.TXResident)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// site is a place for a switch: the devices port1, port2, … in the namespace home lead to a host each.
type site struct {
	lab   *netns.Lab
	home  *netns.Namespace
	hosts []*netns.Namespace // hosts[i] is behind port(i+1); its device is hostDevice
}

// needRoot skips the test if it may not do what all of these tests do.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and AF_XDP sockets")
	}
}

// newSite makes a site with n hosts, which is gone when the test ends.
func newSite(t *testing.T, n int, options ...netns.Option) site {
	t.Helper()
	needRoot(t)
	l, err := netns.New("program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	s := site{lab: l}
	if s.home, err = l.Namespace("switch"); err != nil {
		t.Fatal(err)
	}
	for _, f := range remembered(t, s) { // of a namespace that had the same inode, left by a switch that a test had killed
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		host, err := l.Namespace(fmt.Sprintf("host%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		s.veth(t, s.home, fmt.Sprintf("port%d", i+1), host, hostDevice, options...)
		s.hosts = append(s.hosts, host)
	}
	return s
}

// veth joins two namespaces by a pair of devices, which take frames of a transmitter if there is to be one.
func (s site) veth(t *testing.T, a *netns.Namespace, aDevice string, b *netns.Namespace, bDevice string, options ...netns.Option) {
	t.Helper()
	if *txEngine == afxdp.TXResident {
		options = append(options, netns.GRO())
	}
	if err := s.lab.Veth(a, aDevice, b, bDevice, options...); err != nil {
		t.Fatal(err)
	}
}

// addressIn returns the MAC address of a device in a namespace.
func addressIn(t *testing.T, n *netns.Namespace, device string) string {
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

// What a switch prints at its end.
type (
	report     struct{ console.Report }
	portReport = console.Port
	dropReport = console.Drop
)

// process is a running program. It is used by the test's goroutine.
type process struct {
	*exec.Cmd
	t      *testing.T
	began  time.Time
	stdout bytes.Buffer // complete once ended is closed
	sends  bool         // by the transmitter of withTransmitter
	log    logLines     // what it writes to its standard error
	ended  chan struct{}
}

// launch starts sluice in a namespace, or, if that is nil, in the one that the test runs in; see launchCommand.
func launch(t *testing.T, in *netns.Namespace, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return launchCommand(t, in, c)
}

// launchCommand starts any program. Its standard error is the log, unless the command has another. It is killed when the
// test ends, if it still runs then; if the test failed, its log is shown.
func launchCommand(t *testing.T, in *netns.Namespace, c *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: c, t: t, ended: make(chan struct{})}
	p.Stdout = &p.stdout
	if p.Stderr == nil {
		p.Stderr = &p.log
	}
	start := p.Start
	if in != nil {
		start = func() error { return in.Start(p.Cmd) }
	}
	p.began = time.Now()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // p.ProcessState says it all
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.Cmd, strings.Join(p.log.all(), "\n"))
		}
	})
	return p
}

// startSwitch launches `sluice run` with a configuration and returns when it forwards and all its ports are up. It answers on
// a socket of its own, and shows its metrics nowhere, unless the configuration says where.
func startSwitch(t *testing.T, in *netns.Namespace, text string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(withTransmitter(t, withSocket(t, text))), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t, in, "run", "-c", file, "--json")
	p.sends = *txEngine == afxdp.TXResident && c.HasTransmitter()
	p.await(1, "msg=forwarding")
	p.await(len(c.Ports), `msg="link changed"`, "up=true")
	return p
}

// withSocket gives a configuration that does not say where the switch answers a socket of its own, and one that does not say
// where its metrics are served nowhere, since several switches run in one place.
func withSocket(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains("\n"+text, "\ncontrol:") {
		text = fmt.Sprintf("%s\ncontrol: {socket: %s}\n", strings.TrimRight(text, "\n"), socketPath(t))
	}
	if !strings.Contains("\n"+text, "\nmetrics:") {
		text = strings.TrimRight(text, "\n") + "\nmetrics: {listen: none}\n"
	}
	return text
}

// withTransmitter gives a configuration a transmitter, if one is to transmit.
func withTransmitter(t *testing.T, text string) string {
	t.Helper()
	if *txEngine != afxdp.TXResident {
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
		if c.Ports[i].TX != config.TXResident {
			t.Fatalf("%s has another engine:\n%s", c.Ports[i].Device, text)
		}
	}
	return text
}

// socketPath returns a path for a socket: that of a test's directory may be too long for one. It is gone when the test ends.
func socketPath(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "sluice")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	return filepath.Join(directory, "socket")
}

// await waits until count lines of the log contain all the words, and returns how long after its start the program
// wrote the last of them. The test ends if the program does.
func (p *process) await(count int, words ...string) time.Duration {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ended := p.hasEnded() // asked first: the log is complete if so
		if at := p.log.find(words); len(at) >= count {
			return at[count-1].Sub(p.began)
		}
		if ended || time.Now().After(deadline) {
			p.t.Fatalf("not %d times %q in the log after %v (ended: %v)", count, words, time.Since(p.began), ended)
		}
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal sends the program a signal.
func (p *process) signal(s unix.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exitCode waits for the end of the program and returns its exit code, or -1 if a signal ended it.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("has not ended within %v", patience)
	}
	return p.ProcessState.ExitCode()
}

// document decodes the one JSON document that an ended program printed, and nothing else, into v.
func (p *process) document(v any) {
	p.t.Helper()
	if err := json.Unmarshal(p.stdout.Bytes(), v); err != nil {
		p.t.Fatalf("not one JSON document: %v\n%s", err, p.stdout.Bytes())
	}
}

// stop ends a switch of startSwitch as its owner would, and returns its report.
func (p *process) stop() (r report) {
	p.t.Helper()
	p.signal(unix.SIGTERM)
	if code := p.exitCode(); code != 0 {
		p.t.Fatalf("exit code %d after SIGTERM", code)
	}
	p.document(&r)
	if p.sends {
		p.checkTransmitted()
	}
	return r
}

// checkTransmitted tests that the transmitter has sent for all ports of a switch, but for moments in which a peer began or ended.
func (p *process) checkTransmitted() {
	p.t.Helper()
	count := func(words ...string) int { return len(p.log.find(words)) }
	if opened, resident := count(`msg="port open"`), count(`msg="port open"`, "tx=resident"); opened == 0 || resident < opened {
		p.t.Errorf("of %d ports that were opened %d had the transmitter", opened, resident)
	}
	left, peers, back := count("leaves the port to its socket"), count("takes no frames of programs"), count("the transmitter has the port again")
	if left > peers {
		p.t.Errorf("%d times the transmitter left a port to its socket, and %d times because of the peer", left, peers)
	}
	const recently = 2 * time.Second // it comes back within one
	since := time.Now().Add(-recently)
	settled := slices.DeleteFunc(p.log.find([]string{"leaves the port to its socket"}), since.Before)
	if len(settled) > back {
		p.t.Errorf("%d times the transmitter left a port to its socket, and %d times it came back", len(settled), back)
	}
}

// port returns what a report says of a port.
func (r report) port(t *testing.T, name string) portReport {
	t.Helper()
	i := slices.IndexFunc(r.Ports, func(p portReport) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no port %s in %+v", name, r)
	}
	return r.Ports[i]
}

// drops returns how many frames of a CoS were dropped, on whatever port and for whatever reason.
func (r report) drops(cos int) (n uint64) {
	for _, p := range r.Ports {
		for _, d := range p.Drops {
			if d.CoS == cos {
				n += d.Frames
			}
		}
	}
	return n
}

// logLines keeps what is written to it, by line, and when each line came.
type logLines struct {
	lock    sync.Mutex
	lines   []string
	at      []time.Time // of lines
	partial []byte      // the line that has not ended yet
}

// Write is called by one goroutine, of exec.Cmd.
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

// find returns when those lines came that contain all the words.
func (l *logLines) find(words []string) (at []time.Time) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for i, line := range l.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			at = append(at, l.at[i])
		}
	}
	return at
}

func (l *logLines) all() []string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return append(slices.Clone(l.lines), string(l.partial))
}

// underRace tells whether the race detector is in, which takes several times the memory and the time.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}
