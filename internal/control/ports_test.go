package control

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/linux/ethtool"
	"sluice/internal/state"
	"sluice/pmd/afxdp"
)

// inHome calls do with a device of the switch.
func (y *yard) inHome(device string, do func(netlink.Link) error) {
	y.t.Helper()
	onLink(y.t, y.home, device, do)
}

func onLink(t *testing.T, at *netns.Namespace, device string, do func(netlink.Link) error) {
	t.Helper()
	err := at.Do(func() error {
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

// congest makes the switch pause the first host, and returns the source address of its PFC frames.
func (y *yard) congest() (from [6]byte) {
	y.t.Helper()
	sender := y.hosts[0]
	told := len(sender.told)
	y.pause(forever)
	y.send(shareFrames+2, lossless)
	until(y.t, "the sender to be stopped", func() bool { sender.poll(); return len(sender.told) > told })
	y.pause(0)
	until(y.t, "the sender to be let go", func() bool { sender.poll(); return len(sender.told) > told+1 })
	return sender.teller
}

// TestAddressOfAnOpenPort: when the address changes, PFC frames have the new one.
func TestAddressOfAnOpenPort(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, 5*time.Second)
	for i := range byte(3) {
		mac := [6]byte{2, 0, 0, 0, 1, i}
		if y.congest() == mac {
			t.Fatal("PFC frames come from an address that the port has not got yet")
		}
		y.inHome("port1", func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, mac[:]) })
		until(t, "PFC frames from the new address", func() bool { return y.congest() == mac })
	}
}

// TestAddressOfAPortHeldDown: the address changes while the configuration does not fit the link;
// the port has the new one when it comes up.
func TestAddressOfAPortHeldDown(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, 5*time.Second)
	y.rates.Store("port1", uint64(1e8))
	y.awaitState("port1 to be down", func(s *State) bool { return !s.Ports[0].Up })
	mac := [6]byte{2, 0, 0, 0, 1, 77}
	y.inHome("port1", func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, mac[:]) })
	y.inHome("port2", func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, []byte{2, 0, 0, 0, 1, 78}) })
	until(t, "the switch to know of the last change", func() (known bool) {
		err := y.order(t.Context(),
			func() error { known = y.plan.Links[1].MAC == [6]byte{2, 0, 0, 0, 1, 78}; return nil })
		return err == nil && known
	})
	y.rates.Store("port1", uint64(1e6))
	y.awaitState("port1 to be up", func(s *State) bool { return s.Ports[0].Up })
	if from := y.congest(); from != mac {
		t.Errorf("PFC frames come from %x, and the device has %x", from, mac)
	}
}

// TestWhyDown: the state of a port that is not open says what keeps it down, and what to do.
func TestWhyDown(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, 5*time.Second)
	await := func(mode, why string) {
		t.Helper()
		y.awaitState(mode+", "+why, func(s *State) bool {
			p := s.Total().Ports[1]
			return p.Mode == mode && !p.Up && (p.DownWhy == why || why != "" && strings.Contains(p.DownWhy, why)) &&
				p.TX == ""
		})
	}
	mtu := func(n int) func(netlink.Link) error {
		return func(l netlink.Link) error { return netlink.LinkSetMTU(l, n) }
	}
	if p := y.state().Total().Ports[1]; p.DownWhy != "" || !state.Open(p.Mode) || p.TX == "" {
		t.Fatalf("a port that forwards: %q, %s, %s", p.DownWhy, p.Mode, p.TX)
	}
	const remedy = "`ip link set dev port2 up`"
	y.inHome("port2", netlink.LinkSetDown)
	await(state.SetDown, remedy)
	y.inHome("port2", mtu(1000))
	onLink(t, y.hosts[1].at, hostDevice, netlink.LinkSetDown)
	y.inHome("port2", netlink.LinkSetUp)
	await(state.Closed, "") // it has no carrier
	onLink(t, y.hosts[1].at, hostDevice, netlink.LinkSetUp)
	await(state.Closed, "`ip link set dev port2 mtu 1500`")
	y.setCarrier(false)
	await(state.Closed, "`ip link set dev port2 mtu 1500`") // still to do, whatever the link
	y.setCarrier(true)
	if err := y.Shut(t.Context(), "port2"); err != nil {
		t.Fatal(err)
	}
	await(state.Closed, "")
	if _, err := y.Open(t.Context(), "port2"); err == nil {
		t.Error("opened with an MTU that is too small")
	}
	await(state.Closed, "`ip link set dev port2 mtu 1500`")
	y.inHome("port2", mtu(1500))
	y.awaitState("the port to be up", func(s *State) bool {
		p := s.Total().Ports[1]
		return p.Up && p.DownWhy == ""
	})
	y.inHome("port2", netlink.LinkDel)
	await(state.Absent, "does not exist")
}

// TestUnfitDevices: a port stays down while its name belongs to a device without Ethernet frames,
// or is an alternative name of another device. It says why, a reload is refused for the same
// reason, and the port comes up when a fit device has the name.
func TestUnfitDevices(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, 5*time.Second)
	refused := func(mode string, says ...string) {
		t.Helper()
		file, text := y.Config().Source()
		c, err := config.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		says = append(says, "can't be a port: ")
		y.awaitState(strings.Join(says, ", "), func(s *State) bool {
			p := s.Total().Ports[1]
			return p.Mode == mode && !p.Up && containsAll(p.DownWhy, says)
		})
		if err := y.Reload(t.Context(), c); !containsAll(fmt.Sprint(err), append(says, "device port2 ")) {
			t.Errorf("reload: %v", err)
		}
		if !config.AtFault(y.Reload(t.Context(), c)) {
			t.Error("the file is at fault")
		}
	}
	y.inHome("port2", netlink.LinkDel)
	y.awaitState("no device", func(s *State) bool {
		return strings.Contains(s.Total().Ports[1].DownWhy, "does not exist")
	})

	tun := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "port2"}, Mode: netlink.TUNTAP_MODE_TUN, NonPersist: true,
		Queues: 1}
	if err := y.home.Do(func() error { return netlink.LinkAdd(tun) }); err != nil {
		t.Fatal(err)
	}
	y.inHome("port2", netlink.LinkSetUp)
	refused(state.Closed, "link/none", "tap instead of tun")
	if err := tun.Fds[0].Close(); err != nil { // which removes the device
		t.Fatal(err)
	}

	y.inHome("port1", func(l netlink.Link) error { return netlink.LinkAddAltName(l, "port2") })
	refused(state.Absent, "port2 is an alternative name of device port1", "write port1")
	if waits, err := y.Open(t.Context(), "port2"); err != nil || !strings.Contains(waits, "alternative name") {
		t.Errorf("opened by hand: %q, %v", waits, err)
	}
	y.inHome("port1", func(l netlink.Link) error { return netlink.LinkDelAltName(l, "port2") })
	err := y.home.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port2", NumRxQueues: 1, NumTxQueues: 1,
			Flags: net.FlagUp, TxQLen: -1}, PeerName: "peer2"})
	})
	if err != nil {
		t.Fatal(err)
	}
	y.inHome("peer2", netlink.LinkSetUp)
	y.awaitState("the port to be up", func(s *State) bool { return s.Ports[1].Up })
}

func containsAll(text string, all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !strings.Contains(text, s) })
}

// TestSlowerLevel: generic mode is a warning unless copy mode was asked for.
func TestSlowerLevel(t *testing.T) {
	for _, test := range []struct {
		configured config.XDPMode
		runs       string
		want       slog.Level
	}{
		{config.Auto, afxdp.Generic, slog.LevelWarn},
		{config.Copy, afxdp.Generic, slog.LevelInfo},
		{config.Auto, "copy (native)", slog.LevelInfo},
	} {
		if level := slowerLevel(test.configured, test.runs); level != test.want {
			t.Errorf("mode %v, runs %s: %v", test.configured, test.runs, level)
		}
	}
}

// setCarrier sets the peer of port2 up or down, and waits until the switch knows.
func (y *yard) setCarrier(up bool) {
	y.t.Helper()
	do := netlink.LinkSetDown
	if up {
		do = netlink.LinkSetUp
	}
	onLink(y.t, y.hosts[1].at, hostDevice, do)
	until(y.t, "the switch to know the carrier of port2", func() (is bool) {
		err := y.order(y.t.Context(), func() error { is = y.port("port2").wanted == up; return nil })
		return err == nil && is
	})
}

// TestFlap: a peer whose link was down for a moment is stopped anew, although the kernel tells no
// loss of the carrier within a second of the one before, and none that is over by then.
func TestFlap(t *testing.T) {
	y := newYard(t, config.WatchdogOff, time.Second)
	y.pause(forever)
	y.send(shareFrames+2, lossless)
	stops := 0
	await := func() {
		t.Helper()
		until(t, "the sender to be stopped", func() bool { y.hosts[0].poll(); return len(y.hosts[0].told) > stops })
		if stops = len(y.hosts[0].told); y.hosts[0].told[stops-1] == 0 {
			t.Fatal("the sender was let go")
		}
	}
	await()
	for range 3 {
		onLink(t, y.hosts[0].at, hostDevice, netlink.LinkSetDown)
		onLink(t, y.hosts[0].at, hostDevice, netlink.LinkSetUp)
		await()
	}
	y.pause(0)
}

// TestLateFlap: a flap that the kernel tells when the link works again costs no frame that came
// since, and no pause that the peer has sent since.
func TestLateFlap(t *testing.T) {
	y := newYard(t, config.WatchdogOff, time.Second)
	y.pause(forever)
	const before, after = 4, 3
	y.send(before, lossless)
	y.greet(0, 1) // behind them
	flaps := func() (n uint32) {
		t.Helper()
		err := y.order(t.Context(), func() error { n = y.plan.Links[1].Flaps; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	known := flaps()
	err := y.order(t.Context(), func() error {
		e := y.links["port2"]
		e.Losses++
		return y.handle(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := flaps(); n != known+1 {
		t.Errorf("%d flaps known after %d and one more", n, known)
	}
	y.greet(1, 0)
	y.send(after, lossless)
	y.greet(0, 1)
	if got := y.hosts[1].received[lossless]; len(got) > 0 {
		t.Errorf("the paused host has received %v", got)
	}
	y.pause(0)
	until(t, "all lossless frames to arrive", func() bool {
		y.hosts[1].poll()
		return len(y.hosts[1].received[lossless]) == before+after
	})
}

// TestMTUOfAnOpenPort: a port closes when the MTU of its device no longer allows its frames, and
// opens again when it does. With a larger MTU than its buffers hold it goes on.
func TestMTUOfAnOpenPort(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, 5*time.Second)
	mtu := func(n int) {
		t.Helper()
		y.inHome("port2", func(l netlink.Link) error { return netlink.LinkSetMTU(l, n) })
	}
	mtu(1400)
	y.awaitState("the port to be closed", func(s *State) bool {
		p := s.Total().Ports[1]
		return p.Mode == state.Closed && strings.Contains(p.DownWhy, "mtu 1500 is more than the 1400 of device port2")
	})
	mtu(1600)
	y.awaitState("the port to be up", func(s *State) bool { return s.Ports[1].Up })
	driver := y.state().Ports[1].PortInfo
	mtu(3000)
	until(t, "the switch to know of 3000", func() (is bool) {
		err := y.order(t.Context(), func() error { is = y.port("port2").checkedMTU == 3000; return nil })
		return err == nil && is
	})
	if now := y.state().Ports[1]; !now.Up || !now.SameDriver(&driver) {
		t.Errorf("with an MTU of 3000 the port is not open any more: %+v", now.PortInfo)
	}
	y.greet(0, 1)
	y.greet(1, 0)
	mtu(1400)
	y.awaitState("the port to be closed", func(s *State) bool { return s.Ports[1].Mode == state.Closed })
}

// TestQueuesOfAnOpenPort: a port whose device is given more receive queues is closed, and opened
// with one, so that it reads all frames again.
func TestQueuesOfAnOpenPort(t *testing.T) {
	y := emptyYard(t, netns.Queues(2))
	y.start(reloadText(16, port2Text))
	was := y.awaitState("the ports to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	channels := func(do func(tool *ethtool.Socket, c ethtool.Channels) error) {
		t.Helper()
		err := y.home.Do(func() error {
			tool, err := ethtool.Open()
			if err != nil {
				return err
			}
			defer tool.Close()
			c, err := tool.Channels("port2")
			return errors.Join(err, do(tool, c))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	channels(func(tool *ethtool.Socket, c ethtool.Channels) error {
		if c.RX != 1 {
			t.Errorf("an open port has %d receive queues", c.RX)
		}
		c.RX = 2
		return tool.SetChannels("port2", c)
	})
	y.awaitState("the port to be opened again", func(s *State) bool {
		return s.Ports[1].Up && !s.Ports[1].SameDriver(&was.Ports[1].PortInfo)
	})
	channels(func(_ *ethtool.Socket, c ethtool.Channels) error {
		if c.RX != 1 {
			t.Errorf("the port that was opened again has %d receive queues", c.RX)
		}
		return nil
	})
	if now := y.state(); !now.Ports[0].SameDriver(&was.Ports[0].PortInfo) {
		t.Error("the other port was opened again, too")
	}
	y.greet(0, 1)
	y.greet(1, 0)
}

// TestBeginsWithDevicesThatAreNotReady: the states of devices before the first event.
func TestBeginsWithDevicesThatAreNotReady(t *testing.T) {
	y := emptyYard(t)
	y.inHome("port2", netlink.LinkSetDown)
	y.start(reloadText(16, port2Text+strings.Replace(port2Text, "port2", "port9", 1)))
	y.awaitState("the first port to be up", func(s *State) bool { return s.Ports[0].Up })
	if r := y.state().Total(); r.Ports[1].Mode != state.SetDown || r.Ports[2].Mode != state.Absent ||
		r.Ports[1].DownWhy == "" || r.Ports[2].DownWhy == "" {
		t.Errorf("port2 is %s (%s), port9 %s (%s)", r.Ports[1].Mode, r.Ports[1].DownWhy, r.Ports[2].Mode,
			r.Ports[2].DownWhy)
	}
}

// TestFramesKeptWithoutCarrier: a port without carrier is closed when its device has kept frames
// for longer than a reset of the device takes, and opens when the carrier is back.
func TestFramesKeptWithoutCarrier(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	now := time.Now()
	release := func(kept int, lost, opened time.Duration) {
		t.Helper()
		err := y.order(t.Context(), func() error {
			s, err := y.State()
			if err != nil {
				return err
			}
			for i := range s.Ports {
				s.Ports[i].Buffers.Sending = kept // no driver of a test keeps any
			}
			p := y.port("port2")
			p.lost, p.opened = now.Add(-lost), now.Add(-opened)
			return y.release(s, now)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantOpen := func(what string) {
		t.Helper()
		if p := y.state().Ports[1]; !state.Open(p.Mode) {
			t.Fatalf("%s: the port is %s", what, p.Mode)
		}
	}
	release(3, time.Minute, time.Hour)
	wantOpen("with a carrier")
	y.setCarrier(false)
	if err := y.order(t.Context(), func() error {
		if p := y.port("port2"); p.lost.Before(now) || p.opened.After(now) {
			t.Errorf("opened %v, lost its carrier %v", p.opened, p.lost)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	release(3, 2*time.Second, time.Hour)
	wantOpen("a flap")
	release(3, 10*time.Second, 11*time.Second)
	wantOpen("just opened")
	release(0, time.Minute, time.Hour)
	wantOpen("no frames")
	release(3, 6*time.Second, time.Minute)
	if s := y.state(); s.Ports[1].Mode != state.Closed || !state.Open(s.Ports[0].Mode) {
		t.Errorf("port1 is %s, port2 %s", s.Ports[0].Mode, s.Ports[1].Mode)
	}
	y.setCarrier(true)
	y.awaitState("the port to be up", func(s *State) bool { return s.Ports[1].Up })
	y.greet(0, 1)
	y.greet(1, 0)
}

// TestPortRenamed renames a device of a running switch, and back.
func TestPortRenamed(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	promiscuous := func(device string) (is bool) {
		y.inHome(device, func(l netlink.Link) error { is = l.Attrs().Promisc > 0; return nil })
		return is
	}
	for range 2 {
		if !promiscuous("port1") {
			t.Fatal("an open port is not promiscuous, so this test shows nothing")
		}
		y.inHome("port1", func(l netlink.Link) error { return netlink.LinkSetName(l, "other1") })
		y.awaitState("the port to be absent", func(s *State) bool { return s.Ports[0].Mode == state.Absent })
		until(t, "the device to have its settings back", func() bool { return !promiscuous("other1") })
		y.inHome("other1", func(l netlink.Link) error { return netlink.LinkSetName(l, "port1") })
		y.awaitState("the port to be up again", func(s *State) bool { return s.Ports[0].Up })
		y.greet(0, 1)
		y.greet(1, 0)
	}
}

// TestSetDownWithoutCarrier sets a device down whose link is down already: its driver is closed,
// with the frames that it holds.
func TestSetDownWithoutCarrier(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	onLink(t, y.hosts[1].at, hostDevice, netlink.LinkSetDown)
	down := y.awaitState("the port to be down", func(s *State) bool { return !s.Ports[1].Up })
	if mode := down.Ports[1].Mode; !state.Open(mode) {
		t.Errorf("a port whose link is down is %s", mode)
	}
	// when this returns, the switch has handled the event
	if err := y.order(t.Context(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	y.inHome("port2", netlink.LinkSetDown)
	y.awaitState("the port to be set down", func(s *State) bool { return s.Ports[1].Mode == state.SetDown })
	onLink(t, y.hosts[1].at, hostDevice, netlink.LinkSetUp)
	y.inHome("port2", netlink.LinkSetUp)
	y.awaitState("the port to be up again", func(s *State) bool { return s.Ports[1].Up })
}

// unreleased is a closed driver whose buffers the kernel may still use.
type unreleased struct{ released atomic.Bool }

func (u *unreleased) Close() error {
	if u.released.Load() {
		return nil
	}
	return afxdp.ErrHeld
}

// closeUnreleased closes port2, but the kernel does not release its buffers.
func (y *yard) closeUnreleased() *unreleased {
	y.t.Helper()
	u := new(unreleased)
	err := y.order(y.t.Context(), func() error {
		p := y.port("port2")
		y.plan.Links[p.number] = dataplane.Link{}
		err := errors.Join(y.publish(), p.driver.Close())
		p.driver = nil
		if failed := y.reclaim(p.number, u); !errors.Is(failed, afxdp.ErrHeld) {
			y.t.Errorf("closed: %v", failed)
		}
		return errors.Join(err, y.restore(p))
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return u
}

// TestBuffersThatTheKernelHolds: a port whose buffers the kernel may still use opens when they are
// released, and not before: they would have two owners.
func TestBuffersThatTheKernelHolds(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	u := y.closeUnreleased()
	y.awaitState("the port to wait", func(s *State) bool {
		p := s.Total().Ports[1]
		return p.Mode == state.Closed && strings.Contains(p.DownWhy, afxdp.ErrHeld.Error())
	})
	if p := y.state().Ports[1]; p.Up || p.Buffers.Filled == 0 {
		t.Errorf("up %t, with %d buffers", p.Up, p.Buffers.Filled)
	}
	u.released.Store(true)
	y.awaitState("the port to be up", func(s *State) bool { return s.Ports[1].Up })
	y.greet(0, 1)
	y.greet(1, 0)
}

// TestPortRemovedWhileTheKernelHolds: the number of a port whose buffers the kernel may still use
// is not that of another one, and gives them back when they are released.
func TestPortRemovedWhileTheKernelHolds(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	u, number := y.closeUnreleased(), y.state().Ports[1].Number
	for _, more := range []string{"", port2Text} {
		if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(16, more))); err != nil {
			t.Fatal(err)
		}
	}
	if now := y.state().Ports[1].Number; now == number {
		t.Errorf("the new port has the number %d, too", now)
	}
	former := func() *dataplane.PortSnapshot { return &y.state().Workers[0].Ports[number] }
	if p := former(); !p.Vacant || p.Buffers.Filled == 0 {
		t.Errorf("vacant %t, %d buffers before they are released", p.Vacant, p.Buffers.Filled)
	}
	u.released.Store(true)
	until(t, "the buffers to be back", func() bool { return former().Buffers.Filled == 0 })
	y.awaitState("the port to be up", func(s *State) bool { return s.Ports[1].Up })
	y.greet(0, 1)
	y.greet(1, 0)
}
