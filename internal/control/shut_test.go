package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/state"
)

// setLink sets a host's device up or down, so that the port on the other end gains or loses its
// link.
func (y *yard) setLink(port string, up bool) {
	y.t.Helper()
	err := y.home.Do(func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	})
	if err != nil {
		y.t.Fatal(err)
	}
}

// TestShutByHand: a port that is shut stays shut over link events and reloads, and forwards again
// once opened. The other port stays up, and counters go on.
func TestShutByHand(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	if err := y.Shut(t.Context(), "port9"); err == nil || !strings.Contains(err.Error(), "is not a port") {
		t.Fatalf("port9: %v", err)
	}
	isShut := func(when string) {
		t.Helper()
		s := y.state()
		if p := s.Ports[1]; !p.Shut || p.Up || state.Open(p.Mode) || !s.Ports[0].Up || s.Ports[0].Shut {
			t.Errorf("%s: %+v, up: %t; the other: %+v, up: %t", when, p.PortInfo, p.Up,
				s.Ports[0].PortInfo, s.Ports[0].Up)
		}
	}
	received := y.state().Ports[1].RXFrames
	for range 2 { // a second time is no error
		if err := y.Shut(t.Context(), "port2"); err != nil {
			t.Fatal(err)
		}
		isShut("shut")
	}
	y.send(5, lossless) // to a port that is shut
	for _, up := range []bool{false, true} {
		y.setLink("port2", up)
		until(t, "the event", func() bool {
			seen := false
			err := y.order(t.Context(), func() error { seen = y.port("port2").wanted == up; return nil })
			return err == nil && seen
		})
		isShut("after a link event")
	}
	if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(16, port2Text))); err != nil {
		t.Fatal(err)
	}
	isShut("reloaded")
	if waits, err := y.Open(t.Context(), "port2"); err != nil || waits != "" {
		t.Fatal(waits, err)
	}
	y.awaitState("port2 to be up", func(s *State) bool { return s.Ports[1].Up && !s.Ports[1].Shut })
	y.greet(1, 0)
	y.greet(0, 1)
	y.sent = [8]uint32{}
	y.hosts[1].received[lossless] = nil
	y.send(5, lossless)
	y.hosts[1].await(lossless, 5)
	if now := y.state().Ports[1].RXFrames; now <= received {
		t.Errorf("port2 has received %d frames, before it was shut %d", now, received)
	}
}

// TestOpenSaysWhatIsMissing: the answer to an order to open a port says what the port waits for, or
// why it can't be opened. The port comes up once that has passed.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	y := newYard(t, config.WatchdogOff, detection)
	if _, err := y.Open(t.Context(), "port9"); err == nil || !strings.Contains(err.Error(), "is not a port") {
		t.Errorf("port9: %v", err)
	}
	change := func(do func(netlink.Link) error) {
		t.Helper()
		err := y.home.Do(func() error {
			link, err := netlink.LinkByName("port2")
			if err != nil {
				return err
			}
			return do(link)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mtu := func(n int) func(netlink.Link) error {
		return func(l netlink.Link) error { return netlink.LinkSetMTU(l, n) }
	}
	if err := y.Shut(t.Context(), "port2"); err != nil {
		t.Fatal(err)
	}
	change(mtu(1000))
	_, err := y.Open(t.Context(), "port2")
	if err == nil || !strings.Contains(err.Error(), "is no longer shut") || !strings.Contains(err.Error(), "1000") {
		t.Errorf("with an MTU of 1000: %v", err)
	}
	if config.AtFault(err) {
		t.Errorf("%v: the file is not at fault", err)
	}
	change(mtu(1500))
	y.awaitState("port2 to be up", func(s *State) bool { return s.Ports[1].Up })
	change(netlink.LinkSetDown)
	y.awaitState("port2 to be down", func(s *State) bool { return !s.Ports[1].Up })
	if waits, err := y.Open(t.Context(), "port2"); err != nil || !strings.Contains(waits, "ip link set dev port2 up") {
		t.Errorf("of a device that is down: %q, %v", waits, err)
	}
	change(netlink.LinkDel)
	until(t, "there to be no device", func() bool {
		waits, err := y.Open(t.Context(), "port2")
		return err == nil && strings.Contains(waits, "does not exist")
	})
}

// TestShutHoldsThePeer: a port that is shut first pauses its peer. Frames from another port that
// wait for it are dropped, so the other port's peer is not paused because of them.
func TestShutHoldsThePeer(t *testing.T) {
	y := newYard(t, config.WatchdogOff, detection)
	y.pause(forever)
	y.send(shareFrames+2, lossless) // enough to pause the first host
	y.greet(0, 1)
	if s := y.state(); s.Ports[0].PausedPeer>>lossless&1 == 0 {
		t.Fatal("the first host is not paused: the test tests nothing")
	}
	y.hosts[1].poll()
	told := len(y.hosts[1].told)
	if err := y.Shut(t.Context(), "port2"); err != nil {
		t.Fatal(err)
	}
	if y.hosts[1].poll(); len(y.hosts[1].told) == told || y.hosts[1].told[told] == 0 {
		t.Errorf("the peer was told %v, want XOFF", y.hosts[1].told[told:])
	}
	s := y.awaitState("the first host to go on", func(s *State) bool {
		return s.Ports[0].PausedPeer == 0 && s.Workers[0].CellsInUse == 0
	})
	if s.LosslessDrops() != 0 {
		t.Errorf("%d lossless drops", s.LosslessDrops())
	}
}

// TestClearCounters: State has the counters as they were when cleared, counts on, and forgets the
// former for a port that is removed.
func TestClearCounters(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	y.send(5, lossless)
	y.hosts[1].await(lossless, 5)
	before := y.state()
	if before.Cleared != nil {
		t.Fatal("cleared from the start")
	}
	if err := y.ClearCounters(t.Context()); err != nil {
		t.Fatal(err)
	}
	y.send(3, lossless)
	y.hosts[1].await(lossless, 8)
	now := y.state()
	c, received := now.Cleared, now.Ports[0].RX[lossless]
	if c == nil || c.State.Ports[0].RX[lossless] != 5 || received != 8 || c.At.Before(before.Time) {
		t.Fatalf("%+v, now %d frames", c, received)
	}
	for _, more := range []string{"", port2Text} {
		if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(16, more))); err != nil {
			t.Fatal(err)
		}
	}
	if ports := y.state().Cleared.State.Ports; len(ports) != 1 || ports[0].PortInfo.Name != "port1" {
		t.Errorf("%d ports were there when counters were cleared", len(ports))
	}
}

// TestClearCountersOfPauses: flow control or a watchdog that is turned off and on again counts from
// 0. None of its new counts are missing, whatever they were when counters were cleared.
func TestClearCountersOfPauses(t *testing.T) {
	for name, c := range map[string]struct{ without, with string }{
		"flow control": {reloadText(16, strings.Replace(port2Text, "}", ", flow_control: off}", 1)),
			reloadText(16, port2Text)},
		"watchdog": {reloadText(16, port2Text) + "watchdog: {action: off}\n", reloadText(16, port2Text)},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, config.WatchdogAlert, detection)
			since := func() (frames, storms uint64) {
				s := y.state()
				now, was := s.Ports[1].PortSnapshot, dataplane.PortSnapshot{}
				if s.Cleared != nil {
					was = s.Cleared.State.Ports[1].PortSnapshot
				}
				return now.PFCReceived.Frames - was.PFCReceived.Frames,
					now.Watchdog.Storms[lossless] - was.Watchdog.Storms[lossless]
			}
			storm := func(times int) {
				t.Helper()
				for range times {
					y.tell(0)
					for _, on := range []bool{true, false} {
						if err := y.Override(t.Context(), "port2", 1<<lossless, on); err != nil {
							t.Fatal(err)
						}
					}
				}
				y.greet(1, 0) // shows that the frames were received
			}
			storm(2)
			if err := y.ClearCounters(t.Context()); err != nil {
				t.Fatal(err)
			}
			if frames, storms := since(); frames != 0 || storms != 0 {
				t.Fatalf("just cleared: %d PFC frames, %d storms", frames, storms)
			}
			for _, text := range []string{c.without, c.with} {
				if err := y.Reload(t.Context(), configtest.Parse(t, text)); err != nil {
					t.Fatal(err)
				}
			}
			storm(3)
			if frames, storms := since(); frames != 3 || storms != 3 {
				t.Errorf("%d PFC frames and %d storms since counters were cleared, want 3 and 3", frames, storms)
			}
		})
	}
}

// TestClearFDB: learned addresses are deleted, by port and by VLAN, and learned again.
func TestClearFDB(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	known := func() (on string) {
		t.Helper()
		all, err := y.FDB(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			on += s.Port + " "
		}
		return on
	}
	ctx := context.Background()
	for _, test := range []struct {
		device string
		vlan   uint16
		left   string
	}{
		{"", 0, ""}, {"port1", 0, "port2 "}, {"port2", 100, "port1 "}, {"", 100, ""},
		{"port1", 7, "port1 port2 "}, {"", 1, "port1 port2 "},
	} {
		y.greet(1, 0)
		y.greet(0, 1)
		if all := known(); all != "port1 port2 " {
			t.Fatalf("learned: %s", all)
		}
		if err := y.ClearFDB(ctx, test.device, test.vlan); err != nil {
			t.Fatal(err)
		}
		if left := known(); left != test.left {
			t.Errorf("%q, VLAN %d: left are %q, want %q", test.device, test.vlan, left, test.left)
		}
	}
	if err := y.ClearFDB(ctx, "port9", 0); err == nil || !strings.Contains(err.Error(), "is not a port") {
		t.Errorf("port9: %v", err)
	}
}

// TestShutLosesNoStalledFrames: the headroom is full when a link comes up again, so what its peer
// sends then stalls. A port that is shut takes it as soon as there is room.
func TestShutLosesNoStalledFrames(t *testing.T) {
	const headroom, stalled = 128, 20 // frames
	y := newYard(t, config.WatchdogOff, time.Second)
	y.pause(forever)
	y.send(shareFrames+headroom, lossless)
	y.awaitState("a full headroom", func(s *State) bool { return s.Ports[0].Groups[lossless].Headroom == headroom })
	if err := y.order(t.Context(), func() error {
		e := y.links["port1"]
		e.Losses++ // of its carrier
		return y.handle(e)
	}); err != nil {
		t.Fatal(err)
	}
	y.awaitState("the flap", func(s *State) bool { return s.Ports[0].Up && !s.Ports[0].Reads })
	y.send(stalled, lossless)
	shut := make(chan error)
	go func() { shut <- y.Shut(t.Context(), "port1") }()
	time.Sleep(2 * holdTime) // for which a port is held without stalled frames
	y.pause(0)
	y.hosts[1].await(lossless, shareFrames+headroom+stalled)
	y.checkReceived(lossless, 0, shareFrames+headroom+stalled)
	if err := <-shut; err != nil {
		t.Error(err)
	}
}
