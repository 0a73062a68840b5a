package main

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
)

// TestGenLearns: a willing host of either engine learns from its link partner, a host that is not
// willing, where to honour PFC, and then begins to send. When the partner ends, it says so.
func TestGenLearns(t *testing.T) {
	for _, engines := range [][2]string{{engineXDP, engineLive}, {engineLive, engineXDP}} {
		t.Run(engines[0], func(t *testing.T) {
			s := program.NewSite(t, 1)
			partner := program.Launch(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--engine", engines[1],
				"--dcbx", "on", "--pfc", "3", "--json")
			willing := program.Launch(t, s.Home, "gen", "-d", "port1", "--engine", engines[0], "--dcbx", "on",
				"--cos", "3", "--rate", "1Kpps", "--dst",
				program.AddressIn(t, s.Hosts[0], program.HostDevice), "--json")
			willing.Await(1, "port1: PFC on priority 3, agreed with", "by DCBX (ieee)")
			partner.Await(1, program.HostDevice+": PFC on priority 3, agreed with")
			partner.Signal(unix.SIGINT)
			received := reportOf(partner, 1).Ports[0].Host
			willing.Await(1, "port1: no PFC: no link partner speaks DCBX")
			willing.Signal(unix.SIGINT)
			sent := reportOf(willing, 1).Ports[0].Host
			if a := received.DCBX; !slices.Equal(a.PFC, []int{3}) || a.State != "agreed" || a.Sent == 0 ||
				a.Received == 0 {
				t.Errorf("the partner: %+v", a)
			}
			if a := sent.DCBX; len(a.PFC) > 0 || a.Peer != "" || a.State != "no-peer" || a.Received < 2 {
				t.Errorf("after the partner has ended: %+v", a)
			}
			if sent.Sent[0].Frames == 0 || sent.OtherFrames > 0 || received.OtherFrames > 0 {
				t.Errorf("sent %+v, received %+v", sent, received)
			}
		})
	}
}

// TestGenWithoutPeer: a host that has nobody to learn from sends nothing, and says why.
func TestGenWithoutPeer(t *testing.T) {
	s := program.NewSite(t, 1)
	const remedy = "no PFC: no link partner speaks DCBX: turn on `lldp` and `dcbx` for the port of the switch"
	for _, engine := range []string{engineXDP, engineLive} {
		said := program.Launch(t, s.Home, "gen", "-d", "port1", "--engine", engine, "--mode", "txonly", "--dcbx", "on",
			"--duration", "1s")
		if code := said.ExitCode(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		for _, want := range []string{"flow 0: sent 0 frames", remedy} {
			if !strings.Contains(said.Output.String(), want) {
				t.Errorf("does not say %q:\n%s", want, &said.Output)
			}
		}
	}
}
