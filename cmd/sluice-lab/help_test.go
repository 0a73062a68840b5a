package main

import (
	"strings"
	"testing"

	"sluice/bench/testkit/program"
)

func TestHelp(t *testing.T)   { program.CheckHelp(t, command) }
func TestManual(t *testing.T) { program.CheckManual(t, command) }

func TestCompletion(t *testing.T) {
	program.CheckCompletion(t, []program.Offer{
		{Words: []string{""}, Offered: []string{"demo\t", "gen\t", "bench\t", "completion\t"}},
		{Words: []string{"bench", "run", ""}, Offered: []string{"veth\t", "ring\t"}},
		{Words: []string{"bench", "run", "--out", ""}, Offered: []string{":16"}}, // completes directories
		{Words: []string{"gen", "--mode", "m"}, Offered: []string{"macswap\t"}},
		{Words: []string{"gen", "--engine", ""}, Offered: []string{"af_xdp", "live"}},
		{Words: []string{"gen", "--dcbx", ""}, Offered: []string{"on", "off"}},
		{Words: []string{"demo", "--dcbx", ""}, Offered: []string{"on", "off"}},
	})
}

// TestDevicesComplete checks that completion offers the devices of the shell's network namespace.
func TestDevicesComplete(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.Launch(t, s.Home, "__complete", "gen", "--device", "")
	if p.ExitCode() != 0 || !strings.Contains(p.Output.String(), "port1\nport2\n") ||
		strings.Contains(p.Output.String(), "lo\n") {
		t.Errorf("offered: %s", &p.Output)
	}
}
