package main

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/testkit/program"
)

// TestGen connects two hosts without a switch: one sends a number of frames, and the other counts
// them.
func TestGen(t *testing.T) {
	s := program.NewSite(t, 1)
	sink := program.Launch(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--json")
	program.Until(t, "the sink to receive", func() (receives bool) {
		program.OnLink(t, s.Hosts[0], program.HostDevice, func(l netlink.Link) error {
			receives = l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
			return nil
		})
		return receives
	})
	source := program.Launch(t, s.Home, "gen", "-d", "port1", "--dst",
		program.AddressIn(t, s.Hosts[0], program.HostDevice), "--vlan", "100", "--cos", "3",
		"--sizes", "204", "--count", "5000", "--rate", "20Kpps", "--flow", "7", "--duration", "2s", "--json")
	sent := reportOf(source, 1).Ports[0].Host
	sink.Signal(unix.SIGINT)
	received := reportOf(sink, 1).Ports[0].Host
	if len(sent.Sent) != 1 || sent.Sent[0].Frames != 5000 {
		t.Errorf("sent %+v, want 5000 frames", sent.Sent)
	}
	// The first frames may be sent before the sink is ready; from then on all must arrive.
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

// TestMixDividesACount checks that the parts always add up to the count.
func TestMixDividesACount(t *testing.T) {
	for text, counts := range map[string]map[uint64][]uint64{
		"3:50,0:30,5:20": {20000: {10000, 6000, 4000}, 0: {0, 0, 0}},
		"0:12.5,1:12.5,2:12.5,3:12.5,4:12.5,5:12.5,6:12.5,7:12.5": {1: {0, 0, 0, 1, 0, 0, 0, 0},
			16: {2, 2, 2, 2, 2, 2, 2, 2}},
		"1:33.3333333,2:33.3333333,3:33.3333334": {1e12: {333333333000, 333333333000, 333333334000}},
	} {
		var m mix
		if err := m.Set(text); err != nil {
			t.Fatal(err)
		}
		for n, want := range counts {
			if got := m.divide(n); !slices.Equal(got, want) {
				t.Errorf("%d frames in shares of %s: %d, want %d", n, text, got, want)
			}
		}
	}
}
