package dcbx

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

var (
	testPeer = [6]byte{2, 0, 0, 0, 0, 2}
	plain    = peerFlags{enable: true}
)

// all returns the sub-TLVs of all features with the values of testConfig, or with others.
func all(v Version, flags peerFlags, same bool) []byte {
	return slices.Concat(scriptedFeature(v, FeaturePFC, flags, same), scriptedFeature(v, FeatureETS, flags, same),
		scriptedFeature(v, FeatureApp, flags, same))
}

// hear hands a scripted TLV to a Machine.
func hear(m *Machine, v Version, seq, ack uint32, features ...[]byte) {
	m.Receive(testPeer, [][]byte{scripted(v, seq, ack, features...)})
}

func state(m *Machine, f Feature) State { return m.Status().Features[f].State }

// checkControl compares the control sub-TLV that a Machine sends.
func checkControl(t *testing.T, m *Machine, what string, seq, ack uint32, pending bool) {
	t.Helper()
	if m.Pending() != pending {
		t.Errorf("%s: pending %v", what, !pending)
	}
	c := parse(m.version, m.TLVs(nil)).control
	if *c != (control{seq: seq, ack: ack}) {
		t.Errorf("%s: %+v, want SeqNo %d, AckNo %d", what, *c, seq, ack)
	}
	if m.Pending() {
		t.Errorf("%s: pending although it was sent", what)
	}
}

// TestControl follows the numbers of the control sub-TLV.
func TestControl(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		c := testConfig(v)
		m := NewMachine(c)
		checkControl(t, m, "start", 1, 0, true)
		if s := m.Status().Control; s.UnsentConfigured || s.Acknowledged {
			t.Errorf("%v: start: %+v", v, s)
		}
		hear(m, v, 7, 0, all(v, plain, true))
		checkControl(t, m, "the peer has not heard of this end", 1, 7, true)
		if state(m, FeaturePFC) != StateWaiting {
			t.Errorf("%v: %+v", v, m.Status().Features[FeaturePFC])
		}
		hear(m, v, 7, 1, all(v, plain, true))
		checkControl(t, m, "acknowledged", 1, 7, false)
		if state(m, FeaturePFC) != StateAgreed {
			t.Errorf("%v: %+v", v, m.Status().Features[FeaturePFC])
		}
		hear(m, v, 7, 1, all(v, plain, true))
		checkControl(t, m, "refreshed", 1, 7, false)
		hear(m, v, 8, 1, all(v, plain, true))
		checkControl(t, m, "the peer has changed", 1, 8, true)

		c.PFC.Priorities = 0x18
		m.Configure(c)
		checkControl(t, m, "changed", 2, 8, true)
		c.PFC.Priorities = 0x38
		m.Configure(c)
		checkControl(t, m, "changed again, before the first change is acknowledged", 2, 8, false)
		if p := parse(v, m.TLVs(nil)).pfc.Priorities; p != 0x18 {
			t.Errorf("%v: sends %#x under the SeqNo of the first change", v, p)
		}
		if s := m.Status(); !s.Control.UnsentConfigured || s.Control.Acknowledged || s.Features[FeaturePFC].Synced ||
			!s.Features[FeatureETS].Synced {
			t.Errorf("%v: %+v", v, s)
		}
		hear(m, v, 8, 2, all(v, plain, true))
		checkControl(t, m, "the first change is acknowledged", 3, 8, true)
		if got := m.Status().Features[FeaturePFC]; got.State != StateWaiting || got.Operational.PFC.Priorities != 8 ||
			got.Source != Local {
			t.Errorf("%v: what ran before does not: %+v", v, got)
		}
		if p := parse(v, m.TLVs(nil)).pfc.Priorities; p != 0x38 {
			t.Errorf("%v: sends %#x", v, p)
		}
		hear(m, v, 8, 3, all(v, plain, true))
		checkControl(t, m, "acknowledged; now PFC is a mismatch, so the Error flag changes", 4, 8, true)
		hear(m, v, 8, 2, all(v, plain, true))
		checkControl(t, m, "an old LLDPDU", 4, 8, false)
		hear(m, v, 8, 0, all(v, plain, true))
		checkControl(t, m, "the peer has started over with the same number", 4, 8, true)
		hear(m, v, 0, 4, all(v, plain, true))
		checkControl(t, m, "the peer has lost this end", 4, 0, true)
	}
}

// TestRestart: after the peer's expiry, the first change is advertised when the peer has
// acknowledged the start.
func TestRestart(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		m := NewMachine(testConfig(v))
		settle(t, m, v, all(v, plain, true))
		m.Expire()
		checkControl(t, m, "expired", 0, 0, v == CIN)
		m.Expire()
		checkControl(t, m, "expired twice", 0, 0, false)
		hear(m, v, 7, 1, all(v, plain, true))
		checkControl(t, m, "the peer still has the numbers of before", 0, 7, true)
		if state(m, FeaturePFC) != StateWaiting {
			t.Errorf("%v: %+v", v, m.Status().Features[FeaturePFC])
		}
		hear(m, v, 7, 0, all(v, plain, true))
		checkControl(t, m, "the peer has acknowledged the start", 1, 7, true)
		hear(m, v, 7, 1, all(v, plain, true))
		hear(m, v, 7, m.Status().Control.SeqNo, all(v, plain, true))
		if state(m, FeaturePFC) != StateAgreed || errorFlag(v, FeaturePFC, m.TLVs(nil)[0]) {
			t.Errorf("%v: %+v", v, m.Status().Features[FeaturePFC])
		}
		m.LinkDown()
		checkControl(t, m, "link down", 1, 0, true)
		if errorFlag(v, FeaturePFC, m.TLVs(nil)[0]) {
			t.Errorf("%v: an Error flag without a peer", v)
		}
	}
}

// TestOperatingVersion: a peer with another operating version has yet to receive ours.
func TestOperatingVersion(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		m := NewMachine(testConfig(v))
		tlv := scripted(v, 7, 1, all(v, plain, true))
		tlv[6] = 1
		m.Receive(testPeer, [][]byte{tlv})
		checkControl(t, m, "other version", 1, 0, true)
		if state(m, FeaturePFC) != StateWaiting {
			t.Errorf("%v: %+v", v, m.Status().Features[FeaturePFC])
		}
		pfc := scriptedFeature(v, FeaturePFC, plain, true)
		pfc[2] = 1 // of this feature alone
		settle(t, m, v, pfc, scriptedFeature(v, FeatureETS, plain, true))
		if state(m, FeaturePFC) != StateWaiting || state(m, FeatureETS) != StateAgreed {
			t.Errorf("%v: %+v", v, m.Status().Features)
		}
	}
}

// TestAuto: the version is IEEE until the peer sends only an older one, which then stays until the
// link goes down.
func TestAuto(t *testing.T) {
	var ieee [][]byte
	for _, h := range vectors[IEEE] {
		ieee = append(ieee, unhex(t, h))
	}
	cee, cin := scripted(CEE, 1, 0, all(CEE, plain, true)), scripted(CIN, 1, 0, all(CIN, plain, true))
	m := NewMachine(testConfig(Auto))
	check := func(what string, v Version, s State, why string) {
		t.Helper()
		if got := m.Status(); got.Version != v || !strings.Contains(got.Why, why) ||
			got.Features[FeaturePFC].State != s {
			t.Errorf("%s: %v (%s), %+v", what, got.Version, got.Why, got.Features[FeaturePFC])
		}
		only := [versions]bool{}
		only[v] = true
		if sent := parse(v, m.TLVs(nil)).sent; sent != only {
			t.Errorf("%s: sends %v", what, sent)
		}
	}
	check("start", IEEE, StateNoPeer, "until")
	m.Receive(testPeer, append(slices.Clone(ieee), cee))
	check("both", IEEE, StateAgreed, "IEEE and CEE")
	m.Receive(testPeer, append([][]byte{cin}, ieee...))
	check("both", IEEE, StateAgreed, "IEEE and CIN")
	m.Receive(testPeer, ieee)
	check("IEEE", IEEE, StateAgreed, "the peer sends IEEE")
	m.Receive(testPeer, [][]byte{cin, cee})
	check("older ones", CEE, StateWaiting, "CEE but not IEEE")
	if errorFlag(CEE, FeaturePFC, m.TLVs(nil)[0]) {
		t.Error("an Error flag at the start of CEE")
	}
	m.Receive(testPeer, ieee)
	check("IEEE again", CEE, StateVersion, "CEE but not IEEE")
	if sent := m.Status().Sent; !slices.Equal(sent, []Version{IEEE}) {
		t.Errorf("sent %v", sent)
	}
	m.Expire()
	check("expired", CEE, StateNoPeer, "CEE but not IEEE")
	m.LinkDown()
	check("link down", IEEE, StateNoPeer, "until")
	m.Receive(testPeer, [][]byte{cin})
	check("CIN", CIN, StateWaiting, "CIN but not IEEE")
	m.Receive(testPeer, [][]byte{cee})
	check("CEE", CIN, StateVersion, "CIN but not IEEE")

	m.Configure(testConfig(CEE))
	check("configured", CEE, StateWaiting, "configured") // what the peer has sent is not forgotten
	m.Receive(testPeer, nil)
	check("no DCBX", CEE, StateNoPeer, "configured")
}

// TestIEEEWithoutPeer: PFC is agreed with a peer only, and what was taken ends with it.
func TestIEEEWithoutPeer(t *testing.T) {
	c := testConfig(IEEE)
	c.Willing = willing(true)
	m := NewMachine(c)
	peer := NewMachine(pairConfig(IEEE, 1, 0x18)).TLVs(nil)
	for what, end := range map[string]func(){"expiry": m.Expire, "link down": m.LinkDown,
		"no DCBX": func() { m.Receive(testPeer, nil) },
		"several": func() { m.SetMultiplePeers(true) }} {
		m.SetMultiplePeers(false)
		m.Receive(testPeer, peer)
		if s := m.Status().Features[FeaturePFC]; s.State != StatePeer || s.Operational.PFC.Priorities != 0x18 {
			t.Fatalf("%s: %+v", what, s)
		}
		if p := parse(IEEE, m.TLVs(nil)).pfc.Priorities; p != 0x18 {
			t.Errorf("%s: shows %#x while the peer's runs", what, p)
		}
		end()
		want := StateNoPeer
		if what == "several" {
			want = StateMultiple
		}
		s := m.Status().Features
		if s[FeaturePFC].State != want || s[FeaturePFC].Operational.PFC.Priorities != 0 ||
			s[FeaturePFC].Source != Off ||
			s[FeatureETS].State != want || s[FeatureETS].Operational.ETS != testETS || !m.Pending() {
			t.Errorf("%s: %+v, pending %v", what, s, m.Pending())
		}
		if p := parse(IEEE, m.TLVs(nil)).pfc.Priorities; p != 0x08 {
			t.Errorf("%s: shows %#x", what, p)
		}
	}
}

// TestMultiplePeers: DCBX is off with several peers, in CEE with an error.
func TestMultiplePeers(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		m := NewMachine(testConfig(v))
		settle(t, m, v, all(v, plain, true))
		m.SetMultiplePeers(true)
		s := m.Status().Features[FeaturePFC]
		if s.State != StateMultiple || s.Source != Off || s.Local.Error != (v == CEE) {
			t.Errorf("%v: %+v", v, s)
		}
		m.SetMultiplePeers(false)
		settle(t, m, v, all(v, plain, true))
		if s := m.Status().Features[FeaturePFC]; s.State != StateAgreed || s.Local.Error {
			t.Errorf("%v: %+v", v, s)
		}
	}
}

// TestRefuseLegacy: what the switch cannot run is off, with an Error flag, until something else
// would run, the configuration changes or the switch can.
func TestRefuseLegacy(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		for f := range Feature(Features) {
			c := testConfig(v)
			c.Willing = willing(true)
			m := NewMachine(c)
			other := all(v, plain, false)
			settle(t, m, v, other)
			check := func(what string, want State, source Source) {
				t.Helper()
				tlv := settle(t, m, v, other)
				s := m.Status().Features[f]
				if s.State != want || s.Source != source || errorFlag(v, f, tlv) != (want == StateRefused) {
					t.Errorf("%v %v: %s: %+v", v, f, what, s)
				}
			}
			check("agreed", StatePeer, Peer)
			m.Refuse(f, "no memory")
			if s := m.Status().Features[f]; s.State != StateRefused || s.Source != Off || !m.Pending() {
				t.Errorf("%v %v: %+v", v, f, s)
			}
			if s := m.Status().Features[f]; f == FeaturePFC && s.Operational.PFC.Priorities != 0 {
				t.Errorf("%v: %+v", v, s)
			}
			hear(m, v, 7, 0, other) // the refusal is not yet acknowledged
			if s := m.Status().Features[f]; s.Source != Off || !s.Local.Error {
				t.Errorf("%v %v: while waiting: %+v", v, f, s)
			}
			check("refused", StateRefused, Off)
			m.Refuse(f, "still no memory")
			check("refused twice", StateRefused, Off)
			if why := m.Status().Features[f].Why; !strings.Contains(why, "still no memory") {
				t.Error(why)
			}
			m.Refuse(f, "")
			check("taken back", StatePeer, Peer)
			m.Refuse(f, "no memory")
			c.Tie = TieHigher - c.Tie
			m.Configure(c)
			check("configured", StatePeer, Peer)
			m.Refuse(f, "no memory")
			m.Configure(c)
			check("configured as it was", StateRefused, Off)
			settle(t, m, v, all(v, plain, true))
			if s := m.Status().Features[f]; s.State != StateAgreed {
				t.Errorf("%v %v: something else: %+v", v, f, s)
			}
			check("the refused again, which is a new offer", StatePeer, Peer)
		}
	}
}

// TestRefuseIEEE: what the switch cannot run gives way to its own configuration, which the TLVs
// show.
func TestRefuseIEEE(t *testing.T) {
	c := testConfig(IEEE)
	c.Willing = willing(true)
	m := NewMachine(c)
	p := pairConfig(IEEE, 1, 0x18)
	p.ETS = ETS{TC: [8]uint8{7: 1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}}
	p.Apps = []App{{SelectEthertype, EthertypeFCoE, 4}}
	peer := NewMachine(p)
	m.Receive(p.MAC, peer.TLVs(nil))
	for f := range Feature(Features) {
		if s := m.Status().Features[f]; s.State != StatePeer {
			t.Fatalf("%v: %+v", f, s)
		}
		m.TLVs(nil)
		m.Refuse(f, "no memory")
		if m.Pending() != (f != FeatureApp) { // which shows what this end has in any case
			t.Errorf("%v: pending %v", f, m.Pending())
		}
		m.Receive(p.MAC, peer.TLVs(nil))
		s := m.Status().Features[f]
		if s.State != StateRefused || s.Source != Local {
			t.Errorf("%v: %+v", f, s)
		}
	}
	s := m.Status().Features
	sent := parse(IEEE, m.TLVs(nil))
	if sent.pfc.Priorities != 8 || sent.ets != testETS || s[FeaturePFC].Operational.PFC.Priorities != 8 ||
		s[FeatureETS].Operational.ETS != testETS || !slices.Equal(s[FeatureApp].Operational.Apps, testApps) {
		t.Errorf("%+v %+v", sent, s)
	}
	p.PFC.Priorities = 0x10 // something else
	peer.Configure(p)
	m.Receive(p.MAC, peer.TLVs(nil))
	if s := m.Status().Features; s[FeaturePFC].State != StatePeer || s[FeatureETS].State != StateRefused {
		t.Errorf("%+v", s)
	}
}

// TestRefuseRunsWhatBothHave: after a refusal, PFC runs for those of the port's own priorities that
// the peer has, too, unless these are what was refused. The TLV shows all of its own.
func TestRefuseRunsWhatBothHave(t *testing.T) {
	for theirs, want := range map[uint8]uint8{0x30: 0x10, 0x38: 0x18, 0x20: 0, 0x10: 0} {
		c := pairConfig(IEEE, 0, 0x18)
		c.Willing = willing(true)
		m, peer := NewMachine(c), NewMachine(pairConfig(IEEE, 1, theirs))
		m.Receive(testPeer, peer.TLVs(nil))
		if s := m.Status().Features[FeaturePFC]; s.Operational.PFC.Priorities != theirs {
			t.Fatalf("%+v", s)
		}
		m.Refuse(FeaturePFC, "no memory")
		s, shown := m.Status().Features[FeaturePFC], parse(IEEE, m.TLVs(nil)).pfc.Priorities
		if s.State != StateRefused || s.Operational.PFC.Priorities != want || shown != 0x18 {
			t.Errorf("the peer has %#x: %#x runs, want %#x, %#x is shown; %v", theirs,
				s.Operational.PFC.Priorities, want, shown, s.State)
		}
	}
}

// TestRefuseOwn: a Machine whose own priorities are refused, too, has none.
func TestRefuseOwn(t *testing.T) {
	m := NewMachine(testConfig(IEEE))
	m.Refuse(FeaturePFC, "no memory")
	peer := NewMachine(pairConfig(IEEE, 1, 0x08)).TLVs(nil)
	m.Receive(testPeer, peer)
	if s := m.Status().Features[FeaturePFC]; s.State != StateAgreed {
		t.Errorf("refused while it was off: %+v", s)
	}
	m.Refuse(FeaturePFC, "no memory")
	m.Receive(testPeer, peer)
	if s := m.Status().Features[FeaturePFC]; s.State != StateRefused || s.Operational.PFC.Priorities != 0 ||
		s.Source != Off {
		t.Errorf("%+v", s)
	}
	m.Expire()
	if s := m.Status().Features[FeaturePFC]; s.State != StateNoPeer {
		t.Errorf("%+v", s)
	}
}

// TestCapability: a peer that cannot have PFC for as many priorities is a mismatch.
func TestCapability(t *testing.T) {
	for _, c := range []struct {
		own, theirs, capability uint8
		willing                 bool // the peer
		want                    State
	}{
		{0x18, 0x18, 8, false, StateAgreed},
		{0x18, 0x18, 2, false, StateAgreed},
		{0x18, 0x18, 1, false, StateMismatch},
		{0x18, 0x18, 0, false, StateAgreed}, // does not tell
		{0x18, 0x00, 1, true, StateMismatch},
		{0x08, 0x00, 0, true, StateMismatch},
		{0x00, 0x00, 0, true, StateAgreed},
		{0x08, 0x00, 1, true, StateLocal},
	} {
		for _, v := range []Version{IEEE, CEE} {
			p, o := pairConfig(v, 1, c.theirs), pairConfig(v, 0, c.own)
			p.PFC.Capability, p.Willing[FeaturePFC] = c.capability, c.willing
			l := newLink(o, p, nil)
			for range 3 {
				l.turn()
			}
			if v == IEEE { // the peer does not follow
				l.ends[0].m.Receive(p.MAC, NewMachine(p).TLVs(nil))
			}
			if s := l.ends[0].m.Status().Features[FeaturePFC]; s.State != c.want {
				t.Errorf("%v: %+v: %v: %s", v, c, s.State, s.Why)
			}
		}
	}
}

// TestRuns: with IEEE, the TLVs of an end that takes the peer's settings show these when they run.
func TestRuns(t *testing.T) {
	c, p := pairConfig(IEEE, 0, 0x08), pairConfig(IEEE, 1, 0x10)
	c.Willing, p.ETS.Bandwidth = willing(true), [8]uint8{30, 70}
	m := NewMachine(c)
	shows := func(pfc uint8, share uint8, want State) {
		t.Helper()
		said := parse(IEEE, m.TLVs(nil))
		if said.pfc.Priorities != pfc || said.ets.Bandwidth[1] != share {
			t.Errorf("shows %08b and %d %%, want %08b and %d %%", said.pfc.Priorities, said.ets.Bandwidth[1], pfc,
				share)
		}
		for _, f := range []Feature{FeaturePFC, FeatureETS} {
			if s := m.Status().Features[f]; s.State != want || s.Runs != (s.Still == "" && s.Source != Off) {
				t.Errorf("%v: %+v, want %v", f, s, want)
			}
		}
	}
	m.Runs(FeaturePFC, &Running{})
	m.Runs(FeatureETS, &Running{Values: Values{ETS: c.ETS}})
	shows(0x08, c.ETS.Bandwidth[1], StateNoPeer)
	m.Receive(testPeer, NewMachine(p).TLVs(nil))
	shows(0x08, c.ETS.Bandwidth[1], StateApplying)
	m.Runs(FeaturePFC, &Running{Values{PFC: p.PFC}, true})
	m.Runs(FeatureETS, &Running{Values{ETS: p.ETS}, true})
	if !m.Pending() {
		t.Error("the peer is not told that its settings run")
	}
	shows(0x10, 70, StatePeer)
	m.Expire()
	for _, f := range []Feature{FeaturePFC, FeatureETS} {
		if s := m.Status().Features[f]; s.State != StateNoPeer || !s.Runs || s.Still == "" {
			t.Errorf("%v: %+v after the peer's expiry", f, s)
		}
	}
}

// TestIgnored: a willing peer that does not take what it is told is a mismatch after some LLDPDUs.
func TestIgnored(t *testing.T) {
	p := pairConfig(IEEE, 1, 0x10)
	p.Willing = willing(true)
	p.ETS = ETS{}
	peer := NewMachine(p).TLVs(nil)
	m := NewMachine(testConfig(IEEE))
	for n := range 2 * maxIgnored {
		m.Receive(testPeer, peer)
		want := StateLocal
		if n+1 >= maxIgnored {
			want = StateMismatch
		}
		if got := [2]State{state(m, FeaturePFC), state(m, FeatureETS)}; got != [2]State{want, want} {
			t.Errorf("LLDPDU %d: %v", n, got)
		}
	}
	c := testConfig(IEEE)
	c.PFC.Priorities = 0x18
	m.Configure(c)
	if got := state(m, FeaturePFC); got != StateLocal {
		t.Errorf("after a change: %v", got)
	}
	for what, end := range map[string]func(){"link down": m.LinkDown, "expiry": m.Expire} {
		for range maxIgnored {
			m.Receive(testPeer, peer)
		}
		end()
		m.Receive(testPeer, peer)
		if got := state(m, FeaturePFC); got != StateLocal {
			t.Errorf("after %s: %v", what, got)
		}
	}
}

// TestBothGiveWay: when both ends take the other's priorities, which then swap with every LLDPDU,
// one that notices stands still.
func TestBothGiveWay(t *testing.T) {
	c := testConfig(IEEE)
	c.Willing = willing(true)
	m := NewMachine(c)
	p := pairConfig(IEEE, 1, 0x30)
	p.Willing = willing(true)
	maps := []uint8{0x30, 0x08}
	for n := range 10 {
		p.PFC.Priorities = maps[n%2]
		m.Receive(testPeer, NewMachine(p).TLVs(nil))
		shown, want := parse(IEEE, m.TLVs(nil)).pfc.Priorities, maps[n%2]
		if n > maxSwaps {
			want = 0x08
		}
		if shown != want {
			t.Errorf("LLDPDU %d: shows %#x", n, shown)
		}
		s, wantState := m.Status().Features[FeaturePFC], StatePeer
		switch {
		case maps[n%2] == 0x08:
			wantState = StateAgreed
		case n > maxSwaps:
			wantState = StateMismatch
		}
		if s.State != wantState || wantState == StateMismatch && !strings.Contains(s.Why, "each takes the other's") {
			t.Errorf("LLDPDU %d: %v, %q", n, s.State, s.Why)
		}
	}
	p.Willing = willing(false)
	p.PFC.Priorities = 0x30
	m.Receive(testPeer, NewMachine(p).TLVs(nil))
	if s := m.Status().Features[FeaturePFC]; s.State != StatePeer {
		t.Errorf("the peer is no longer willing: %+v", s)
	}
	p.Willing = willing(true)
	for n, i := range []int{0, 1, 0, 1, 1, 1, 0, 1, 0, 1} { // some swaps, a pause, some more
		p.PFC.Priorities = maps[i]
		m.Receive(testPeer, NewMachine(p).TLVs(nil))
		if shown := parse(IEEE, m.TLVs(nil)).pfc.Priorities; shown != p.PFC.Priorities {
			t.Errorf("LLDPDU %d: shows %#x", n, shown)
		}
	}
}

// TestGivesWay: the lower or the higher address gives way; equal ones both stay.
func TestGivesWay(t *testing.T) {
	for _, c := range []struct {
		tie  Tie
		peer byte
		want bool
	}{{TieLower, 4, true}, {TieLower, 2, false}, {TieLower, 3, false},
		{TieHigher, 4, false}, {TieHigher, 2, true}, {TieHigher, 3, false}} {
		m := Machine{cfg: Config{MAC: [6]byte{2, 0, 0, 0, 0, 3}, Tie: c.tie}, mac: [6]byte{2, 0, 0, 0, 0, c.peer}}
		if m.givesWay() != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestDisabled: with IEEE a disabled feature is not sent.
func TestDisabled(t *testing.T) {
	for f := range Feature(Features) {
		c := testConfig(IEEE)
		c.Enabled[f] = false
		m := NewMachine(c)
		m.Receive(testPeer, NewMachine(pairConfig(IEEE, 1, 0x08)).TLVs(nil))
		sent := parse(IEEE, m.TLVs(nil))
		if s := m.Status().Features[f]; sent.features[f].present || f == FeatureETS && sent.recommends ||
			s.State != StateOff || s.Source != Off {
			t.Errorf("%v: sent %+v, %+v", f, sent, s)
		}
	}
}

// TestMachineKeepsNothing: a Machine neither keeps what it was given nor shares what it gives.
func TestMachineKeepsNothing(t *testing.T) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		c := testConfig(v)
		c.Apps = slices.Clone(c.Apps)
		m, twin := NewMachine(c), NewMachine(testConfig(v))
		c.Apps[0].Priority = 7
		given := NewMachine(pairConfig(v, 1, 0x08)).TLVs(nil)
		m.Receive(testPeer, given)
		twin.Receive(testPeer, NewMachine(pairConfig(v, 1, 0x08)).TLVs(nil))
		for _, tlv := range append(given, m.TLVs(nil)...) {
			clear(tlv)
		}
		clear(m.Status().Features[FeatureApp].Peer.Apps)
		clear(m.Status().Features[FeatureApp].Local.Apps)
		clear(m.Status().Features[FeatureApp].Operational.Apps)
		if a, b := m.TLVs(nil), twin.TLVs(nil); !slices.EqualFunc(a, b, bytes.Equal) {
			t.Errorf("%v: %x, want %x", v, a, b)
		}
		a, b := m.Status().Features[FeatureApp].Peer.Apps, twin.Status().Features[FeatureApp].Peer.Apps
		if !slices.Equal(a, b) {
			t.Errorf("%v: %+v, want %+v", v, a, b)
		}
	}
}
