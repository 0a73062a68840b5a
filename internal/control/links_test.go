package control

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/state"
)

// started makes a switch whose links have these rates, without devices.
func started(t *testing.T, text string, linkSpeed func(device string) (uint64, bool)) *Switch {
	t.Helper()
	s, err := newSwitch(configtest.Parse(t, text), "test", slog.New(slog.NewTextHandler(t.Output(), nil)), linkSpeed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.unmapMemory(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestLinksThatAStartDoesNotFit: a switch starts on links that its configuration does not fit. For
// these it uses the rates of the file, for the others those of the links.
func TestLinksThatAStartDoesNotFit(t *testing.T) {
	const port3 = "  - {device: port3, speed: 1M, in_flight: 2KB}\n"
	little := strings.Replace(reloadText(16, port2Text+port3), "buffers: 2048", "port_buffer: 840KB, buffers: 4096", 1)
	little = strings.Replace(little, ", headroom: 256KiB", "", 1)
	for _, test := range []struct {
		name, text string
		rates      map[string]uint64
		want       []uint64
	}{
		{"all fit", reloadText(16, port2Text+port3), map[string]uint64{"port1": 1e7, "port3": 2e6},
			[]uint64{1e7, 1e6, 2e6}},
		{"too little headroom", reloadText(16, port2Text+port3), map[string]uint64{"port1": 1e7, "port2": 1e8,
			"port3": 2e6}, []uint64{1e7, 1e6, 2e6}},
		{"too fast", reloadText(16, port2Text+port3), map[string]uint64{"port1": 8e11, "port2": 1e7},
			[]uint64{1e6, 1e7, 1e6}},
		{"too fast, and no flow control", strings.Replace(reloadText(16, port2Text+port3), "speed: 1M,",
			"speed: 1M, flow_control: off,", 1),
			map[string]uint64{"port1": 8e11}, []uint64{4e11, 1e6, 1e6}},
		{"too little memory", little, map[string]uint64{"port1": 1e7, "port2": 1e9, "port3": 2e6},
			[]uint64{1e7, 1e6, 2e6}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := started(t, test.text, func(device string) (uint64, bool) { return test.rates[device], false })
			for i, want := range test.want {
				if p := s.Config().Ports[i]; p.LinkSpeed != want || p.Speed != 1e6 {
					t.Errorf("%s counts by %d, want %d", p.Device, p.LinkSpeed, want)
				}
			}
		})
	}
	s := started(t, strings.Replace(reloadText(16, port2Text), "1M", "12M, link_speed: 12M", 1),
		func(string) (uint64, bool) { return 1e7, false })
	if p := s.Config().Ports[0]; p.LinkSpeed != 1e7 || p.SendRate() != 1e7 || p.Speed != 12e6 {
		t.Errorf("%+v", p)
	}
}

// TestFileAtFault: an error of the file itself ends a start, whatever the rates of the links.
func TestFileAtFault(t *testing.T) {
	text := strings.Replace(reloadText(16, port2Text), "buffers: 2048,", "buffers: 256,", 1)
	_, err := newSwitch(configtest.Parse(t, text), "test", slog.New(slog.NewTextHandler(t.Output(), nil)),
		func(string) (uint64, bool) { return 1e6, false })
	var one *config.Error
	if !errors.As(err, &one) || !strings.Contains(err.Error(), "buffers") {
		t.Errorf("%v: want an error about buffers", err)
	}
}

// TestNominalRate: link_speed overrides the rate that a virtual device reports, but not that of a
// real one.
func TestNominalRate(t *testing.T) {
	for _, test := range []struct {
		port    string
		nominal bool
		want    uint64
	}{
		{"1M, link_speed: 5M", true, 5e6},
		{"1M, link_speed: 5M", false, 1e7},
		{"1M", true, 1e7},
	} {
		s := started(t, strings.Replace(reloadText(16, port2Text), "1M", test.port, 1),
			func(string) (uint64, bool) { return 1e7, test.nominal })
		if p := s.Config().Ports[0]; p.LinkSpeed != test.want {
			t.Errorf("%s, nominal: %v: it counts by %d, want %d", test.port, test.nominal, p.LinkSpeed, test.want)
		}
	}
}

// TestLinkOfAnotherRate: a running port follows the rate of its link. It is down while the
// configuration does not fit that rate; other ports are not.
func TestLinkOfAnotherRate(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	if p := y.Config().Ports[0]; p.LinkSpeed != 1e6 {
		t.Fatalf("at the beginning port1 counts by %d bit/s", p.LinkSpeed)
	}
	is := func(up bool, linkSpeed uint64) func(*State) bool {
		return func(s *State) bool {
			return s.Ports[0].Up == up && s.Config.Ports[0].LinkSpeed == linkSpeed && s.Ports[1].Up &&
				s.Config.Ports[1].LinkSpeed == 1e6
		}
	}
	y.rates.Store("port1", uint64(1e7))
	y.awaitState("port1 to count by 10M", is(true, 1e7))
	y.greet(0, 1)
	y.rates.Store("port1", uint64(1e8))
	y.awaitState("port1 to be down", is(false, 1e7))
	if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(32, port2Text))); err != nil {
		t.Fatal(err)
	}
	if s := y.state(); !is(false, 1e6)(s) || s.Config.Classes[0].Share != 32<<10 {
		t.Errorf("after a reload that does not fit the link of port1: %+v", s.Config)
	}
	if err := y.Reload(t.Context(),
		configtest.Parse(t, strings.Replace(reloadText(32, port2Text), ", headroom: 256KiB", ", headroom: 700KB",
			1))); err != nil {
		t.Fatal(err)
	}
	y.awaitState("port1 to count by 100M", is(true, 1e8))
	y.greet(0, 1)
	y.rates.Delete("port1") // it reports nothing now: the last rate counts
	if err := y.Reload(t.Context(),
		configtest.Parse(t, strings.Replace(reloadText(33, port2Text), ", headroom: 256KiB", ", headroom: 700KB",
			1))); err != nil {
		t.Fatal(err)
	}
	y.awaitState("port1 to count by 100M as before", is(true, 1e8))
	y.rates.Store("port1", uint64(1e6))
	y.awaitState("port1 to count by 1M", is(true, 1e6))
	y.greet(1, 0)
}

// TestReloadThatALinkDoesNotFit: the reload succeeds, the port of that link goes down, and comes up
// again with a configuration that fits. One whose file is wrong changes nothing.
func TestReloadThatALinkDoesNotFit(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	y.rates.Store("port1", uint64(1e7))
	y.awaitState("port1 to count by 10M", func(s *State) bool {
		return s.Ports[0].Up &&
			s.Config.Ports[0].LinkSpeed == 1e7
	})
	less := strings.Replace(reloadText(32, port2Text), "headroom: 256KiB", "headroom: 210944B", 1)
	watch := func() {
		if y.config.Classes[0].Headroom == 210944 && y.plan.Links[0].Up {
			t.Error("port1 stays up by a configuration that does not fit its link")
		}
	}
	if err := y.order(t.Context(), func() error { y.asked = watch; return nil }); err != nil {
		t.Fatal(err)
	}
	p, err := y.Preview(t.Context(), configtest.Parse(t, less))
	if err != nil || len(p.Changes) != 1 || !strings.HasPrefix(p.Changes[0], "holds port port1 down") ||
		!y.state().Ports[0].Up {
		t.Errorf("the preview says %+v, %v; port1 is up: %v", p, err, y.state().Ports[0].Up)
	}
	if err := y.Reload(t.Context(), configtest.Parse(t, less)); err != nil {
		t.Fatal(err)
	}
	if s := y.state(); s.Ports[0].Up || !s.Ports[1].Up || s.Config.Ports[0].LinkSpeed != 1e6 ||
		s.Config.Classes[0].Headroom != 210944 {
		t.Errorf("port1 up: %v, port2 up: %v, %+v", s.Ports[0].Up, s.Ports[1].Up, s.Config)
	}
	var config *config.Error
	err = y.Reload(t.Context(), configtest.Parse(t, strings.Replace(less, "buffers: 2048", "buffers: 4096", 1)))
	if !errors.As(err, &config) || !strings.Contains(err.Error(), "memory.buffers can't change") {
		t.Errorf("a file at fault: %v", err)
	}
	if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(32, port2Text))); err != nil {
		t.Fatal(err)
	}
	y.awaitState("port1 to count by 10M again", func(s *State) bool {
		return s.Ports[0].Up &&
			s.Config.Ports[0].LinkSpeed == 1e7
	})
	y.greet(0, 1)
	y.greet(1, 0)
}

// TestRunOnALinkThatDoesNotFit: a switch that starts holds down only that port, until its link has
// a rate that fits.
func TestRunOnALinkThatDoesNotFit(t *testing.T) {
	y := emptyYard(t)
	y.rates.Store("port1", uint64(1e8))
	y.start(reloadText(16, port2Text))
	y.awaitState("port1 to be open, and down", func(s *State) bool {
		return state.Open(s.Ports[0].Mode) &&
			!s.Ports[0].Up && s.Ports[1].Up
	})
	y.rates.Store("port1", uint64(1e6))
	y.awaitState("port1 to be up", func(s *State) bool { return s.Ports[0].Up && s.Ports[1].Up })
	y.greet(1, 0)
	y.greet(0, 1)
}

// TestRateOfAnotherDevice: the rate that a device reported is forgotten when the device goes.
// Another one of that name reports nothing, so the file counts.
func TestRateOfAnotherDevice(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	y.rates.Store("port1", uint64(1e7))
	y.awaitState("port1 to count by 10M", func(s *State) bool { return s.Config.Ports[0].LinkSpeed == 1e7 })
	y.inHome("port1", func(l netlink.Link) error { return netlink.LinkSetName(l, "other1") })
	y.awaitState("port1 to be absent", func(s *State) bool { return s.Ports[0].Mode == state.Absent })
	y.rates.Delete("port1")
	y.inHome("other1", func(netlink.Link) error {
		veth := netlink.NewVeth(netlink.LinkAttrs{Name: "port1"})
		veth.PeerName = "beyond1"
		return netlink.LinkAdd(veth)
	})
	y.inHome("beyond1", netlink.LinkSetUp)
	y.inHome("port1", netlink.LinkSetUp)
	y.awaitState("port1 to count by the file", func(s *State) bool {
		return s.Ports[0].Up &&
			s.Config.Ports[0].LinkSpeed == 1e6
	})
	text := strings.Replace(reloadText(32, port2Text), "speed: 1M", "speed: 1M, link_speed: 5M", 1)
	if err := y.Reload(t.Context(), configtest.Parse(t, text)); err != nil {
		t.Fatal(err)
	}
	if got := y.Config().Ports[0].LinkSpeed; got != 5e6 {
		t.Errorf("it counts by %d, and the file says 5M", got)
	}
}
