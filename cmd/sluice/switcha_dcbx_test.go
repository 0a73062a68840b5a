package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
	"sluice/internal/report/console"
	"sluice/internal/state"
)

// startSwitchA runs the example SwitchA at a site with two servers and an FCoE forwarder, in this
// order. Their hosts speak DCBX: the servers are willing, the forwarder has PFC for priority 3.
func startSwitchA(t *testing.T) (s program.Site, c *console.Client, hosts []*program.Running) {
	t.Helper()
	s = program.NewSite(t, 3)
	socket := program.SocketPath(t)
	text := example(t, switchAFile, "10ge1-0-", "port", "mtu: 2158", "mtu: 1500", switchAFCoE, "",
		"speed: 10G", "speed: 1G")
	p := program.StartSwitch(t, s.Home, text+fmt.Sprintf("control: {socket: %s}\n", socket))
	for i, at := range s.Hosts {
		args := []string{"gen", "-d", program.HostDevice, "--engine", "live", "--dcbx", "on", "--lldp-interval", "1s",
			"--json"}
		if i == 2 {
			args = append(args, "--pfc", "3")
		}
		hosts = append(hosts, program.Lab(t, at, args...))
	}
	t.Cleanup(func() {
		if r := p.Stop(); r.LosslessDrops > 0 {
			t.Errorf("%d lossless drops", r.LosslessDrops)
		}
	})
	return s, console.Dial(socket), hosts
}

// dcbxOf returns, for each port, its mismatches, the state of PFC, and the CoS that are lossless.
func dcbxOf(t *testing.T, c *console.Client) (all []string) {
	t.Helper()
	r, err := c.State(t.Context())
	program.Must(t, err)
	for i := range r.Ports {
		p := &r.Ports[i]
		var says []string
		for _, m := range p.DCBX.Mismatches {
			if m.Active {
				says = append(says, m.Kind)
			}
		}
		at := slices.IndexFunc(p.DCBX.Features, func(f state.DCBXFeature) bool { return f.Feature == "pfc" })
		says = append(says, "pfc "+p.DCBX.Features[at].State)
		for cos := range p.ByCoS {
			if p.ByCoS[cos].Lossless {
				says = append(says, fmt.Sprint("lossless ", cos))
			}
		}
		all = append(all, strings.Join(says, ", "))
	}
	return all
}

// untilDCBX waits until the ports of a switch are in these states.
func untilDCBX(t *testing.T, c *console.Client, want ...string) {
	t.Helper()
	var got []string
	defer func() {
		if t.Failed() {
			t.Logf("ports: %q", got)
		}
	}()
	program.Until(t, fmt.Sprintf("%q", want), func() bool {
		got = dcbxOf(t, c)
		return slices.Equal(got, want)
	})
}

// TestSwitchAWithDCBX: PFC for priority 3 is agreed on at all ports of SwitchA. When the DCBX of a
// server goes, orderly or without a word, PFC goes off at its port alone, which says no-peer. When
// it is back, so is PFC.
func TestSwitchAWithDCBX(t *testing.T) {
	s, c, hosts := startSwitchA(t)
	const agreed, gone = "pfc agreed, lossless 3", "no-peer, pfc no-peer"
	untilDCBX(t, c, agreed, agreed, agreed)
	hosts[0].Await(1, "PFC on priority 3, agreed with")

	hosts[0].Signal(unix.SIGINT) // sends a shutdown LLDPDU
	untilDCBX(t, c, gone, agreed, agreed)
	r, err := c.State(t.Context())
	program.Must(t, err)
	if l := r.Ports[0].LLDP; l.AgedOut != 0 || len(l.Neighbors) != 0 {
		t.Errorf("port1 after a shutdown: %+v", l)
	}
	hosts[0] = program.Lab(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--dcbx", "on", "--duration", "1h")
	untilDCBX(t, c, agreed, agreed, agreed)

	hosts[1].Signal(unix.SIGKILL)
	untilDCBX(t, c, agreed, gone, agreed)
	if r, err = c.State(t.Context()); err != nil || r.Ports[1].LLDP.AgedOut != 1 {
		t.Errorf("port2 after its server was killed: %+v, %v", r.Ports[1].LLDP, err)
	}
}
