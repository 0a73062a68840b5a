package main

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/fcoetest"
	"sluice/bench/testkit/program"
	"sluice/internal/fcoe"
	"sluice/internal/report/console"
	"sluice/internal/state"
)

// TestFCoEKilled: a confined switch that is killed as soon as a host has its accept knows the
// session when it is started again, and all earlier ones: FCoE passes without a new login.
func TestFCoEKilled(t *testing.T) {
	s := program.NewSite(t, 2, netns.MTU(2200))
	socket := program.SocketPath(t)
	text := fmt.Sprintf(`
memory: {buffers: 2048, buffer_size: 4096B}
fcoe: {instances: [{name: FSB, vlan: %d}]}
control: {socket: %s}
ports:
  - {device: port1, speed: 1G, flow_control: off, mtu: 2200, link: trunk, vlans: [1, %[1]d]}
  - {device: port2, speed: 1G, flow_control: off, mtu: 2200, link: trunk, vlans: [1, %[1]d], fcoe: {role: fcf}}
`, fcoetest.VLAN, socket)
	snooping := func() *state.FCoE {
		r, err := console.Dial(socket).State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r.FCoE
	}
	host, fcf := newDeafHost(t, s.Hosts[0]), newDeafHost(t, s.Hosts[1])
	const kills = 5
	for n := range kills {
		p := program.StartSwitch(t, s.Home, text)
		p.Await(1, "msg=confined")
		if f := snooping(); len(f.Sessions) != n || f.StateFile.Error != "" {
			t.Fatalf("start %d: %+v\n%v", n, f, p.Log.All())
		}
		before := fcf.received()
		for i := range n {
			host.send(fcoetest.FCoE(fcoetest.FCF, fcoetest.VN(i)))
		}
		fcf.awaitReceived(before + uint64(n))
		if n == 0 {
			answered := host.received()
			fcf.send(fcoetest.Advertisement(fcoe.AllENode))
			host.awaitReceived(answered + 1)
		}
		asked, answered := fcf.received(), host.received()
		host.send(fcoetest.Login(n))
		fcf.awaitReceived(asked + 1)
		fcf.send(fcoetest.Accept(n))
		host.awaitReceived(answered + 1)
		p.Signal(unix.SIGKILL)
		if code := p.ExitCode(); code != -1 {
			t.Fatalf("exit code %d of a killed process", code)
		}
	}
}
