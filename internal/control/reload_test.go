package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/drop"
	"sluice/internal/state"
)

// reloadText is a configuration of a yard in which the lossless class has a share of the memory,
// with more ports.
func reloadText(share int, more string) string {
	return fmt.Sprintf(`
memory: {buffers: 2048, buffer_size: 2048B}
classes:
  - {cos: [%d], lossless: true, reserved: 0B, share: %dKiB, headroom: 256KiB}
ports:
  - {device: port1, speed: 1M, in_flight: 2KB}
%s`, lossless, share, more)
}

const port2Text = "  - {device: port2, speed: 1M, in_flight: 2KB}\n"

// TestReloadWhileWatched: the state may be read at any time during reloads that remove ports and
// add them again.
func TestReloadWhileWatched(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	stop := make(chan struct{})
	var watchers sync.WaitGroup
	watchers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if s, err := y.State(); err != nil || len(s.Ports) == 0 || s.LosslessDrops() != 0 {
				t.Errorf("%+v, %v", s, err)
			}
			y.Ports()
			y.Config().Class(lossless)
		}
	})
	for i := range 40 {
		more := port2Text
		if i%10 == 9 {
			more = ""
		}
		if err := y.Reload(context.Background(), configtest.Parse(t, reloadText(8+i, more))); err != nil {
			t.Fatal(err)
		}
		if more == "" {
			continue
		}
		y.awaitState("port2", func(s *State) bool { return len(s.Ports) == 2 && s.Ports[1].Up })
		y.greet(0, 1)
		y.greet(1, 0)
	}
	close(stop)
	watchers.Wait()
	if err := y.Reload(context.Background(), configtest.Parse(t, reloadText(16, port2Text))); err != nil {
		t.Fatal(err)
	}
	y.awaitState("port2", func(s *State) bool { return s.Ports[1].Up })
}

// TestPortWaitsForBuffers: a port that is added while frames fill the memory opens when they have
// left, and takes no memory from them.
func TestPortWaitsForBuffers(t *testing.T) {
	y := newYard(t, config.WatchdogOff, detection)
	if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(4096, port2Text))); err != nil {
		t.Fatal(err)
	}
	y.pause(forever)
	for range 11 {
		y.send(60, lossless)
		y.greet(0, 1)
	}
	text := reloadText(4096, port2Text+"  - {device: port3, speed: 1M, in_flight: 2KB}\n")
	if err := y.home.Do(func() error {
		veth := netlink.NewVeth(netlink.LinkAttrs{Name: "port3", Flags: net.FlagUp})
		veth.PeerName = "beyond3"
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		peer, err := netlink.LinkByName(veth.PeerName)
		return errors.Join(err, netlink.LinkSetUp(peer))
	}); err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "buffers: 2048,", "buffers: 2048, headroom_ratio: 2,", 1)
	if err := y.Reload(t.Context(), configtest.Parse(t, text)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		y.send(44, lossless)
		y.greet(0, 1)
	}
	if s := y.state(); state.Open(s.Ports[2].Mode) || s.LosslessDrops() != 0 {
		t.Errorf("port3 is %s; %d lossless drops", s.Ports[2].Mode, s.LosslessDrops())
	}
	y.pause(0)
	y.hosts[1].await(lossless, 748)
	y.checkReceived(lossless, 0, 748)
	y.awaitState("port3 to open", func(s *State) bool { return state.Open(s.Ports[2].Mode) })
}

// TestStormsOfAWatchdogThatIsGone: a reload that removes the watchdog removes its count of storms,
// and none is logged as missed.
func TestStormsOfAWatchdogThatIsGone(t *testing.T) {
	var log strings.Builder
	p := newPort(&config.Port{Device: "a"}, 0)
	s := &Switch{log: slog.New(slog.NewTextHandler(&log, nil)), byName: map[string]*port{"a": p}}
	p.storms = 2 // logged
	s.reportPort(&dataplane.PortSnapshot{Name: "a"}, 0)
	if p.storms != 0 || log.Len() > 0 {
		t.Errorf("%d storms counted; %s", p.storms, log.String())
	}
}

// TestPortsThatNeedARestart: receive rings keep their size while a switch runs, so ports may not
// fit that would fit at a start. The error does not ask for more buffers.
func TestPortsThatNeedARestart(t *testing.T) {
	text := reloadText(16, port2Text+
		"  - {device: port3, speed: 1M, in_flight: 2KB}\n  - {device: port4, speed: 1M, in_flight: 2KB}\n")
	c := configtest.Parse(t, text)
	memory := configtest.Memory(t, c)
	if _, err := params.Of(c, memory); err != nil {
		t.Fatal(err)
	}
	_, err := params.WithRings(c, memory, params.RingSize(configtest.Parse(t, reloadText(16, port2Text))))
	if err == nil || !strings.Contains(err.Error(), "restart") || strings.Contains(err.Error(), "raise buffers") {
		t.Errorf("%v: want to be told to restart the switch", err)
	}
}

// TestReloadRefuses: keys that can't change are refused by name, in a preview as well, and nothing
// of that configuration is applied.
func TestReloadRefuses(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	before := y.Config()
	for _, c := range []struct {
		old, new string
		want     []string
	}{
		{"buffers: 2048,", "buffers: 4096,", []string{"2:19", "memory.buffers", "2048 now", "restart"}},
		{"buffer_size: 2048B", "buffer_size: 2048B, cell: 1024B", []string{"memory.cell", "2048B now"}},
		{"ports:", "workers: [0]\nports:", []string{"workers can't change", "not given now"}},
		{"ports:", "forwarding: {table: 100}\nports:", []string{"forwarding.table", "16384 now"}},
		{"{device: port1,", "{device: port1, mode: copy,", []string{"mode of port1", "auto now"}},
		{"{device: port1,", "{device: port1, busy_poll: true,", []string{"busy_poll of port1", "false now"}},
		{"{device: port1,", "{device: port1, mtu: 1600,",
			[]string{"mtu 1600 is more than the 1500 of device port1"}},
		{"{device: port1,", "{device: port1, s_tag: pcp,",
			[]string{"mtu 1500 plus the 4 bytes of an S-tag is more than the 1500 of device port1",
				"lower mtu to 1496, or raise that of the device with `ip link set dev port1 mtu 1504`"}},
		{"headroom: 256KiB", "headroom: 8MB", []string{"2048 buffers are too few"}},
	} {
		text := strings.Replace(reloadText(100, port2Text), c.old, c.new, 1)
		err := y.Reload(context.Background(), configtest.Parse(t, text))
		if p, same := y.Preview(t.Context(), configtest.Parse(t, text)); same == nil || same.Error() != err.Error() {
			t.Errorf("%s: %v, but in the preview %+v, %v", c.new, err, p, same)
		}
		var one *config.Error
		if !errors.As(err, &one) {
			t.Errorf("%s: %v, which is no error about a key", c.new, err)
			continue
		}
		for _, word := range c.want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v: does not say %q", c.new, err, word)
			}
		}
	}
	text := strings.Replace(reloadText(8, port2Text), "port1", "port3", 1)
	p, err := y.Preview(t.Context(), configtest.Parse(t, text))
	if err != nil || !reflect.DeepEqual(p, &Preview{Changes: []string{"adds port port3", "removes port port1"}}) {
		t.Errorf("the preview says %+v, %v", p, err)
	}
	if y.Config() != before {
		t.Error("the configuration is another")
	}
	if p := y.state().Ports[1]; !p.Up || p.Drops[drop.PortDown] != [dataplane.Priorities]uint64{} {
		t.Errorf("port2 went down: %+v", p.PortInfo)
	}
}

// TestStormByHandEndsWithTheWatchdog: a reload that removes the watchdog ends storms held by hand,
// which could not be ended otherwise. They do not come back with the watchdog.
func TestStormByHandEndsWithTheWatchdog(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	if err := y.Override(t.Context(), "port2", 1<<lossless, true); err != nil {
		t.Fatal(err)
	}
	if held := y.state().Ports[1].Watchdog.Held; held != 1<<lossless {
		t.Fatalf("held: %08b", held)
	}
	for _, action := range []string{"off", "alert"} {
		text := reloadText(16, port2Text) + "watchdog: {action: " + action + "}\n"
		if err := y.Reload(t.Context(), configtest.Parse(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	if w := y.state().Ports[1].Watchdog; w.Held != 0 || w.Storming != 0 {
		t.Errorf("held: %08b, in a storm: %08b", w.Held, w.Storming)
	}
}

// TestStateOfPortsThatHaveGone: a state of the former ports does not have the counters of the ports
// that have their numbers now.
func TestStateOfPortsThatHaveGone(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	before := y.running.Load()
	for _, more := range []string{"", strings.Replace(port2Text, "port2", "port3", 1)} {
		if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(16, more))); err != nil {
			t.Fatal(err)
		}
	}
	if now := y.state().Ports[1]; now.PortSnapshot.Name != "port3" || now.Number != before.ports[1].number {
		t.Fatalf("%s has number %d: the test tests nothing", now.PortSnapshot.Name, now.Number)
	}
	s, err := y.stateOf(before)
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Ports[1]; p.PortInfo.Name != "port2" || p.PortSnapshot.Name != "" || p.RXFrames != 0 {
		t.Errorf("%s has the state of %q", p.PortInfo.Name, p.PortSnapshot.Name)
	}
	if p := s.Ports[0]; p.PortSnapshot.Name != "port1" {
		t.Errorf("%s has the state of %q", p.PortInfo.Name, p.PortSnapshot.Name)
	}
}
