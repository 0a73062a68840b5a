package drivers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
	"sluice/internal/state"
)

const (
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
	line   float64 // speed of eth0 and eth1 in bit/s; 0: lineRate
}

// site is a guest with a switch between three peers.
type site struct {
	rigged
	rigtest.Net
	guest   *rig.Guest
	sw      *rig.Process // the switch; nil: it does not run
	initial string       // settings of the devices before the switch ran first
	devices []string
}

// newSite boots a guest for a test.
func newSite(t testing.TB, r rigged) *site {
	t.Helper()
	rigtest.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	began := time.Now()
	m := rig.Machine{Driver: r.driver, NICs: 3, Switch: true, Queues: r.queues, CPUs: r.cpus}
	g, err := rig.Boot(ctx, m, t.Logf)
	rigtest.Must(t, err)
	t.Logf("the guest runs Linux %s after %.1f s, %.1f s of them its own", g.Kernel, time.Since(began).Seconds(),
		g.Uptime.Seconds())
	s := &site{rigged: r, guest: g}
	t.Cleanup(func() { s.close(t) })
	for n := range g.Hosts {
		s.devices = append(s.devices, fmt.Sprintf("eth%d", n))
		s.run(t, "ip", "link", "set", s.devices[n], "up")
	}
	rigtest.Until(t, "all devices have their links", func() bool {
		up := 0
		for _, d := range s.devices {
			l, err := g.Link(d)
			rigtest.Must(t, err)
			if l.Carrier {
				up++
			}
		}
		return up == len(s.devices)
	})
	s.initial = s.settings(t)
	return s
}

func (s *site) close(t testing.TB) {
	s.Close(t)
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

// run runs a program in the guest that must succeed, and returns its output.
func (s *site) run(t testing.TB, args ...string) string {
	t.Helper()
	return rigtest.Run(t, s.guest, args...)
}

// settings describes the devices as others than the switch see them.
func (s *site) settings(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, d := range s.devices {
		l, err := s.guest.Link(d)
		rigtest.Must(t, err)
		fmt.Fprintf(&all, "%s: flags %#x, promiscuity %d, XDP %t, MTU %d\n", d, l.Flags, l.Promisc, l.XDP != 0, l.MTU)
		for _, option := range []string{"-k", "-l", "-a", "-g", "-c"} {
			r, err := s.guest.Run("ethtool", option, d) // not every driver has all
			rigtest.Must(t, err)
			all.WriteString(r.Stdout)
		}
		for _, f := range []string{"gro_flush_timeout", "napi_defer_hard_irqs", "tx_queue_len", "threaded"} {
			text, err := s.guest.ReadFile("/sys/class/net/" + d + "/" + f)
			rigtest.Must(t, err)
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
		rate := cmp.Or(s.line, lineRate)
		if i == 2 {
			rate = speed
		}
		fmt.Fprintf(&c, "  - {device: %s, speed: %.0fM, mode: %s}\n", d, rate/1e6, s.mode)
	}
	// A frame takes a buffer whatever its length: headroom for 6000 frames, which is what a peer
	// sends in 2.5 s without a pause, for a guest that gets no CPU that long.
	fmt.Fprintf(&c, `forwarding: {loop_guard: off} # the hosts count every frame
memory: {buffer_size: %dB, buffers: 36864}
classes:
  - {cos: [%d], lossless: true, share: %dB, headroom: %dB}
metrics: {listen: none}
`, s.buffer, lossless, 64*s.buffer, 6000*s.buffer)
	return c.String()
}

// start starts the switch and waits until all ports forward.
func (s *site) start(t testing.TB) {
	t.Helper()
	rigtest.Must(t, s.guest.WriteFile(file, []byte(s.configuration(outRate)), 0o644))
	var err error
	s.sw, err = s.guest.Start("sluice", "run", "-c", file)
	rigtest.Must(t, err)
	rigtest.Must(t, s.sw.Await(rigtest.Patience, 1, "msg=forwarding"))
	s.awaitPorts(t, true, true, true)
	if s.Peers == nil {
		for n, p := range s.state(t).Ports {
			peer, err := rig.NewPeer(s.guest, n, p.LinkSpeed)
			rigtest.Must(t, err)
			s.Peers = append(s.Peers, peer)
		}
	}
	s.announce(t)
}

// opensNoPort runs a switch that opens no port, for a reason that its log gives for each. It
// answers all the same, and leaves the devices as they were.
func (s *site) opensNoPort(t *testing.T, because ...string) {
	t.Helper()
	rigtest.Must(t, s.guest.WriteFile(file, []byte(s.configuration(outRate)), 0o644))
	var err error
	s.sw, err = s.guest.Start("sluice", "run", "-c", file)
	rigtest.Must(t, err)
	rigtest.Must(t, errors.Join(s.sw.Await(rigtest.Patience, len(s.devices), because...),
		s.sw.Await(rigtest.Patience, 1, "msg=forwarding"), s.sw.Await(rigtest.Patience, 1, "msg=confined")))
	for _, p := range s.state(t).Ports {
		if p.Up {
			t.Errorf("%s is up, in mode %s", p.Name, p.Mode)
		}
	}
	if r := s.stop(t, unix.SIGTERM); r.Status != 0 {
		t.Errorf("status %d: %s", r.Status, r.Stderr)
	}
	rigtest.Until(t, "the devices are as before", func() bool { return s.settings(t) == s.initial })
}

// state asks the switch for its state.
func (s *site) state(t testing.TB) (of state.Switch) {
	t.Helper()
	rigtest.Must(t, json.Unmarshal([]byte(s.run(t, "sluice", "show", "--json")), &of))
	return of
}

// awaitPorts waits until the ports are up or down.
func (s *site) awaitPorts(t testing.TB, up ...bool) {
	t.Helper()
	rigtest.Until(t, fmt.Sprintf("ports are up: %v", up), func() bool {
		for i, p := range s.state(t).Ports {
			if p.Up != up[i] {
				return false
			}
		}
		return true
	})
}

// awaitCarrier waits until the kernel of the guest says that a device has a carrier, or has none.
func (s *site) awaitCarrier(t testing.TB, device string, has bool) {
	t.Helper()
	rigtest.Until(t, fmt.Sprintf("carrier of %s: %t", device, has), func() bool {
		l, err := s.guest.Link(device)
		rigtest.Must(t, err)
		return l.Carrier == has
	})
}

// announce has the switch learn where all peers are.
func (s *site) announce(t testing.TB) {
	t.Helper()
	rigtest.Until(t, "the switch knows all peers", func() bool {
		for _, p := range s.Peers {
			rigtest.Must(t, p.Announce())
		}
		time.Sleep(200 * time.Millisecond)
		table := s.run(t, "sluice", "show", "fdb")
		for i, p := range s.Peers {
			if !strings.Contains(table, p.MAC.String()) {
				t.Logf("the switch does not know peer %d yet", i)
				return false
			}
		}
		return true
	})
	for _, p := range s.Peers {
		p.Strange() // the announcements
	}
}

// accounts checks that every frame and every buffer is accounted for, and that no flow has had
// faults since it was judged. No frame may be under way.
func (s *site) accounts(t testing.TB) {
	t.Helper()
	s.Conserves(t, func() state.Switch { return s.state(t) })
}

// conserves does what accounts does, and checks that no driver has lost a frame.
func (s *site) conserves(t testing.TB) {
	t.Helper()
	s.accounts(t)
	rigtest.CheckDrivers(t, s.state(t))
}

// stop ends the switch by a signal and returns its result.
func (s *site) stop(t testing.TB, signal unix.Signal) rig.Result {
	t.Helper()
	rigtest.Must(t, s.sw.Signal(signal))
	r, err := s.sw.Wait(rigtest.Patience)
	rigtest.Must(t, err)
	s.sw = nil
	return r
}
