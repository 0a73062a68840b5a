package snoop

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/internal/state"
)

// inBothVLANs is a bench with sessions in both FCoE VLANs, and with logins that wait. The first
// ones are 4 s old, the others 3 s. FCF B wants no keep-alives.
func inBothVLANs(t *testing.T) *bench {
	b := loggedIn(t)
	b.run(sec)
	silent := advertisement("f2", fcfB)
	silent.Period.NoKeepAlive, silent.Fabric.VFID, silent.Priority = true, 5, 7
	b.pass(silent, "e1", "e2", "e3", "t")
	b.logIn("e2", hostB, "f2", fcfB, idD)
	b.logIn("e1", hostA, "f2", fcfB, idC)
	elsewhere := in(advertisement("f1", fcfA), spmaVLAN)
	elsewhere.Fabric.FCMap = mapOfSPMA
	b.pass(elsewhere, "e1", "e2", "t")
	one := ask("e2", hostB, hostB, 6)
	b.pass(one, "f1")
	b.pass(give(one, idB, hostB), "e2")
	for _, f := range []sent{flogi("e2", hostB, fcfA, 3), flogi("e2", hostB, fcfA, 2), fdisc("e1", hostA, fcfB, 4),
		fdisc("e1", hostA, fcfA, 5), in(flogi("e1", hostA, fcfA, 1), spmaVLAN)} {
		b.receive(f)
	}
	b.pass(logo("e1", hostA, fcfA, idA, 6), "f1")
	b.run(3 * sec)
	return b
}

// TestReport: the report has all that is known, by VLAN and then by address.
func TestReport(t *testing.T) {
	r := inBothVLANs(t).Report(4 * sec)
	if want := []state.FCoEInstance{
		{Name: "FSB", VLAN: fcoeVLAN, FCMap: "0EFC00", FCFs: 2, ENodes: 3, Sessions: 4},
		{Name: "other", VLAN: spmaVLAN, FCMap: "0EFC07", FCFs: 1, ENodes: 1, Sessions: 1},
	}; !slices.Equal(r.Instances, want) {
		t.Errorf("instances %+v\nwant %+v", r.Instances, want)
	}
	if want := (state.FCoETables{FCFs: state.FCoETable{Used: 3, Limit: 4}, ENodes: state.FCoETable{Used: 4, Limit: 8},
		Sessions: state.FCoETable{Used: 5, Limit: 16},
		Pending:  state.FCoETable{Used: 6, Limit: 12}}); r.Tables != want {
		t.Errorf("tables %+v, want %+v", r.Tables, want)
	}
	var got []string
	for _, f := range r.FCFs {
		got = append(got, fmt.Sprintf("FCF %d %s %s %s %d %d, %d s old, %d ms left, silent %v, %d sessions", f.VLAN,
			f.MAC, f.Port, f.FCMap, f.VFID, f.Priority, f.SinceNS/sec, f.ExpiresInNS/ms, f.NoKeepAlive, f.Sessions))
	}
	for _, e := range r.ENodes {
		got = append(got, fmt.Sprintf("ENode %d %s %s to %s, %d s old, %d ms left, %d sessions", e.VLAN, e.MAC, e.Port,
			e.FCF, e.SinceNS/sec, e.ExpiresInNS/ms, e.Sessions))
	}
	for _, s := range r.Sessions {
		got = append(got, fmt.Sprintf("%d %s %s %s of %s at %s to %s at %s, %d s old, %d ms left", s.VLAN, s.Login,
			s.FCID, s.VNPort, s.ENode, s.Port, s.FCF, s.FCFPort, s.SinceNS/sec, s.ExpiresInNS/ms))
	}
	for _, l := range r.Pending {
		got = append(got, fmt.Sprintf("%d waiting %s %s %s at %s to %s, %d s old, %d ms left", l.VLAN, l.Login, l.OXID,
			l.ENode, l.Port, l.FCF, l.SinceNS/sec, l.ExpiresInNS/ms))
	}
	want := strings.Split(`
FCF 2094 02:00:00:fc:f0:01 f1 0EFC00 0 128, 4 s old, 16100 ms left, silent false, 2 sessions
FCF 2094 02:00:00:fc:f0:02 f2 0EFC00 5 7, 4 s old, 17100 ms left, silent true, 2 sessions
FCF 2095 02:00:00:fc:f0:01 f1 0EFC07 0 128, 3 s old, 17100 ms left, silent false, 1 sessions
ENode 2094 02:00:00:00:0a:01 e1 to 02:00:00:fc:f0:01, 4 s old, 16100 ms left, 2 sessions
ENode 2094 02:00:00:00:0a:01 e1 to 02:00:00:fc:f0:02, 3 s old, 0 ms left, 1 sessions
ENode 2094 02:00:00:00:0b:01 e2 to 02:00:00:fc:f0:02, 3 s old, 0 ms left, 1 sessions
ENode 2095 02:00:00:00:0b:01 e2 to 02:00:00:fc:f0:01, 3 s old, 17100 ms left, 1 sessions
2094 flogi 0x010203 0e:fc:00:01:02:03 of 02:00:00:00:0a:01 at e1 to 02:00:00:fc:f0:01 at f1, 4 s old, 16100 ms left
2094 fdisc 0x010204 0e:fc:00:01:02:04 of 02:00:00:00:0a:01 at e1 to 02:00:00:fc:f0:01 at f1, 4 s old, 16100 ms left
2094 flogi 0x010305 0e:fc:00:01:03:05 of 02:00:00:00:0a:01 at e1 to 02:00:00:fc:f0:02 at f2, 3 s old, 17100 ms left
2094 flogi 0x020301 0e:fc:00:02:03:01 of 02:00:00:00:0b:01 at e2 to 02:00:00:fc:f0:02 at f2, 3 s old, 17100 ms left
2095 flogi 0x010204 02:00:00:00:0b:01 of 02:00:00:00:0b:01 at e2 to 02:00:00:fc:f0:01 at f1, 3 s old, 17100 ms left
2094 waiting fdisc 0005 02:00:00:00:0a:01 at e1 to 02:00:00:fc:f0:01, 3 s old, 17000 ms left
2094 waiting logo 0006 02:00:00:00:0a:01 at e1 to 02:00:00:fc:f0:01, 3 s old, 17000 ms left
2094 waiting fdisc 0004 02:00:00:00:0a:01 at e1 to 02:00:00:fc:f0:02, 3 s old, 17000 ms left
2094 waiting flogi 0002 02:00:00:00:0b:01 at e2 to 02:00:00:fc:f0:01, 3 s old, 17000 ms left
2094 waiting flogi 0003 02:00:00:00:0b:01 at e2 to 02:00:00:fc:f0:01, 3 s old, 17000 ms left
2095 waiting flogi 0001 02:00:00:00:0a:01 at e1 to 02:00:00:fc:f0:01, 3 s old, 17000 ms left`[1:], "\n")
	for i := range max(len(got), len(want)) {
		if at := min(i, len(got)-1, len(want)-1); got[at] != want[at] || at < i {
			t.Errorf("line %d:\n%s\nwant\n%s", i, got[at], want[at])
		}
	}
}

// TestSaveIsSorted: a snapshot of the same state is the same, so that a state file changes only
// with what it holds.
func TestSaveIsSorted(t *testing.T) {
	first := inBothVLANs(t).Save(0)
	for range 5 {
		if again := inBothVLANs(t).Save(0); !reflect.DeepEqual(first, again) {
			t.Fatalf("%+v\nis not\n%+v", again, first)
		}
	}
}

// TestUpdates: a change of what Save returns has a new number, and so have keep-alives.
func TestUpdates(t *testing.T) {
	b := loggedIn(t)
	for what, change := range map[string]func(){
		"an advertisement":         func() { b.receive(advertisement("f1", fcfA)) },
		"a keep-alive of an ENode": func() { b.receive(keepAlive("e1", hostA, fcfA)) },
		"a keep-alive":             func() { b.receive(keepVN("e1", hostA, fcfA, idA)) },
		"a login":                  func() { b.logIn("e2", hostB, "f1", fcfA, idC) },
		"an end":                   func() { b.receive(clearLinks("f1", fcfA, hostA, vx(hostA, idB, 2))) },
		"an FCF that is gone": func() {
			b.SetLink(b.now, "f2", true)
			b.SetLink(b.now, "f2", false)
		},
	} {
		b = loggedIn(t)
		before, saved := b.Updates(), b.Save(b.now)
		b.now++
		if change(); b.Updates() == before {
			t.Errorf("after %s the number is the same", what)
		}
		if reflect.DeepEqual(b.Save(b.now-1), saved) {
			t.Errorf("%s changes nothing", what)
		}
		before = b.Updates()
		b.receive(solicitation("e3", nobody))
		if b.Updates() != before {
			t.Errorf("after %s, a solicitation has a new number, though nothing of it is known", what)
		}
	}
}

// TestRefusedFrames: the report of a refusal says what the frame was, as far as it can be read.
func TestRefusedFrames(t *testing.T) {
	whole := keepAlive("e2", hostB, fcfA)
	edited := func(edit func([]byte) []byte) []byte { f := whole; f.edit = edit; return f.bytes() }
	ip := whole.bytes()
	ip[16], ip[17] = 0x08, 0x00
	for reason, c := range map[Reason]struct {
		frame        []byte
		source, text string
	}{
		BadHeader:              {ip, hostB.String(), "EtherType 0800"},
		NoLink:                 {whole.bytes(), hostB.String(), "keep-alive of ENode 02:00:00:00:0b:01"},
		Reason(fcoe.Truncated): {whole.bytes()[:20], hostB.String(), "FIP frame that can't be read"},
		Reason(fcoe.BadLength): {edited(func(b []byte) []byte { b[11] = 0; return b }), hostB.String(),
			"keep-alive that can't be read"},
	} {
		b := loggedIn(t)
		v := b.Receive(b.now, Frame{Port: "e2", VID: fcoeVLAN, Bytes: c.frame})
		r := b.ReportPort(b.now, "e2").Refusals
		if want := (state.FCoERefusedFrame{VLAN: fcoeVLAN, Source: c.source, Text: c.text}); v.Reason != reason ||
			len(r) != 1 || r[0].Last == nil || *r[0].Last != want {
			t.Errorf("%v: %v, %+v; want %v, %+v", c.text, v.Reason, r[0].Last, reason, want)
		}
	}
	b := loggedIn(t)
	b.Receive(b.now, Frame{Port: "e2", VID: fcoeVLAN, Bytes: []byte{1, 2, 3}})
	b.Undelivered("e1", Congested)
	last := b.ReportPort(b.now, "e2").Refusals[0].Last
	if last.Source != "" || last.Text != "no valid Ethernet header" {
		t.Errorf("a runt: %+v", last)
	}
	if r := b.ReportPort(b.now, "e1").Refusals; len(r) != 1 || r[0].Last != nil {
		t.Errorf("a frame that was not kept: %+v", r)
	}
}

// TestAlerts: what keeps a host from its storage, or may be an attack, has an alert; what happens
// every day has none.
func TestAlerts(t *testing.T) {
	for r, want := range map[Reason][2]bool{NoEgress: {false, false}, NoLink: {true, false}, RogueFCF: {true, true}} {
		if got := [2]bool{r.Alerts(), r.Serious()}; got != want {
			t.Errorf("%v: alert and serious %v, want %v", r, got, want)
		}
	}
	for c, want := range map[Cause]bool{LoggedOut: false, LinkExpired: true} {
		if c.Alerts() != want {
			t.Errorf("%v: alert %v", c, !want)
		}
	}
}

// TestReportedSPMA: an end by spma is announced by what the switch reports, too, and an address
// that looks like an FPMA of the default FC-MAP is none with another FC-MAP.
func TestReportedSPMA(t *testing.T) {
	b := withSPMA(t)
	const wanted frame.MAC = 0x0efc00_0a0b0c
	one := ask("e1", hostA, wanted, 1)
	b.pass(one, "f1")
	b.pass(give(one, idA, wanted), "e1")
	p := params()
	p.Instances[1].SPMA = false
	if ended := b.configure(p); ended != 1 {
		t.Errorf("%d ended without SPMA", ended)
	}
}
