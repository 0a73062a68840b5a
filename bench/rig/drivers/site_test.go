package drivers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/rig"
	"sluice/internal/state"
)

const (
	// patience bounds every wait. Emulation makes a guest a hundred times slower than this machine,
	// and the machine may have others to serve.
	patience = 60 * time.Second
	lossless = 3 // the lossless CoS
	lossy    = 0
	// lineRate is the speed in bit/s of eth0 and eth1, outRate that of eth2, which is overloaded.
	lineRate, outRate = 100e6, 20e6
	file              = "/tmp/sluice.yaml"
)

// rigged describes a rig: a driver, and how the switch uses it.
type rigged struct {
	driver rig.Driver
	mode   string // of the ports
	shows  string // how show calls this mode
	buffer int    // bytes
	queues int
	cpus   int
}

// site is a guest with a switch between three peers.
type site struct {
	rigged
	guest   *rig.Guest
	peers   []*rig.Peer
	sw      *rig.Process // the switch; nil: it does not run
	initial string       // settings of the devices before the switch ran first
	flows   uint32
	judged  map[*rig.Flow]string // what they are
	devices []string
}

// newSite boots a guest for a test.
func newSite(t *testing.T, r rigged) *site {
	t.Helper()
	if os.Getenv("SLUICE_RIG") != "1" {
		t.Skip("takes minutes and fetches 150 MB the first time: make rig")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and tap devices")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	began := time.Now()
	m := rig.Machine{Driver: r.driver, NICs: 3, Switch: true, Queues: r.queues, CPUs: r.cpus}
	g, err := rig.Boot(ctx, m, t.Logf)
	must(t, err)
	t.Logf("the guest runs Linux %s after %.1f s, %.1f s of them its own", g.Kernel, time.Since(began).Seconds(),
		g.Uptime.Seconds())
	s := &site{rigged: r, guest: g, judged: map[*rig.Flow]string{}}
	t.Cleanup(func() { s.close(t) })
	for n := range g.Hosts {
		s.devices = append(s.devices, fmt.Sprintf("eth%d", n))
		s.run(t, "ip", "link", "set", s.devices[n], "up")
	}
	until(t, "all devices have their links", func() bool {
		up := 0
		for _, d := range s.devices {
			l, err := g.Link(d)
			must(t, err)
			if l.Carrier {
				up++
			}
		}
		return up == len(s.devices)
	})
	s.initial = s.settings(t)
	return s
}

func (s *site) close(t *testing.T) {
	for _, p := range s.peers {
		p.Close()
	}
	if t.Failed() {
		t.Logf("console of the guest:\n%s", s.guest.Console())
		if s.sw != nil {
			t.Logf("log of the switch:\n%s", s.sw.Result().Stderr)
		}
	}
	if err := s.guest.Close(); err != nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits until done returns true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// run runs a program in the guest that must succeed, and returns its output.
func (s *site) run(t *testing.T, args ...string) string {
	t.Helper()
	r, err := s.guest.Run(args...)
	must(t, err)
	if r.Status != 0 {
		t.Fatalf("%v: status %d: %s%s", args, r.Status, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// settings describes the devices as others than the switch see them.
func (s *site) settings(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, d := range s.devices {
		l, err := s.guest.Link(d)
		must(t, err)
		fmt.Fprintf(&all, "%s: flags %#x, promiscuity %d, XDP %t, MTU %d\n", d, l.Flags, l.Promisc, l.XDP != 0, l.MTU)
		for _, option := range []string{"-k", "-l", "-a", "-g", "-c"} {
			r, err := s.guest.Run("ethtool", option, d) // not every driver has all
			must(t, err)
			all.WriteString(r.Stdout)
		}
		for _, f := range []string{"gro_flush_timeout", "napi_defer_hard_irqs", "tx_queue_len", "threaded"} {
			text, err := s.guest.ReadFile("/sys/class/net/" + d + "/" + f)
			must(t, err)
			fmt.Fprintf(&all, "%s: %s", f, text)
		}
	}
	return all.String()
}

// configuration returns the switch's file. The speed is that of eth2.
func (s *site) configuration(speed float64) string {
	var c strings.Builder
	c.WriteString("ports:\n")
	for i, d := range s.devices {
		rate := float64(lineRate)
		if i == 2 {
			rate = speed
		}
		fmt.Fprintf(&c, "  - {device: %s, speed: %.0fM, mode: %s}\n", d, rate/1e6, s.mode)
	}
	// a frame takes a buffer whatever its length: headroom for 3000 frames
	fmt.Fprintf(&c, `memory: {buffer_size: %dB, buffers: 24576}
classes:
  - {cos: [%d], lossless: true, share: %dB, headroom: %dB}
metrics: {listen: none}
`, s.buffer, lossless, 64*s.buffer, 3000*s.buffer)
	return c.String()
}

// start starts the switch and waits until all ports forward.
func (s *site) start(t *testing.T) {
	t.Helper()
	must(t, s.guest.WriteFile(file, []byte(s.configuration(outRate)), 0o644))
	var err error
	s.sw, err = s.guest.Start("sluice", "run", "-c", file)
	must(t, err)
	must(t, s.sw.Await(patience, 1, "msg=forwarding"))
	s.awaitPorts(t, true, true, true)
	if s.peers == nil {
		for n, p := range s.state(t).Ports {
			peer, err := rig.NewPeer(s.guest, n, p.LinkSpeed)
			must(t, err)
			s.peers = append(s.peers, peer)
		}
	}
	s.announce(t)
}

// state asks the switch for its state.
func (s *site) state(t *testing.T) (of state.Switch) {
	t.Helper()
	must(t, json.Unmarshal([]byte(s.run(t, "sluice", "show", "--json")), &of))
	return of
}

// awaitPorts waits until the ports are up or down.
func (s *site) awaitPorts(t *testing.T, up ...bool) {
	t.Helper()
	until(t, fmt.Sprintf("ports are up: %v", up), func() bool {
		for i, p := range s.state(t).Ports {
			if p.Up != up[i] {
				return false
			}
		}
		return true
	})
}

// announce has the switch learn where all peers are.
func (s *site) announce(t *testing.T) {
	t.Helper()
	until(t, "the switch knows all peers", func() bool {
		for _, p := range s.peers {
			must(t, p.Announce())
		}
		time.Sleep(200 * time.Millisecond)
		table := s.run(t, "sluice", "show", "fdb")
		for i, p := range s.peers {
			if !strings.Contains(table, p.MAC.String()) {
				t.Logf("the switch does not know peer %d yet", i)
				return false
			}
		}
		return true
	})
	for _, p := range s.peers {
		p.Strange() // the announcements
	}
}

// flow returns a new flow between two peers, for which the second is prepared.
func (s *site) flow(from, to int, shape func(int) rig.Shape) *rig.Flow {
	s.flows++
	f := &rig.Flow{ID: s.flows, Src: s.peers[from].MAC, Dst: s.peers[to].MAC, Shape: shape}
	s.peers[to].Expect(f)
	return f
}

// send sends a flow of some frames in the background; the channel has the result.
func (s *site) send(from int, f *rig.Flow, frames int, rate float64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.peers[from].Send(f, frames, rate) }()
	return done
}

// drain waits until no more frames of the flows arrive at a peer, and all have, if all is set.
func (s *site) drain(t *testing.T, at int, frames int, flows ...*rig.Flow) {
	t.Helper()
	const quiet = 2 * time.Second
	arrived := func() (n int, complete bool) {
		complete = true
		for _, f := range flows {
			a := s.peers[at].Got(f)
			n += a.Frames + a.Twice + a.Damaged
			complete = complete && a.Frames == frames
		}
		return n, complete
	}
	last, since := -1, time.Now()
	until(t, "no more frames arrive", func() bool {
		n, complete := arrived()
		if n != last {
			last, since = n, time.Now()
		}
		return complete || time.Since(since) > quiet
	})
}

// judge returns what has arrived of a flow. Later faults are for conserves to report.
func (s *site) judge(at int, f *rig.Flow, what string) rig.Arrivals {
	s.judged[f] = what
	return s.peers[at].Judge(f)
}

// exact reports what of a flow did not arrive exactly once, unharmed and in order.
func (s *site) exact(t *testing.T, at int, f *rig.Flow, frames int, what string) {
	t.Helper()
	if a := s.judge(at, f, what); a.Frames != frames || a.Faults() > 0 {
		received, sent, err := s.peers[at].Lost()
		t.Errorf("%s: %d of %d frames arrived; %d damaged, %d twice, %d out of order; lost by the host: %d, "+
			"%d, %v", what,
			a.Frames, frames, a.Damaged, a.Twice, a.Disordered, received, sent, err)
	}
}

// intact reports frames that arrived damaged, twice or out of order. Others may be lost.
func (s *site) intact(t *testing.T, at int, f *rig.Flow, what string) {
	t.Helper()
	if a := s.judge(at, f, what); a.Faults() > 0 {
		t.Errorf("%s: %d frames arrived; %d damaged, %d twice, %d out of order", what, a.Frames, a.Damaged, a.Twice,
			a.Disordered)
	}
}

// conserves checks that every frame and every buffer is accounted for, and that no flow has had
// faults since it was judged. No frame may be under way.
func (s *site) conserves(t *testing.T) {
	t.Helper()
	var of state.Switch
	until(t, "queues and rings are empty", func() bool {
		of = s.state(t)
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
		in += p.Received + p.FloodCopies - p.Control.Frames
		out += p.Sent + p.Dropped
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
	for _, p := range s.peers {
		for _, f := range p.Late() {
			a := p.Got(f)
			t.Errorf("%s: more faults afterwards: %d frames damaged, %d twice, %d out of order", s.judged[f], a.Damaged,
				a.Twice, a.Disordered)
		}
	}
}

// stop ends the switch by a signal and returns its result.
func (s *site) stop(t *testing.T, signal unix.Signal) rig.Result {
	t.Helper()
	must(t, s.sw.Signal(signal))
	r, err := s.sw.Wait(patience)
	must(t, err)
	s.sw = nil
	return r
}
