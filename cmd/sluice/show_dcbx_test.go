package main

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
	"sluice/internal/state"
)

// disagree gives two ports of a switch DCBX: port1 has a peer with other settings, port2 has none.
func disagree(r *state.Switch) {
	neighbor := state.Neighbor{ChassisID: "54:7f:ee:0c:11:01", SystemName: "n5k\x1b[2J", PortID: "Ethernet1/1",
		EnabledCapabilities: []string{"bridge"}, TTLNS: 120e9,
		LLDPDU: state.LLDPDU{AgeNS: 12e9, Hex: "0a036e356b", TLVs: []state.TLV{
			{Type: 5, Name: "system name", Text: "n5k", Hex: "6e356b"}}}}
	r.Ports[0].LLDP = &state.LLDP{Mode: "rxtx", Sent: 7, Neighbors: []state.Neighbor{neighbor}}
	r.Ports[0].DCBX = &state.DCBX{Configured: "auto", Version: "cee", Role: "manual",
		Why: "auto: the peer sent CEE but not IEEE",
		Peer: state.DCBXPeer{State: "one", Names: []string{"n5k\x1b[2J (1)"},
			Control: &state.DCBXControl{Seq: 41, PeerAck: 40}},
		Features: []state.DCBXFeature{{Feature: "pfc", State: "mismatch", PeerPresent: true}},
		Mismatches: []state.Mismatch{{Kind: "pfc", Active: true, SinceNS: 60e9,
			Text: "this end has priority 3, the peer priority 4: change one of them"}}}
	r.Ports[1].LLDP = &state.LLDP{Mode: "rxtx", Sent: 5}
	r.Ports[1].DCBX = &state.DCBX{Version: "ieee", Role: "manual", Peer: state.DCBXPeer{State: "none"},
		Mismatches: []state.Mismatch{{Kind: "no-peer", Active: true, Text: "turn DCBX on at the link partner"}}}
}

// TestShowDiscovery runs the views of LLDP and DCBX on a stand-in for a switch.
func TestShowDiscovery(t *testing.T) {
	s := newStandInWith(t, disagree)
	for _, c := range []struct {
		args       string
		has, lacks []string
	}{
		{"ports", nil, nil}, // any view has the headline
		{"lldp", []string{"PORT MODE NEIGHBORS TX RX", "port1 rxtx 1 7 0", "port2 rxtx 0 5 0"}, []string{"port3"}},
		{"lldp --port port2", []string{"port2 rxtx"}, []string{"port1 "}},
		{"lldp neighbors", []string{"PORT SYSTEM PORT ID", "port1 n5k?[2J Ethernet1/1 – B 120s 12s", "CAP: B bridge"},
			nil},
		{"lldp neighbours --detail", []string{"port1: n5k?[2J, Ethernet1/1", "system name n5k"}, []string{"SYSTEM"}},
		{"lldp neighbors --port port1", []string{"system name n5k"}, []string{"SYSTEM"}},
		{"lldp neighbors --port port2", []string{"none"}, []string{"n5k"}},
		{"dcbx", []string{"PORT VERSION ROLE PEER LOSSLESS PFC ETS APP",
			"port1 cee manual n5k?[2J (1) 3 mismatch – –",
			"port1 pfc: this end has priority 3", "port2 no-peer: turn DCBX on"}, []string{"LOCAL"}},
		{"dcbx --port port1", []string{"version cee (auto: the peer sent CEE but not IEEE)",
			"41 sent, acknowledged up to 40",
			"PFC: mismatch", "PFC LOCAL PEER OPERATIONAL", "mismatch pfc, for 1m0s: this end has priority 3"},
			[]string{"port2", "0a 03 6e"}},
		{"dcbx --port port1 --raw", []string{"PFC LOCAL PEER", "system name (type 5, 3 bytes): n5k 0000 0a 03 6e 35 6b",
			"port1: sent: none"}, nil},
		{"dcbx --port port3", []string{"DCBX is off"}, nil},
	} {
		p := program.Launch(t, nil, append(append([]string{"show"}, strings.Fields(c.args)...), "--socket", s.path)...)
		if code := p.ExitCode(); code != 0 {
			t.Fatalf("%s: exit code %d", c.args, code)
		}
		first, tables, _ := strings.Cut(p.Output.String(), "\n")
		if want := "lossless drops: 0  DCBX: port1 pfc and 1 more"; first != want {
			t.Errorf("%s: the first line is %q, want %q", c.args, first, want)
		}
		plain := strings.Join(strings.Fields(tables), " ")
		for _, words := range c.has {
			if !strings.Contains(plain, words) {
				t.Errorf("%s does not show %q:\n%s", c.args, words, tables)
			}
		}
		for _, words := range c.lacks {
			if strings.Contains(tables, words) {
				t.Errorf("%s shows %q:\n%s", c.args, words, tables)
			}
		}
	}
	checkRefusal(t, program.Launch(t, nil, "show", "lldp", "neighbors", "--cos", "3", "--socket", s.path),
		cli.ExitUsage, []string{"unknown flag: --cos"})
	checkRefusal(t, program.Launch(t, nil, "show", "dcbx", "--port", "port99", "--socket", s.path), cli.ExitFailure,
		[]string{"--port port99", "port1, port2"})
}

// TestShowDiscoveryJSON checks that the JSON of these views has what their tables show.
func TestShowDiscoveryJSON(t *testing.T) {
	s := newStandInWith(t, disagree)
	p := program.Launch(t, nil, "show", "dcbx", "--json", "--port", "port1", "--socket", s.path)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var r state.Switch
	if err := json.Unmarshal(p.Output.Bytes(), &r); err != nil || len(r.Ports) != 1 || r.Ports[0].DCBX == nil ||
		r.Ports[0].DCBX.Peer.Control.Seq != 41 || r.Ports[0].LLDP.Neighbors[0].LLDPDU.Hex != "0a036e356b" {
		t.Errorf("%v: %s", err, &p.Output)
	}
}
