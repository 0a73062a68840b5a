package show

import (
	"os"
	"strings"
	"testing"

	"sluice/internal/state"
)

const (
	dcbxPage = "../../../docs/dcbx.md"
	fcoePage = "../../../docs/fcoe.md"
)

// pageSwitch is the switch of the examples in docs/dcbx.md: eth0 leads to the core, eth1 and eth2
// to servers, of which the second has another priority, and eth3 to a host without DCBX.
func pageSwitch() *state.Switch {
	server := func(name string, last byte) state.Neighbor {
		n := neighbor(name, "00:1b:21:d9:d5:7"+string('0'+last), last)
		n.PortDescription, n.EnabledCapabilities = "ens1f0", []string{"station"}
		return n
	}
	one := func(name string) state.DCBXPeer {
		return state.DCBXPeer{State: "one", Names: []string{name}}
	}
	well := state.DCBX{Configured: "auto", Version: "ieee", Why: "auto: the peer sends IEEE", Role: "downstream",
		SourcePort: "eth0", Peer: one("server1 (00:1b:21:d9:d5:71)"), Features: features("agreed", "agreed", "agreed"),
		Mismatches: mismatches(nil), Local: converged(), Remote: converged(), Operational: converged()}
	for i := range well.Features {
		well.Features[i].PeerWilling = true
	}
	well.Features[0].Why = "both ends have 3"
	other := state.DCBX{Configured: "auto", Version: "cee", Role: "downstream",
		Why:        "auto: the peer sent CEE but not IEEE; this stays until the link goes down",
		SourcePort: "eth0", Peer: one("server2 (00:1b:21:d9:d5:72)"),
		Features: features("mismatch", "agreed", "agreed"),
		Local:    converged(), Remote: converged(), Operational: converged(),
		Mismatches: mismatches(map[string]string{"pfc": "server2 (00:1b:21:d9:d5:72): this port has 3, the peer 4: " +
			"neither is willing: configure both alike, or make one willing"})}
	other.Peer.Control = &state.DCBXControl{Seq: 2, Ack: 1, PeerSeq: 1, PeerAck: 2}
	other.Remote.PFC, other.Operational.PFC = lossless(4).PFC, lossless().PFC
	none := alone("no-peer", state.DCBXPeer{State: "none"}, "no-peer",
		"no neighbour sends LLDP, so no PFC is agreed: turn on DCBX at the link partner, or write "+
			"`dcbx: {version: off}` for the port")
	core := source()
	core.Local.PFC = lossless().PFC
	r := &state.Switch{Ports: []state.Port{
		{Name: "eth0", LLDP: &state.LLDP{Neighbors: []state.Neighbor{neighbor("n5k-a", "Ethernet1/1", 1)}}, DCBX: core},
		{Name: "eth1", LLDP: &state.LLDP{Neighbors: []state.Neighbor{server("server1", 1)}}, DCBX: &well},
		{Name: "eth2", LLDP: &state.LLDP{Neighbors: []state.Neighbor{server("server2", 2)}}, DCBX: &other},
		{Name: "eth3", LLDP: &state.LLDP{}, DCBX: none},
	}}
	runs(r)
	return r
}

// pageExample is a command in a document, and the view that it prints.
type pageExample struct {
	command string
	view    View
	ports   []string
}

// TestPages checks that the examples in documents are what the views print. There, each is the
// indented text below a comment with its command.
func TestPages(t *testing.T) {
	checkPage(t, dcbxPage, pageSwitch, []pageExample{
		{"show lldp neighbors", LLDPNeighbors(false), nil},
		{"show dcbx", DCBX(false, false), nil},
		{"show dcbx --port eth2", DCBX(true, false), []string{"eth2"}},
	})
	checkPage(t, fcoePage, fcoeSwitch, []pageExample{
		{"show fcoe", FCoE, nil},
		{"show fcoe fcfs", FCoEFCFs, nil},
		{"show fcoe enodes", FCoEENodes, nil},
		{"show fcoe sessions --port eth0 --detail", FCoESessions(true), []string{"eth0"}},
		{"show fcoe counters", FCoECounters, nil},
	})
}

func checkPage(t *testing.T, name string, of func() *state.Switch, examples []pageExample) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	page := string(file)
	for _, c := range examples {
		text := drawn(t, c.view, of(), Options{Filter: Filter{Ports: c.ports}})
		checkText(t, text)
		above, rest, found := strings.Cut(page, "<!-- sluice "+c.command+" -->\n\n")
		if !found {
			t.Errorf("%s has no comment with sluice %s", name, c.command)
			continue
		}
		want := ""
		for line := range strings.Lines(text) {
			want += strings.TrimRight("    "+line, " \n") + "\n"
		}
		got := example(rest)
		if got != want {
			t.Errorf("sluice %s prints\n%s\n%s says\n%s\nif the first is right: go test ./internal/report/show -update",
				c.command, want, name, got)
		}
		page = above + "<!-- sluice " + c.command + " -->\n\n" + want + rest[len(got):]
	}
	if *update {
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// example returns the indented lines at the beginning of text, and the empty lines between them.
func example(text string) string {
	end, at := 0, 0
	for line := range strings.Lines(text) {
		at += len(line)
		switch {
		case strings.HasPrefix(line, "    "):
			end = at
		case line != "\n":
			return text[:end]
		}
	}
	return text[:end]
}
