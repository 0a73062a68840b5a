package discovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/discovery/dcbx"
)

// watch lets time pass in steps, and checks what the two ends of a link say with checkRuns.
func (n *net) watch(d time.Duration, own map[string]uint8) {
	n.t.Helper()
	for end := n.now + d.Nanoseconds(); n.now < end; {
		n.run(100 * time.Millisecond)
		for name, priorities := range own {
			n.checkRuns(name, priorities)
		}
	}
}

// checkRuns checks that port 1 of a switch says what runs: a feature is agreed only when the switch
// runs it, and its operational values are those that run. With IEEE, a port with a peer shows no
// priority that it neither runs nor has of its own.
func (n *net) checkRuns(name string, own uint8) {
	n.t.Helper()
	runs, agreed, is := Agreement{}, n.all[name].Agreements()["1"], n.dcbx(name, "1")
	if c := n.runs[name+" 1"]; c != nil {
		runs = c.is
	}
	var pfc uint8
	if is.Operational.PFC != nil {
		pfc = set(is.Operational.PFC.Priorities)
	}
	var share uint8
	if runs.ETS != nil && is.Operational.ETS != nil {
		share = uint8(is.Operational.ETS.TrafficClasses[1].Bandwidth)
	}
	if pfc != runs.PFC || runs.ETS != nil && share != runs.ETS.Bandwidth[1] {
		n.t.Fatalf("%d ms: %s runs %+v, but says %+v", n.now/1e6, name, runs, is.Operational)
	}
	late := [...]bool{agreed.PFC != runs.PFC, agreed.ETS != runs.ETS &&
		(agreed.ETS == nil || runs.ETS == nil || !agreed.ETS.Same(runs.ETS))}
	for i := range late {
		f := is.Features[i]
		fits := slices.Contains([]string{"agreed", "peer", "local"}, f.State)
		if late[i] && fits || !late[i] && f.State == "applying" ||
			strings.Contains(f.Why, "; the switch still runs ") != late[i] {
			n.t.Fatalf("%d ms: %s runs %+v and has agreed on %+v, but says %+v", n.now/1e6, name, runs, agreed, f)
		}
	}
	if shows := n.shows(name); is.Version == "ieee" && is.Peer.State == "one" && shows&^(runs.PFC|own) != 0 {
		n.t.Fatalf("%d ms: %s runs %08b, has %08b of its own, and shows %08b", n.now/1e6, name, runs.PFC, own, shows)
	}
}

// set returns the set of priorities.
func set(priorities []int) (all uint8) {
	for _, p := range priorities {
		all |= 1 << p
	}
	return all
}

// shows returns the priorities of the PFC TLV that port 1 of a switch has sent last.
func (n *net) shows(name string) uint8 {
	n.t.Helper()
	l, _ := n.all[name].Report(n.now, "1")
	for _, tlv := range l.LastSent.TLVs {
		if value := tlv.Hex; strings.HasPrefix(value, "0080c20b") {
			var flags, priorities uint8
			if _, err := fmt.Sscanf(value[8:], "%02x%02x", &flags, &priorities); err != nil {
				n.t.Fatal(err)
			}
			return priorities
		}
	}
	return 0
}

// late are times that a switch may take to run what it agrees on.
var late = []time.Duration{0, 20 * time.Millisecond, 900 * time.Millisecond, 5 * time.Second}

// between returns two switches with one link, which have different priorities and tables.
func between(t *testing.T, v dcbx.Version, roles [2]Role, ties [2]dcbx.Tie, delays int) (n *net, own map[string]uint8) {
	n, own = newNet(t), map[string]uint8{"a": 0x08, "b": 0x10}
	n.wire("a 1", "b 1")
	for i, name := range []string{"a", "b"} {
		p := at("1", roles[i], own[name])
		p.Local.Version, p.Local.Tie, p.Local.ETS = v, ties[i], table(30+10*uint8(i))
		n.delay[name] = late[delays%len(late)].Nanoseconds()
		delays /= len(late)
		n.add(name, p)
	}
	return n, own
}

// TestAppliedLate: switches need some time to run what they agree on, and a feature counts as
// agreed only then. Whatever these times are, two of them settle, with a bounded number of LLDPDUs,
// also when settings change and when the link flaps, and report no mismatch meanwhile.
func TestAppliedLate(t *testing.T) {
	for i := range 7 * len(late) * len(late) {
		v, roles, delays := dcbx.Version(i%7%3)+dcbx.IEEE, [2]Role{Manual, Upstream}, i/7
		switch i % 7 {
		case 3, 4, 5:
			roles = [2]Role{Upstream, Manual}
		case 6:
			roles = [2]Role{Upstream, Upstream} // a has the lower address, and gives way
		}
		name := fmt.Sprint(v, roles, late[delays%len(late)], late[delays/len(late)])
		t.Run(name, func(t *testing.T) {
			n, own := between(t, v, roles, [2]dcbx.Tie{}, delays)
			wins := "a"
			if roles[0] == Upstream {
				wins = "b"
			}
			log := n.journal("b")
			settle := func(what string, want uint8) {
				t.Helper()
				sent := n.sent
				n.watch(15*time.Second, own)
				n.run(60 * time.Second)
				for name := range own {
					n.wantPFC(name, "1", want)
					n.wantMismatches(name, "1")
					if f := n.dcbx(name, "1").Features[dcbx.FeaturePFC]; f.State == "applying" {
						t.Errorf("%+v", f)
					}
				}
				if more := n.sent - sent; more > 26 || t.Failed() {
					t.Fatalf("%s: %d LLDPDUs", what, more)
				}
			}
			settle("start", own[wins])
			own[wins] = 0x20
			changed := n.all[wins].ports[0].PortParams
			changed.Local.PFC.Priorities = 0x20
			n.configure(wins, changed)
			settle("change", 0x20)
			for flaps := range uint32(3) {
				for name := range own {
					n.all[name].SetLink(n.now, "1", true, n.mac(name, "1"), flaps+1)
				}
				n.watch(1200*time.Millisecond, own)
			}
			settle("flaps", 0x20)
			if lines := log.with("DCBX mismatch"); len(lines) > 0 {
				t.Error(lines)
			}
			n.all[wins].Shutdown(n.now, "")
			n.watch(6*time.Second, own)
		})
	}
}

// TestAppliedLateByBoth: two ends that are both willing, and both take the other's settings, since
// they break ties in different ways, settle, too, however long they need to run them.
func TestAppliedLateByBoth(t *testing.T) {
	for i := range len(late) * len(late) {
		n, _ := between(t, dcbx.IEEE, [2]Role{Upstream, Upstream}, [2]dcbx.Tie{dcbx.TieLower, dcbx.TieHigher}, i)
		n.run(400 * time.Second)
		sent, runs := n.sent, n.all["a"].Agreements()["1"].PFC
		n.run(300 * time.Second)
		n.wantPFC("a", "1", runs)
		n.wantPFC("b", "1", runs)
		if more := n.sent - sent; more > 22 || runs != 0x08 && runs != 0x10 {
			t.Errorf("delays %d: %d LLDPDUs, PFC for %08b", i, more, runs)
		}
	}
}
