package control

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"sluice/internal/config"
)

// TestLinksThatAStartDoesNotFit: a switch does not start on links for which its configuration has too little headroom, and starts on
// slower ones than it says.
func TestLinksThatAStartDoesNotFit(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	_, err := newSwitch(parse(t, reloadText(16, port2Text)), log, func(device string) uint64 {
		return map[string]uint64{"port1": 1e6, "port2": 1e8}[device]
	})
	var one *config.Error
	if !errors.As(err, &one) || !strings.Contains(err.Error(), "port port2 fills at 100M before") || !strings.Contains(err.Error(), "port1 1M, port2 100M") {
		t.Errorf("%v: want an error about headroom at 100M", err)
	}
	s, err := newSwitch(parse(t, strings.Replace(reloadText(16, port2Text), "1M", "12M, link_speed: 12M", 1)), log, func(string) uint64 { return 1e7 })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.unmapMemory(); err != nil {
			t.Error(err)
		}
	})
	if p := s.Config().Ports[0]; p.LinkSpeed != 1e7 || p.SendRate() != 1e7 || p.Speed != 12e6 {
		t.Errorf("%+v", p)
	}
}

// TestLinkOfAnotherRate: a port follows the rate of its link while it runs. It is down as long as the configuration does not fit that
// rate, and nobody else is.
func TestLinkOfAnotherRate(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, detection)
	if p := y.Config().Ports[0]; p.LinkSpeed != 1e6 {
		t.Fatalf("at the beginning port1 counts by %d bit/s", p.LinkSpeed)
	}
	is := func(up bool, linkSpeed uint64) func(*State) bool {
		return func(s *State) bool {
			return s.Ports[0].Up == up && s.Config.Ports[0].LinkSpeed == linkSpeed && s.Ports[1].Up && s.Config.Ports[1].LinkSpeed == 1e6
		}
	}
	y.rates.Store("port1", uint64(1e7))
	y.awaitState("port1 to count by 10M", is(true, 1e7))
	y.greet(0, 1)
	y.rates.Store("port1", uint64(1e8))
	y.awaitState("port1 to be down", is(false, 1e7))
	err := y.Reload(t.Context(), parse(t, reloadText(32, port2Text)))
	if err == nil || !strings.Contains(err.Error(), "port port1 fills at 100M before") {
		t.Errorf("a reload that does not fit the link: %v", err)
	}
	if err := y.Reload(t.Context(), parse(t, strings.Replace(reloadText(32, port2Text), ", headroom: 256KiB", ", headroom: 700KB", 1))); err != nil {
		t.Fatal(err)
	}
	y.awaitState("port1 to count by 100M", is(true, 1e8))
	y.greet(0, 1)
	y.rates.Delete("port1") // it says nothing now: the rate that it had counts
	if err := y.Reload(t.Context(), parse(t, strings.Replace(reloadText(33, port2Text), ", headroom: 256KiB", ", headroom: 700KB", 1))); err != nil {
		t.Fatal(err)
	}
	y.awaitState("port1 to count by 100M as before", is(true, 1e8))
	y.rates.Store("port1", uint64(1e6))
	y.awaitState("port1 to count by 1M", is(true, 1e6))
	y.greet(1, 0)
}
