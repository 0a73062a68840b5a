package dcbx

import (
	"slices"
	"testing"
)

// TestFlagsOfCIN: the flags of several applications count together.
func TestFlagsOfCIN(t *testing.T) {
	for _, c := range []struct {
		flags [2]byte
		oper  [2]byte
		want  header
	}{
		{[2]byte{0xc0, 0xc0}, [2]byte{}, header{enabled: true, willing: true}},
		{[2]byte{0x40, 0xc0}, [2]byte{}, header{willing: true}},
		{[2]byte{0xc0, 0x40}, [2]byte{}, header{willing: true}},
		{[2]byte{0x80, 0xc0}, [2]byte{}, header{enabled: true}},
		{[2]byte{0xa0, 0x80}, [2]byte{}, header{enabled: true, failed: true}},
		{[2]byte{0x80, 0xa0}, [2]byte{}, header{enabled: true, failed: true}},
		{[2]byte{0x80, 0x80}, [2]byte{1, 0}, header{enabled: true, oper: 1}},
		{[2]byte{0x80, 0x80}, [2]byte{0, 1}, header{enabled: true, oper: 1}},
	} {
		m := parse(CIN, [][]byte{scripted(CIN, 1, 1, sub(5, c.oper[0], 0, c.flags[0], 1, 16),
			sub(5, c.oper[1], 0, c.flags[1], 0, 8))})
		got := m.features[FeatureApp].header
		if got.subtype = 0; got != c.want || !slices.Equal(m.apps, []App{{1, EthertypeFCoE, 3}, {4, PortISCSI, 4}}) {
			t.Errorf("%x: %+v %v", c.flags, got, m.apps)
		}
	}
}

// TestOddities: what is read of TLVs that are not quite as usual.
func TestOddities(t *testing.T) {
	m := parse(IEEE, [][]byte{unhex(t, "0080c2 0c 00 81 8906 61 8906 81 8906")})
	if !slices.Equal(m.apps, []App{{1, EthertypeFCoE, 3}, {1, EthertypeFCoE, 4}}) {
		t.Errorf("an application twice: %v", m.apps)
	}
	m = parse(CEE, [][]byte{scripted(CEE, 1, 1, sub(3, 0, 0, 0x80, 1, 0xff, 8), sub(3, 0, 0, 0x80, 0, 0x08, 8))})
	if m.pfc.Priorities != 0x08 || !m.features[FeaturePFC].present {
		t.Errorf("a feature of another subtype: %+v", m)
	}
	m = parse(CEE, [][]byte{scripted(CEE, 1, 1, sub(4, 0, 0, 0x80, 0, 0x89, 6, 4, 0x1b, 0x21, 8, 0x89, 0x14, 0,
		0x1b, 0x21, 8))})
	if !slices.Equal(m.apps, []App{{1, EthertypeFIP, 3}}) {
		t.Errorf("another organization: %v", m.apps)
	}
	groups := scriptedFeature(CEE, FeatureETS, plain, true)
	groups[len(groups)-1] = 200
	if m = parse(CEE, [][]byte{scripted(CEE, 1, 1, groups)}); m.ets.MaxTCs != 8 {
		t.Errorf("200 classes: %+v", m.ets)
	}
	bad, good := unhex(t, "0080c2 0a 00"), unhex(t, vectors[IEEE][1])
	if m = parse(IEEE, [][]byte{bad, good}); m.recommends || m.recommendErr != ErrDuplicate {
		t.Errorf("a bad and a good recommendation: %+v", m)
	}
	if m = parse(IEEE, [][]byte{good, good}); m.recommends || m.recommendErr != ErrDuplicate {
		t.Errorf("two recommendations: %+v", m)
	}
}

// TestGroupsOfCIN: classes of bandwidth groups with strict priorities.
func TestGroupsOfCIN(t *testing.T) {
	for _, c := range []struct {
		name string
		g    cinGroups
		tc   [8]uint8
		tsa  [8]uint8
		err  Error
	}{
		{"group strict without shares", cinGroups{percent: [8]uint8{40, 60}, group: [8]uint8{7: 1},
			share: [8]uint8{20, 20, 20, 20, 20}, strict: [8]uint8{5: 1, 6: 1, 7: 1}},
			[8]uint8{7: 1}, [8]uint8{2, 2}, 0},
		{"link strict in a group with bandwidth", cinGroups{percent: [8]uint8{40, 60}, group: [8]uint8{7: 1},
			share: [8]uint8{20, 20, 20, 20, 20}, strict: [8]uint8{5: 1, 6: 1, 7: 2}},
			[8]uint8{7: 2}, [8]uint8{2, 2}, 0},
		{"two link strict groups", cinGroups{percent: [8]uint8{100}, group: [8]uint8{6: 1, 7: 2},
			share: [8]uint8{20, 20, 20, 20, 20}, strict: [8]uint8{5: 1, 6: 2, 7: 2}},
			[8]uint8{6: 1, 7: 2}, [8]uint8{2}, 0},
		{"link strict group 1, and link strict in group 0", cinGroups{percent: [8]uint8{100}, group: [8]uint8{7: 1},
			share: [8]uint8{20, 20, 20, 20, 20}, strict: [8]uint8{5: 1, 6: 2, 7: 2}},
			[8]uint8{6: 2, 7: 1}, [8]uint8{2}, 0},
		{"all link strict", cinGroups{strict: [8]uint8{2, 2, 2, 2, 2, 2, 2, 2}}, [8]uint8{}, [8]uint8{}, 0},
		{"no class left", cinGroups{percent: [8]uint8{10, 10, 10, 10, 10, 10, 20, 20}, group: [8]uint8{0, 1, 2, 3,
			4, 5, 6, 6},
			share: [8]uint8{100, 100, 100, 100, 100, 100, 100, 0}, strict: [8]uint8{7: 2}},
			[8]uint8{}, [8]uint8{}, ErrBandwidth},
	} {
		if err := c.g.check(); err != 0 {
			t.Fatalf("%s: %v", c.name, err)
		}
		if e, err := c.g.ets(); err != c.err || err == 0 && (e.TC != c.tc || e.TSA != c.tsa || !e.sums()) {
			t.Errorf("%s: %+v %v", c.name, e, err)
		}
	}
}

// TestWillingWithoutApplications: a port without applications takes those of its peer.
func TestWillingWithoutApplications(t *testing.T) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		a, b := pairConfig(v, 0, 8), pairConfig(v, 1, 8)
		a.Apps, a.Willing = nil, willing(true)
		l := newLink(a, b, nil)
		l.settles(t)
		got := l.status()[0].Features[FeatureApp]
		if got.State != StatePeer || !slices.Equal(got.Operational.Apps, carriedBy(v, testApps)) {
			t.Errorf("%v: %+v", v, got)
		}
		if f := l.status()[1].Features[FeatureApp]; v.legacy() && (f.State != StateAgreed || f.Local.Error) {
			t.Errorf("%v: %+v", v, f)
		}
	}
}

// TestListsOfApplications: in every version, the applications that both ends list decide whether
// they agree. Only a contradiction is a mismatch, with the Error flag in CEE and CIN.
func TestListsOfApplications(t *testing.T) {
	fcoe, fip := App{SelectEthertype, EthertypeFCoE, 3}, App{SelectEthertype, EthertypeFIP, 3}
	iscsi, other := App{SelectPort, PortISCSI, 4}, App{SelectEthertype, EthertypeFCoE, 4}
	const fcoeText, fipText = "ethertype 0x8906 with priority 3", "ethertype 0x8914 with priority 3"
	const iscsiText, otherText = "port 3260 with priority 4", "ethertype 0x8906 with priority 4"
	const differ = ": neither is willing: configure both alike, or make one willing"
	for _, c := range []struct {
		name      string
		own, peer []App
		agree     bool
		why       string
	}{
		{"same", []App{fip, fcoe}, []App{fcoe, fip}, true, "both ends have " + fcoeText + ", " + fipText},
		{"a switch that lists FCoE only", []App{fcoe, fip}, []App{fcoe}, true,
			"both ends have " + fcoeText + "; only this port lists " + fipText},
		{"more at the peer", []App{fcoe}, []App{iscsi, fcoe}, true,
			"both ends have " + fcoeText + "; only the peer lists " + iscsiText},
		{"nothing in common", []App{fcoe}, []App{iscsi}, true,
			"only this port lists " + fcoeText + "; only the peer lists " + iscsiText},
		{"other priorities", []App{fcoe, fip}, []App{other}, false,
			"this port has " + fcoeText + ", " + fipText + ", the peer " + otherText + differ},
		{"one priority more", []App{fcoe}, []App{fcoe, other}, false,
			"this port has " + fcoeText + ", the peer " + fcoeText + ", " + otherText + differ},
	} {
		for _, v := range []Version{IEEE, CEE, CIN} {
			a, b := pairConfig(v, 0, 8), pairConfig(v, 1, 8)
			a.Apps, b.Apps = c.own, c.peer
			l := newLink(a, b, nil)
			l.settles(t)
			for i, want := range []string{c.why, ""} {
				f := l.status()[i].Features[FeatureApp]
				if (f.State == StateAgreed) != c.agree || f.State.Alarming() == c.agree ||
					f.Local.Error != (!c.agree && v.legacy()) || (f.Source == Off) != f.Local.Error {
					t.Errorf("%v, %s: end %d: %+v", v, c.name, i, f)
				}
				if want != "" && f.Why != want {
					t.Errorf("%v, %s: %q, want %q", v, c.name, f.Why, want)
				}
			}
		}
	}
}

// TestAppsOfIEEE: lists that do not contradict each other agree. The peer counts as willing if it
// is willing for PFC or for ETS.
func TestAppsOfIEEE(t *testing.T) {
	fcoe, fip := App{SelectEthertype, EthertypeFCoE, 3}, App{SelectEthertype, EthertypeFIP, 3}
	other := App{SelectEthertype, EthertypeFCoE, 4}
	for _, c := range []struct {
		own, theirs []App
		pfc, ets    bool // the peer is willing
		want        State
	}{
		{[]App{fcoe}, []App{fcoe}, false, false, StateAgreed},
		{[]App{fcoe, fip}, []App{fcoe}, false, false, StateAgreed},
		{[]App{fip}, []App{fcoe}, false, false, StateAgreed},
		{[]App{fcoe}, []App{other}, false, false, StateMismatch},
		{[]App{fcoe}, []App{fcoe, other}, false, false, StateMismatch},
		{[]App{fcoe}, []App{other}, true, false, StateLocal},
		{[]App{fcoe}, []App{other}, false, true, StateLocal},
	} {
		a, b := pairConfig(IEEE, 0, 8), pairConfig(IEEE, 1, 8)
		a.Apps, b.Apps = c.own, c.theirs
		b.Willing[FeaturePFC], b.Willing[FeatureETS] = c.pfc, c.ets
		m := NewMachine(a)
		m.Receive(b.MAC, NewMachine(b).TLVs(nil))
		if got := state(m, FeatureApp); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.own, c.theirs, got, c.want)
		}
	}
}

// TestPartsOfETS: a peer that sends only one of the two TLVs.
func TestPartsOfETS(t *testing.T) {
	p := pairConfig(IEEE, 1, 8)
	p.ETS = ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}}
	tlvs := NewMachine(p).TLVs(nil)
	configuration, recommendation := tlvs[:1], tlvs[1:2]
	for _, c := range []struct {
		willing bool
		tlvs    [][]byte
		want    State
		source  Source
	}{
		{false, configuration, StateLocal, Local},
		{false, recommendation, StateLocal, Local},
		{true, configuration, StateMismatch, Local},
		{true, recommendation, StatePeer, Peer},
	} {
		o := testConfig(IEEE)
		o.Willing = willing(c.willing)
		m := NewMachine(o)
		m.Receive(testPeer, c.tlvs)
		if got := m.Status().Features[FeatureETS]; got.State != c.want || got.Source != c.source {
			t.Errorf("willing %v: %+v", c.willing, got)
		}
	}
}

// TestOddConfig: values beyond their fields are cut and break nothing.
func TestOddConfig(t *testing.T) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		c := testConfig(v)
		c.ETS.TC[3], c.PFC.Capability, c.Apps = 9, 200, []App{{SelectEthertype, EthertypeFCoE, 11}}
		m := NewMachine(c)
		got := parse(v, m.TLVs(nil))
		if got.counts != [Errors]uint64{} || got.ets.TC != testETS.TC || got.pfc.Capability > 15 ||
			!slices.Equal(got.apps, []App{{SelectEthertype, EthertypeFCoE, 3}}) {
			t.Errorf("%v: %+v", v, got)
		}
		m.Status()
	}
}
