package main

import (
	"bytes"
	"strings"
	"testing"

	"sluice/internal/console"
)

// TestStationThatMoves: an address that hops between two ports is found in the log, in show and in the metrics, with its
// ports.
func TestStationThatMoves(t *testing.T) {
	const hops = 5
	s := newSite(t, 2)
	socket := socketPath(t)
	p := startSwitch(t, s.home, scrapedConfiguration+"control: {socket: "+socket+"}\n")
	one, two := newSocket(t, s.hosts[0]), newSocket(t, s.hosts[1])
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
	one.say(hopper, hostMAC(1)) // a frame that goes to nobody
	for hop := range uint64(hops) {
		two.say(hopper, hostMAC(2))
		until(t, "the station to be behind port2", func() bool { return moved(1) == hop+1 })
		one.say(hopper, hostMAC(1))
		until(t, "the station to be behind port1", func() bool { return moved(0) == hop+1 })
	}
	p.await(1, "a station has moved to this port", "port=port2", "mac="+hopper.String(), "vlan=1", "other_port=port1")
	p.await(1, "a station has moved to this port", "port=port1", "mac="+hopper.String(), "vlan=1", "other_port=port2")
	shown := launch(t, s.home, "show", "fdb", "--socket", socket)
	if shown.exitCode(); !strings.Contains(strings.Join(strings.Fields(shown.stdout.String()), " "), "port1 5 0 0 0 port2 5 0 0 0") {
		t.Errorf("show fdb:\n%s", &shown.stdout)
	}
	const metric = `sluice_port_source_anomalies_total{anomaly="moved",device="port2"} 5`
	if body := getIn(clientIn(s.home), "http://"+metricsAddress+"/metrics"); !bytes.Contains(body, []byte("\n"+metric+"\n")) {
		t.Errorf("no %s among the metrics", metric)
	}
	p.stop()
	if lines := p.log.find([]string{"a station has moved"}); len(lines) != 2 {
		t.Errorf("%d lines in the log, want one of each port", len(lines))
	}
}
