package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestGen joins two hosts by a cable without a switch: one sends a number of frames, the other counts them.
func TestGen(t *testing.T) {
	s := newSite(t, 1)
	sink := launch(t, s.hosts[0], "gen", "-d", hostDevice, "--json")
	source := launch(t, s.home, "gen", "-d", "port1", "--dst", addressIn(t, s.hosts[0], hostDevice), "--vlan", "100", "--cos", "3",
		"--sizes", "204", "--count", "5000", "--rate", "20Kpps", "--flow", "7", "--duration", "2s", "--json")
	sent := source.genReport(1).Ports[0].Host
	sink.signal(unix.SIGINT)
	received := sink.genReport(1).Ports[0].Host
	if len(sent.Sent) != 1 || sent.Sent[0].Frames != 5000 {
		t.Errorf("sent %+v, want 5000 frames", sent.Sent)
	}
	// Frames may come before the sink is ready; from then on all do.
	if len(received.Received) != 1 || received.Received[0].ID != 7 {
		t.Fatalf("received %+v, want flow 7", received.Received)
	}
	r := received.Received[0]
	if r.Frames < 1000 || r.Frames+r.Missing != 5000 || r.Reordered+r.Duplicates+received.Damaged != 0 {
		t.Errorf("received %+v of 5000 frames, %d damaged", r, received.Damaged)
	}
	if r.FromWire.Mean <= 0 || r.FromWire.Mean > r.FromWire.Max {
		t.Errorf("latency %+v", r.FromWire)
	}
}
