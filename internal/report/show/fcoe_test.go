package show

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"sluice/internal/fcoe"
	"sluice/internal/state"
)

// fcoeSwitch is the switch of the examples in docs/fcoe.md: eth0 and eth1 lead to hosts, of which
// the second has two VN_Ports and somebody who plays an FCF, and eth2 to the FCF.
func fcoeSwitch() *state.Switch {
	const fcf, vlan = "00:05:73:d4:20:01", 2094
	enode := func(last int, port string, sessions int) state.ENode {
		return state.ENode{VLAN: vlan, MAC: fmt.Sprintf("00:1b:21:d9:d5:%02x", last), Port: port, FCF: fcf,
			SinceNS: 3723 * second, ExpiresInNS: 14 * second, Sessions: sessions}
	}
	session := func(id int, e state.ENode, login string) state.FCoESession {
		return state.FCoESession{VLAN: vlan, VNPort: fmt.Sprintf("0e:fc:00:01:00:%02x", id),
			FCID: fmt.Sprintf("0x0100%02x", id), WWPN: fmt.Sprintf("20:00:00:1b:21:d9:d5:%02x", id),
			WWNN: "10:00:00:1b:21:d9:d5:" + e.MAC[15:], ENode: e.MAC, Port: e.Port, FCF: fcf, FCFPort: "eth2",
			Login:   login,
			SinceNS: 3723 * second, ExpiresInNS: e.ExpiresInNS}
	}
	// somebody who plays an FCF, and wants to be the preferred one
	rogue := fcoe.Packet{Op: fcoe.Advertisement, Priority: 1, MAC: 0x001b21d9d572, Name: 0x2000001b21d9d572,
		Fabric: fcoe.Fabric{FCMap: fcoe.DefaultFCMap, Name: 0x2064001b21d9d572}, Period: fcoe.Period{Millis: 8000}}
	one, two := enode(0x70, "eth0", 1), enode(0x71, "eth1", 2)
	return &state.Switch{
		FCoE: &state.FCoE{
			Instances: []state.FCoEInstance{{Name: "FSB", VLAN: vlan, FCMap: "0EFC00", FCFs: 1, ENodes: 2,
				Sessions: 3}},
			Tables: state.FCoETables{FCFs: state.FCoETable{Used: 1, Limit: 32},
				ENodes: state.FCoETable{Used: 2, Limit: 1024}, Sessions: state.FCoETable{Used: 3, Limit: 4096},
				Pending: state.FCoETable{Used: 1, Limit: 4096}},
			FCFs: []state.FCF{{VLAN: vlan, MAC: fcf, Port: "eth2", Name: "20:01:00:05:73:d4:20:01",
				Fabric: "20:64:00:05:73:d4:20:01", VFID: 100, FCMap: "0EFC00", Priority: 128, FKANS: 8 * second,
				Available: true, SinceNS: 86400 * second, ExpiresInNS: 17 * second, Sessions: 3}},
			ENodes: []state.ENode{one, two},
			Sessions: []state.FCoESession{session(1, one, "flogi"), session(2, two, "flogi"),
				session(3, two, "fdisc")},
			Pending: []state.FCoELogin{{VLAN: vlan, ENode: "00:1b:21:d9:d5:72", Port: "eth1", FCF: fcf, Login: "flogi",
				OXID: "0x1234", SinceNS: 2 * second, ExpiresInNS: 18 * second}},
			StateFile: state.FCoEStateFile{Path: "/run/sluice/fcoe.json"},
		},
		Ports: []state.Port{
			{Name: "eth0", FCoE: &state.PortFCoE{Role: "enode", ENodes: state.FCoETable{Used: 1, Limit: 64},
				Sessions: state.FCoETable{Used: 1, Limit: 256}, Received: 512, Forwarded: 512, Accepted: 1}},
			{Name: "eth1", FCoE: &state.PortFCoE{Role: "enode", ENodes: state.FCoETable{Used: 1, Limit: 64},
				Sessions: state.FCoETable{Used: 2, Limit: 256}, Received: 640, Forwarded: 637, Refused: 3, Accepted: 3,
				Rejected: 1, Refusals: []state.FCoERefusal{{Reason: "rogue_fcf", Frames: 3,
					Last: &state.FCoERefusedFrame{AgoNS: 12 * second, VLAN: vlan, Source: "00:1b:21:d9:d5:72",
						Text: rogue.Describe()}}},
				Endings: []state.FCoEEnding{{Reason: "logged_out", Sessions: 1}}},
				Drops: []state.Drop{{Reason: "fcoe_session", CoS: 3, Frames: 40}, {Reason: "fcoe_session", Frames: 2},
					{Reason: "vlan_ingress", Frames: 9}}},
			{Name: "eth2", FCoE: &state.PortFCoE{Role: "fcf", ENodes: state.FCoETable{Limit: 64}, Received: 12000,
				Forwarded: 12000}},
		},
	}
}

// restarted is fcoeSwitch after a restart, with full tables, an FCF that wants no keep-alives, and
// a state file that can't be written.
func restarted() *state.Switch {
	r := fcoeSwitch()
	f := r.FCoE
	f.Tables.ENodes.Limit, f.Tables.Sessions.Limit, f.Pending = 2, 3, nil
	f.StateFile.Error = "no space left on device"
	f.Tables.Pending.Used = 0
	f.FCFs[0].NoKeepAlive, f.FCFs[0].Available, f.FCFs[0].Restored = true, false, true
	for i := range f.Sessions {
		f.Sessions[i].ExpiresInNS, f.Sessions[i].Restored = f.FCFs[0].ExpiresInNS, i != 1
	}
	f.ENodes[0].ExpiresInNS = 0
	r.Ports[1].FCoE.Sessions.Limit, r.Ports[1].FCoE.Listed = 2, 5
	r.Ports[1].FCoE.Refusals = append(r.Ports[1].FCoE.Refusals, state.FCoERefusal{Reason: "session_limit", Frames: 7})
	return r
}

// TestFCoEGolden draws the views of FIP snooping.
func TestFCoEGolden(t *testing.T) {
	for name, c := range map[string]struct {
		view   View
		of     *state.Switch
		filter Filter
	}{
		"fcoe-restarted":       {view: FCoE, of: restarted()},
		"fcoe-port":            {view: FCoE, of: fcoeSwitch(), filter: Filter{Ports: []string{"eth0"}}},
		"fcoe-vlan":            {view: FCoE, of: fcoeSwitch(), filter: Filter{VLANs: []int{2094}}},
		"fcoe-other-vlan":      {view: FCoE, of: fcoeSwitch(), filter: Filter{VLANs: []int{1}}},
		"fcoe-off":             {view: FCoE, of: &state.Switch{}},
		"fcoe-off-detail":      {view: FCoESessions(true), of: &state.Switch{}},
		"fcoe-counters-off":    {view: FCoECounters, of: &state.Switch{}},
		"fcoe-fcfs":            {view: FCoEFCFs, of: fcoeSwitch()},
		"fcoe-fcfs-restarted":  {view: FCoEFCFs, of: restarted()},
		"fcoe-enodes":          {view: FCoEENodes, of: restarted()},
		"fcoe-sessions-detail": {view: FCoESessions(true), of: restarted(), filter: Filter{Ports: []string{"eth1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.filter.Apply(c.of)
			got := drawn(t, c.view, c.of, Options{Filter: c.filter})
			checkText(t, got)
			checkGolden(t, name, got)
		})
	}
}

// checkGolden compares text with a golden file.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%v: is\n%s\n%s says\n%s\nif the first is right: go test ./internal/report/show -update", err, got,
			file, want)
	}
}

// TestFCoEOfAnything draws random states of FIP snooping with random filters: they may contain
// anything, but the text nothing that a terminal interprets.
func TestFCoEOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r := &state.Switch{Ports: make([]state.Port, 3)}
		fill(random, reflect.ValueOf(&r.FCoE).Elem())
		for i := range r.Ports {
			fill(random, reflect.ValueOf(&r.Ports[i].Name).Elem())
			fill(random, reflect.ValueOf(&r.Ports[i].Drops).Elem())
			fill(random, reflect.ValueOf(&r.Ports[i].FCoE).Elem())
		}
		f := Filter{Ports: rapid.SampledFrom([][]string{nil, {"one"}}).Draw(t, "ports"),
			VLANs: rapid.SampledFrom([][]int{nil, {7}}).Draw(t, "VLANs")}
		f.Apply(r)
		if r.FCoE != nil {
			for _, s := range r.FCoE.Sessions {
				if f.VLANs != nil && s.VLAN != 7 || f.Ports != nil && s.Port != "one" && s.FCFPort != "one" {
					t.Fatalf("%+v passes %+v", s, f)
				}
			}
		}
		for _, v := range []View{FCoE, FCoEFCFs, FCoEENodes, FCoECounters, FCoESessions(false), FCoESessions(true)} {
			var b strings.Builder
			if err := v.Print(&b, r, "", &Options{Filter: f}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if line = strings.TrimSuffix(line, "\n"); strings.ContainsFunc(line, unicode.IsControl) {
					t.Fatalf("%q", line)
				}
			}
		}
	})
}
