package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func refused(reason string, frames uint64, ago time.Duration) FCoERefusal {
	return FCoERefusal{reason, false, frames, &FCoERefusedFrame{AgoNS: int64(ago), VLAN: 2094,
		Source: "00:1b:21:d9:d5:72", Text: "advertisement"}}
}

func serious(reason string, ago time.Duration) FCoERefusal {
	r := refused(reason, 1, ago)
	r.Serious = true
	return r
}

// TestFCoEComplaints: each thing that an operator should look at is said, once, where it is, and
// nothing else.
func TestFCoEComplaints(t *testing.T) {
	port0 := func(all ...FCoERefusal) func(*Switch) { return func(r *Switch) { r.Ports[0].FCoE.Refusals = all } }
	for _, test := range []struct {
		name string
		make func(*Switch)
		want string // port and the beginning of the text; empty: no complaint
	}{
		{"nothing", func(*Switch) {}, ""},
		{"no snooping", func(r *Switch) { r.FCoE = nil }, ""},
		{"no FCF", func(r *Switch) { r.FCoE.Instances[0].FCFs = 0 }, ": FCoE VLAN 2094 (instance FSB) has no FCF"},
		{"just full", func(r *Switch) {
			r.FCoE.Tables.Sessions, r.Ports[0].FCoE.ENodes = FCoETable{4, 4}, FCoETable{1, 1}
		}, ""},
		{"full", func(r *Switch) {
			r.FCoE.Tables.Sessions = FCoETable{4, 4}
			port0(refused("session_limit", 1, time.Hour))(r)
		}, ": FIP snooping refuses what exceeds the limit of 4: raise fcoe.max_sessions"},
		{"too many FCFs", func(r *Switch) {
			r.FCoE.Tables.FCFs = FCoETable{2, 2}
			r.Ports[1].FCoE.Refusals = []FCoERefusal{refused("fcf_limit", 1, 0)}
		}, ": FIP snooping refuses what exceeds the limit of 2: raise fcoe.max_fcfs"},
		{"switch and port full", func(r *Switch) {
			r.FCoE.Tables.ENodes, r.Ports[0].FCoE.ENodes = FCoETable{2, 2}, FCoETable{2, 2}
			port0(refused("enode_limit", 1, 0))(r)
		}, ": FIP snooping refuses what exceeds the limit of 2: raise fcoe.max_enodes"},
		{"almost full", func(r *Switch) { r.FCoE.Tables.Sessions = FCoETable{3, 4} }, ""},
		{"not saved", func(r *Switch) { r.FCoE.StateFile.Error = "no space" },
			": FCoE sessions would end with a restart, since they can't be saved: no space"},
		{"a rogue", port0(serious("rogue_fcf", 12*time.Second)),
			"eth0: FIP snooping refused a frame 12s ago in VLAN 2094, rogue_fcf: from 00:1b:21:d9:d5:72: adv"},
		{"a rogue that hides", port0(serious("rogue_fcf", 12*time.Second), refused("no_session", 1, time.Second)),
			"eth0: FIP snooping refused a frame 12s ago in VLAN 2094, rogue_fcf"},
		{"a rogue of long ago", port0(serious("rogue_fcf", 10*time.Minute)), ""},
		{"a conflict", func(r *Switch) {
			r.Ports[1].FCoE.Refusals = []FCoERefusal{serious("fpma_conflict", 0)}
		}, "eth1: FIP snooping refused"},
		{"a host where an FCF belongs", func(r *Switch) {
			r.Ports[1].FCoE.Refusals = []FCoERefusal{serious("rogue_enode", 0)}
		}, "eth1: FIP snooping refused"},
		{"an everyday refusal", port0(refused("no_session", 9, 0)), ""},
		{"one that was not kept", port0(FCoERefusal{Reason: "congested", Frames: 9}), ""},
		{"a stranded host", port0(refused("no_session", 10, 8*time.Second)),
			"eth0: a host keeps alive a session that the switch does not have"},
		{"a host that was stranded", port0(refused("no_session", 10, 2*time.Minute)), ""},
		{"a full port", func(r *Switch) {
			r.Ports[0].FCoE.Sessions.Used = 256
			port0(refused("session_limit", 1, time.Hour))(r)
		}, "eth0: FIP snooping refuses what exceeds the limit of 256: raise max_sessions in the fcoe of the port"},
		{"a port of FCFs", func(r *Switch) { r.Ports[1].FCoE.Sessions = FCoETable{1, 1} }, ""},
	} {
		r := &Switch{
			FCoE: &FCoE{Instances: []FCoEInstance{{Name: "FSB", VLAN: 2094, FCFs: 1}}},
			Ports: []Port{{Name: "eth0", FCoE: &PortFCoE{Role: "enode", Sessions: FCoETable{Limit: 256}}},
				{Name: "eth1", FCoE: &PortFCoE{Role: "fcf"}}, {Name: "eth2"}},
		}
		test.make(r)
		var got []string
		for _, c := range r.FCoEComplaints() {
			got = append(got, c.Port+": "+c.Text)
		}
		if test.want == "" && got != nil || test.want != "" &&
			(len(got) != 1 || !strings.HasPrefix(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestFCoECountFrom: clearing counters also clears those by reason, and those that are 0 then are
// left out; what counts from before a reason appeared stays.
func TestFCoECountFrom(t *testing.T) {
	at := func(received uint64, refusals []FCoERefusal, endings []FCoEEnding) *Switch {
		return &Switch{Ports: []Port{{Name: "eth0", FCoE: &PortFCoE{Received: received, Sessions: FCoETable{Used: 3},
			Refusals: refusals, Endings: endings}}}}
	}
	last := &FCoERefusedFrame{AgoNS: 5, Source: "00:1b:21:d9:d5:72"}
	now := at(100, []FCoERefusal{{"rogue_fcf", true, 5, last}, {"truncated", false, 2, nil},
		{"no_session", false, 9, nil}},
		[]FCoEEnding{{"cleared", 4}})
	now.CountFrom(time.Now(), at(60, []FCoERefusal{{"rogue_fcf", true, 3, nil}, {"truncated", false, 2, nil}}, nil), 0)
	p := now.Ports[0].FCoE
	want := []FCoERefusal{{"rogue_fcf", true, 2, last}, {"no_session", false, 9, nil}}
	if !slices.Equal(p.Refusals, want) {
		t.Errorf("%v, want %v", p.Refusals, want)
	}
	if got := fmt.Sprint(p.Received, p.Sessions.Used, p.Endings); got != "40 3 [{cleared 4}]" {
		t.Error(got)
	}
	fresh := at(7, nil, nil)
	fresh.CountFrom(time.Now(), &Switch{Ports: []Port{{Name: "eth0"}}}, 0)
	if p := fresh.Ports[0].FCoE; p.Received != 7 {
		t.Errorf("%+v", p)
	}
}
