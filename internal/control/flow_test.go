package control

import (
	"log/slog"
	"strings"
	"testing"
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
		c := parse(t, "ports: [{device: port1, speed: 1G"+test.port+"}, {device: port2, speed: 1G}]\n"+test.rest)
		s := &Switch{log: slog.New(slog.NewTextHandler(&log, nil)), config: c}
		s.warnOfDroppedPauses(newPort(&c.Ports[0], 0), test.driver)
		warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "another NIC")
		if warned != test.warned {
			t.Errorf("%+v: %s", test, log.String())
		}
	}
}
