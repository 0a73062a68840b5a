package main

import (
	"strings"
	"testing"
)

// checkFail asks a switch that has lost a frame whether it has.
func (h *shop) checkFail(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, 0},
		{[]string{"--fail"}, exitLosses},
		{[]string{"--fail", "--json"}, exitLosses},
		{[]string{"--fail", "--port", "port2", "--nonzero"}, exitLosses},
		{[]string{"--fail", "--watch", "100ms"}, exitLosses},
		{[]string{"--fail", "--port", "port9"}, exitFailure},
		{[]string{"--fail", "--cos", "9"}, exitUsage},
	} {
		p := launch(t, nil, append([]string{"show", "drops", "--socket", h.socket}, c.args...)...)
		if code := p.exitCode(); code != c.code {
			t.Errorf("drops %v: exit code %d, want %d", c.args, code, c.code)
		}
		shown := strings.HasPrefix(p.stdout.String(), "lossless drops: 1  ALARM") || strings.Contains(p.stdout.String(), `"lossless_drops":1`)
		if answered := c.code == 0 || c.code == exitLosses; shown != answered {
			t.Errorf("drops %v: prints %q", c.args, p.stdout.String())
		}
		if said := strings.Contains(strings.Join(p.log.all(), "\n"), "lossless drops: 1"); said != (c.code == exitLosses) {
			t.Errorf("drops %v: says %q", c.args, p.log.all())
		}
	}
}

// TestFailOfNone: a switch that has lost nothing is no failure, and one that does not answer is
// not mistaken for it.
func TestFailOfNone(t *testing.T) {
	if code := launch(t, nil, "show", "drops", "--fail", "--socket", newStandIn(t).path).exitCode(); code != 0 {
		t.Errorf("nothing lost: exit code %d", code)
	}
	p := launch(t, nil, "show", "drops", "--fail", "--socket", socketPath(t))
	checkRefusal(t, p, exitFailure, []string{"no switch answers"})
}
