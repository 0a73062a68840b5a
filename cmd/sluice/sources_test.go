package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/internal/report/console"
	"sluice/internal/state"
)

// TestStationThatMoves checks that an address that moves between two ports appears in the log, in
// show and in the metrics, with its ports.
func TestStationThatMoves(t *testing.T) {
	const hops = 5
	s := program.NewSite(t, 2)
	socket := program.SocketPath(t)
	p := program.StartSwitch(t, s.Home, scrapedConfiguration+"control: {socket: "+socket+"}\n")
	one, two := newSocket(t, s.Hosts[0]), newSocket(t, s.Hosts[1])
	defer one.close()
	defer two.close()
	hopper, client := hostMAC(7), console.Dial(socket)
	moved := func(port int) uint64 {
		r, err := client.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r.Ports[port].Sources.Moved
	}
	one.say(hopper, hostMAC(1)) // to an unknown address
	program.Until(t, "the station to be learned", func() bool {
		entries, err := client.FDB(t.Context())
		is := func(e state.FDBEntry) bool { return e.MAC == hopper.String() }
		return err == nil && slices.ContainsFunc(entries, is)
	})
	for hop := range uint64(hops) {
		two.say(hopper, hostMAC(2))
		program.Until(t, "the station to be behind port2", func() bool { return moved(1) == hop+1 })
		one.say(hopper, hostMAC(1))
		program.Until(t, "the station to be behind port1", func() bool { return moved(0) == hop+1 })
	}
	p.Await(1, "MAC address moved to this port", "port=port2", "mac="+hopper.String(), "vlan=1", "other_port=port1")
	p.Await(1, "MAC address moved to this port", "port=port1", "mac="+hopper.String(), "vlan=1", "other_port=port2")
	shown := program.Launch(t, s.Home, "show", "fdb", "--socket", socket)
	if shown.ExitCode(); !strings.Contains(strings.Join(strings.Fields(shown.Output.String()), " "),
		"port1 5 0 0 0 port2 5 0 0 0") {
		t.Errorf("show fdb:\n%s", &shown.Output)
	}
	const metric = `sluice_port_source_anomalies_total{anomaly="moved",device="port2"} 5`
	if body := getIn(clientIn(s.Home), "http://"+metricsAddress+"/metrics"); !bytes.Contains(body,
		[]byte("\n"+metric+"\n")) {
		t.Errorf("no %s among the metrics", metric)
	}
	p.Stop()
	if lines := p.Log.Find([]string{"MAC address moved"}); len(lines) != 2 {
		t.Errorf("%d lines in the log, want one of each port", len(lines))
	}
}
