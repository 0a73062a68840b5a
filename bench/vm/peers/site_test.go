package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
	"sluice/internal/frame"
	"sluice/internal/state"
)

const (
	lossless = 3 // the lossless CoS
	// lineRate is the speed in bit/s of a port, slowRate that of one that is overloaded. An
	// emulated guest sends some 40 Mbit/s.
	lineRate, slowRate = 40e6, 16e6
)

// site is a switch on this machine, with hosts at its ports port1, port2, …
type site struct {
	program.Site
	rigtest.Net
	program string // the path of the switch's program
	socket  string
	sw      *program.Running
}

// newSite makes namespaces for a switch and its hosts, which options of their links are for.
func newSite(t *testing.T, ports int, options ...netns.Option) *site {
	t.Helper()
	rigtest.Need(t)
	programs, err := rig.Programs()
	rigtest.Must(t, err)
	s := &site{Site: program.NewSite(t, ports, options...), program: filepath.Join(t.TempDir(), "sluice"),
		socket: program.SocketPath(t)}
	rigtest.Must(t, os.WriteFile(s.program, programs["sluice"], 0o755))
	t.Cleanup(func() { s.Net.Close(t) })
	return s
}

// start starts the switch. The speed of the ports is lineRate, unless the map has another one.
func (s *site) start(t *testing.T, speeds map[int]float64, more string) {
	t.Helper()
	var c strings.Builder
	c.WriteString("ports:\n")
	for i := range s.Hosts {
		speed, other := speeds[i]
		if !other {
			speed = lineRate
		}
		fmt.Fprintf(&c, "  - {device: port%d, speed: %.0fK, link_speed: %.0fM}\n", i+1, speed/1e3, lineRate/1e6)
	}
	if !strings.Contains(more, "forwarding:") {
		more += "forwarding: {loop_guard: off}\n" // the hosts count every frame
	}
	// Headroom is for what arrives within half a second: the machine may leave a host or the switch
	// without a CPU for a while.
	fmt.Fprintf(&c, `memory: {buffers: 24576}
classes:
  - {cos: [%d], lossless: true, share: 128KiB, headroom: 6MB}
metrics: {listen: none}
control: {socket: %s}
%s`, lossless, s.socket, more)
	s.run(t, c.String())
}

// run runs the switch with a configuration.
func (s *site) run(t *testing.T, configuration string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	rigtest.Must(t, os.WriteFile(file, []byte(configuration), 0o644))
	s.sw = program.LaunchCommand(t, s.Home, exec.Command(s.program, "run", "-c", file))
	s.sw.Await(1, "msg=forwarding")
	s.sw.Await(len(s.Hosts), `msg="link changed"`, "up=true")
}

// show runs a command of the switch's program and decodes what it prints.
func (s *site) show(t *testing.T, v any, args ...string) {
	t.Helper()
	c := exec.Command(s.program, append(args, "--json", "--socket", s.socket)...)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", c.Args, err, out)
	}
	rigtest.Must(t, json.Unmarshal(out, v))
}

// state asks the switch for its state.
func (s *site) state(t *testing.T) (of state.Switch) {
	t.Helper()
	s.show(t, &of, "show")
	return of
}

func (s *site) conserves(t *testing.T) {
	t.Helper()
	s.Net.Conserves(t, func() state.Switch { return s.state(t) })
	rigtest.CheckDrivers(t, s.state(t))
}

// peer adds a host without a guest behind a port, counted from 0.
func (s *site) peer(t *testing.T, port int) *rig.Peer {
	t.Helper()
	p, err := rig.NewPeerOn(s.Hosts[port], program.HostDevice, 0x020000000001+frame.MAC(port), lineRate)
	rigtest.Must(t, err)
	s.Peers = append(s.Peers, p)
	return p
}

// load sends frames of some shape from a peer to an address, at a rate in bit/s, without end. The
// function that it returns ends it, and returns how many frames it was.
func load(p *rig.Peer, to frame.MAC, shape func(int) rig.Shape, rate float64) (end func() (frames uint64, err error)) {
	const piece = 100
	f := &rig.Flow{Src: p.MAC, Dst: to, Shape: shape}
	stop, done := make(chan struct{}), make(chan error, 1)
	frames := uint64(0)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := p.Send(f, piece, rate/float64(8*shape(0).Bytes)); err != nil {
				done <- err
				return
			}
			frames += piece
		}
	}()
	return func() (uint64, error) {
		close(stop)
		return frames, <-done
	}
}

// host is a guest whose NICs are connected by adapters.
type host struct {
	*rig.Guest
	adapters []*rig.Adapter
}

// place is a device that a guest's NIC is connected to.
type place struct {
	in     *netns.Namespace
	device string
}

// port is the place behind a port, counted from 0.
func (s *site) port(number int) place { return place{s.Hosts[number], program.HostDevice} }

// boots counts guests.
var boots int

// boot boots a guest with a NIC at each of some places. Its addresses differ from those of others.
func boot(t *testing.T, m rig.Machine, places ...place) *host {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	m.Driver, m.NICs, m.Adapters = rig.VirtioNetPlain, len(places), true
	g, err := rig.Boot(ctx, m, t.Logf)
	rigtest.Must(t, err)
	boots++
	h := &host{Guest: g}
	t.Cleanup(func() { h.close(t) })
	// Frames leave in order, and none is lost while they are paused: fq_codel, the default, mixes
	// flows, and drops or marks frames that have waited for long.
	h.run(t, "sysctl", "-q", "-w", "net.core.default_qdisc=pfifo")
	for nic, at := range places {
		a, err := g.NewAdapter(nic, at.in, at.device, lineRate)
		rigtest.Must(t, err)
		h.adapters = append(h.adapters, a)
		device := fmt.Sprintf("eth%d", nic)
		h.run(t, "ip", "link", "set", device, "address", fmt.Sprintf("02:00:00:01:%02x:%02x", boots, nic))
		rigtest.Must(t, g.WriteFile("/sys/class/net/"+device+"/tx_queue_len", []byte("10000"), 0))
		h.run(t, "ip", "link", "set", device, "up")
	}
	return h
}

// close ends a guest, and reports what its adapters have lost.
func (h *host) close(t *testing.T) {
	for nic, a := range h.adapters {
		received, sent, err := a.Lost()
		if err != nil || received+sent > 0 {
			t.Errorf("adapter of NIC %d: lost %d frames for the guest, and %d from it, %v", nic, received, sent, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Logf("console of the guest:\n%s", h.Console())
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// run runs a program in the guest that must succeed, and returns its output.
func (h *host) run(t *testing.T, args ...string) string {
	t.Helper()
	return rigtest.Run(t, h.Guest, args...)
}

// shell runs shell commands in the guest that must succeed. Programs that busybox has, too, need
// their paths.
func (h *host) shell(t *testing.T, commands string) string {
	t.Helper()
	return h.run(t, "sh", "-ec", commands)
}
