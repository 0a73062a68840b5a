package main

import (
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// checkFail runs show drops --fail on a switch that has lost a frame.
func (h *shop) checkFail(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, 0},
		{[]string{"--fail"}, cli.ExitLosses},
		{[]string{"--fail", "--json"}, cli.ExitLosses},
		{[]string{"--fail", "--port", "port2", "--nonzero"}, cli.ExitLosses},
		{[]string{"--fail", "--watch", "100ms"}, cli.ExitLosses},
		{[]string{"--fail", "--port", "port9"}, cli.ExitFailure},
		{[]string{"--fail", "--cos", "9"}, cli.ExitUsage},
	} {
		p := program.Launch(t, nil, append([]string{"show", "drops", "--socket", h.socket}, c.args...)...)
		if code := p.ExitCode(); code != c.code {
			t.Errorf("drops %v: exit code %d, want %d", c.args, code, c.code)
		}
		shown := strings.HasPrefix(p.Output.String(), "lossless drops: 1  ALARM") ||
			strings.Contains(p.Output.String(), `"lossless_drops":1`)
		if answered := c.code == 0 || c.code == cli.ExitLosses; shown != answered {
			t.Errorf("drops %v: prints %q", c.args, p.Output.String())
		}
		if said := strings.Contains(strings.Join(p.Log.All(), "\n"),
			"lossless drops: 1"); said != (c.code == cli.ExitLosses) {
			t.Errorf("drops %v: says %q", c.args, p.Log.All())
		}
	}
}

// TestFailOfNone checks that --fail succeeds on a switch without losses, and that a switch that
// does not answer is an error.
func TestFailOfNone(t *testing.T) {
	if code := program.Launch(t, nil, "show", "drops", "--fail", "--socket", newStandIn(t).path).ExitCode(); code != 0 {
		t.Errorf("nothing lost: exit code %d", code)
	}
	p := program.Launch(t, nil, "show", "drops", "--fail", "--socket", program.SocketPath(t))
	checkRefusal(t, p, cli.ExitFailure, []string{"no switch answers"})
}
