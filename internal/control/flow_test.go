package control

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
)

// TestDroppedPauses: a port whose device drops the pauses that the switch sends has a warning, if
// it would send any.
func TestDroppedPauses(t *testing.T) {
	const lossless = "classes: [{cos: [3], lossless: true}]\n"
	for _, test := range []struct {
		driver, port, rest string
		warned             bool
	}{
		{"i40e", "", lossless, true}, {"ice", ", flow_control: pause", lossless, true}, {"igc", "", lossless, false},
		{"i40e", ", flow_control: off", lossless, false}, {"i40e", "", "", false},
		{"i40e", "", "pfc: {asymmetric: true}\n", false},
	} {
		var log strings.Builder
		c := configtest.Parse(t,
			"ports: [{device: port1, speed: 1G"+test.port+"}, {device: port2, speed: 1G}]\n"+test.rest)
		s := &Switch{log: slog.New(slog.NewTextHandler(&log, nil)), config: c}
		s.warnOfDroppedPauses(newPort(&c.Ports[0], 0), test.driver)
		warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "another NIC")
		if warned != test.warned {
			t.Errorf("%+v: %s", test, log.String())
		}
	}
}

// TestApart: what Apart calls has Run's goroutine to itself. No device is opened and no order is
// carried out meanwhile. It calls nothing if the time is over.
func TestApart(t *testing.T) {
	y := newYard(t, config.WatchdogDrop, detection)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := y.Apart(ctx, func() {
		if !y.Ready() {
			t.Error("called before all devices have been tried")
		}
		soon, end := context.WithTimeout(ctx, 50*time.Millisecond)
		defer end()
		if err := y.ClearWatermarks(soon); !errors.Is(err, errNoOrders) {
			t.Errorf("an order at the same time: %v", err)
		}
		if err := y.Apart(soon, func() { t.Error("called at the same time") }); !errors.Is(err, errNoOrders) {
			t.Errorf("called again: %v", err)
		}
	})
	if err := errors.Join(err, y.ClearWatermarks(ctx)); err != nil {
		t.Error(err)
	}
}
