package dcbx

import (
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// unhex decodes hex digits; blanks group them.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testETS has priority 3 in class 1, 6 and 7 in the strict class 2, and the others in class 0.
var testETS = ETS{TC: [8]uint8{3: 1, 6: 2, 7: 2}, Bandwidth: [8]uint8{40, 60}, TSA: [8]uint8{TSAETS, TSAETS}, MaxTCs: 8}

var testApps = []App{{SelectEthertype, EthertypeFCoE, 3}, {SelectEthertype, EthertypeFIP, 3}, {SelectTCP, PortISCSI, 4}}

func testConfig(v Version) Config {
	return Config{Version: v, MAC: [6]byte{2, 0, 0, 0, 0, 1}, Enabled: [Features]bool{true, true, true},
		PFC: PFC{Priorities: 0x08, Capability: 8}, ETS: testETS, Apps: testApps}
}

// vectors are the TLVs of testConfig, written from the tables of 802.1Q annex D and DCBX 1.00 and
// 1.01.
var vectors = map[Version][]string{
	IEEE: {
		"0080c2 09 00 00010022 283c000000000000 0202000000000000",
		"0080c2 0a 00 00010022 283c000000000000 0202000000000000",
		"0080c2 0b 08 08",
		"0080c2 0c 00 61 8906 61 8914 82 0cbc",
	},
	CEE: {"001b21 02" +
		"020a 00 00 00000001 00000000" +
		"0411 00 00 80 00 000100ff 283c000000000000 08" +
		"0606 00 00 80 00 08 08" +
		"0816 00 00 80 00 8906 00 1b21 08 8914 00 1b21 08 0cbc 01 1b21 10"},
	CIN: {"001b21 01" +
		"020a 00 00 00000001 00000000" +
		"041c 00 00 80 00 283c000000000000 0014 0014 0014 2064 0014 0014 5000 5000" +
		"0605 00 00 80 00 08" +
		"0a05 00 00 80 00 08" +
		"0a05 00 00 80 01 10" +
		"0a05 00 00 80 02 08"},
}

func TestVectors(t *testing.T) {
	for v, want := range vectors {
		tlvs := NewMachine(testConfig(v)).TLVs(nil)
		if len(tlvs) != len(want) {
			t.Fatalf("%v: %d TLVs, want %d", v, len(tlvs), len(want))
		}
		for i, tlv := range tlvs {
			if w := unhex(t, want[i]); !slices.Equal(tlv, w) {
				t.Errorf("%v:\n%x, want\n%x", v, tlv, w)
			}
		}
	}
}

// TestVectorsAreRead: what was written is read, as far as the version carries it.
func TestVectorsAreRead(t *testing.T) {
	for v, hex := range vectors {
		var tlvs [][]byte
		for _, h := range hex {
			tlvs = append(tlvs, unhex(t, h))
		}
		m := parse(v, tlvs)
		ets, apps, pfc := testETS, carried(v, testApps), PFC{Priorities: 8, Capability: 8}
		switch v {
		case CIN:
			pfc.Capability, ets.MaxTCs = 0, 0
		case IEEE:
			apps = slices.SortedFunc(slices.Values(testApps), compareApps)
			if m.recommends = m.recommends && m.recommend.Same(&ets); !m.recommends {
				t.Errorf("recommendation %+v", m.recommend)
			}
		}
		if m.ets != ets || m.pfc != pfc || !slices.Equal(m.apps, apps) || m.counts != [Errors]uint64{} {
			t.Errorf("%v: %+v %+v %+v, want %+v %+v %+v, errors %d", v, m.ets, m.pfc, m.apps, ets, pfc, apps, m.counts)
		}
		for f, r := range m.features {
			if !r.present || !r.enabled || r.willing || r.failed || r.twice || r.err != 0 {
				t.Errorf("%v: %v: %+v", v, Feature(f), r)
			}
		}
		if v.legacy() && (m.control == nil || *m.control != control{seq: 1}) {
			t.Errorf("%v: control %+v", v, m.control)
		}
	}
}

// TestForeignVectors reads what others send: other orders, reserved bits, foreign applications.
func TestForeignVectors(t *testing.T) {
	for _, c := range []struct {
		name  string
		v     Version
		tlvs  []string
		check func(m *message) bool
	}{
		{"order 1, 3, 4, 2", CEE, []string{"001b21 02 020a 00 00 00000005 00000003 0606 00 00 c0 00 10 04" +
			"080a 00 00 c0 00 8906 00 1b21 08" +
			"0411 00 00 e0 00 01230fff 0a141e2800000000 03"},
			func(m *message) bool {
				pfc, ets := m.features[FeaturePFC], m.features[FeatureETS]
				return *m.control == control{seq: 5, ack: 3} && m.pfc == PFC{Priorities: 0x10, Capability: 4} &&
					pfc.enabled && pfc.willing && !pfc.failed && ets.failed && m.features[FeatureApp].present &&
					m.ets == ETS{TC: [8]uint8{0, 1, 2, 3, 0, 4, 4, 4}, Bandwidth: [8]uint8{10, 20, 30, 40},
						TSA: [8]uint8{2, 2, 2, 2}, MaxTCs: 3}
			}},
		{"unknown sub-TLVs and applications of others", CEE, []string{"001b21 02 020a 00 00 00000001 00000001" +
			"2203 aabbcc 0000 0810 00 00 80 00 8906 00 00c2 08 8914 02 1b21 08"},
			func(m *message) bool {
				return m.features[FeatureApp].present && m.apps == nil && !m.features[FeaturePFC].present &&
					m.features[FeaturePFC].err == 0
			}},
		{"several priorities", CEE, []string{"001b21 02 020a 00 00 00000001 00000001 080a 00 00 80 00 8906 00 1b21 18"},
			func(m *message) bool {
				want := []App{{SelectEthertype, EthertypeFCoE, 3}, {SelectEthertype, EthertypeFCoE, 4}}
				return slices.Equal(m.apps, want)
			}},
		{"BCN and logical link", CIN, []string{"001b21 01 020a 00 00 00000001 00000001 0806 00 00 80 00 ffff" +
			"0c05 00 00 80 00 80 0a05 00 00 80 00 08"},
			func(m *message) bool {
				return slices.Equal(m.apps, []App{{SelectEthertype, EthertypeFCoE, 3}}) && m.counts == [Errors]uint64{}
			}},
		{"reserved bits", IEEE, []string{
			"0080c2 09 fd 00010022 283c000000000000 0202000000000000", // reserved bits 5-3
			"0080c2 0a 03 00010022 283c000000000000 0202000000000000", // Juniper sends 03
			"0080c2 0b f4 ff", "0080c2 0c ff 79 8906 60 1234 66 1234"}, // selectors 0 and 6
			func(m *message) bool {
				return m.ets.MaxTCs == 5 && m.ets.CBS && m.features[FeatureETS].willing && m.recommends &&
					m.pfc == PFC{Priorities: 0xff, Capability: 4, MBC: true} && m.features[FeaturePFC].willing &&
					slices.Equal(m.apps, []App{{SelectEthertype, EthertypeFCoE, 3}})
			}},
		{"bandwidth of a strict class means nothing", IEEE, []string{
			"0080c2 09 00 00010022 283c140000000000 0202000000000000"},
			func(m *message) bool { return m.features[FeatureETS].present }},
		{"all strict", IEEE, []string{"0080c2 09 00 01234567 0000000000000000 0000000000000000"},
			func(m *message) bool { return m.features[FeatureETS].present }},
		{"other organizations", IEEE, []string{"0080c2 01 0001", "00120f 01 03", "0080c2", ""},
			func(m *message) bool { return m.sent == [versions]bool{} && m.counts == [Errors]uint64{} }},
	} {
		var tlvs [][]byte
		for _, h := range c.tlvs {
			tlvs = append(tlvs, unhex(t, h))
		}
		if m := parse(c.v, tlvs); !c.check(m) {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
}

// TestGroups converts tables to the terms of CEE and CIN and back.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name     string
		ets      ETS
		cee, cin bool // it is expressible
		back     bool // what comes back is the same
	}{
		{"two classes and strict", testETS, true, true, true},
		{"one class", ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}}, true, true, true},
		{"all strict, in one class", ETS{}, true, true, true},
		{"eight classes", ETS{TC: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}, Bandwidth: [8]uint8{10, 10, 10, 10, 15, 15, 15, 15},
			TSA: [8]uint8{2, 2, 2, 2, 2, 2, 2, 2}}, true, true, true},
		{"strict between", ETS{TC: [8]uint8{0, 0, 0, 1, 0, 0, 2, 2}, Bandwidth: [8]uint8{50, 0, 50},
			TSA: [8]uint8{2, 0, 2}}, true, true, true},
		{"no bandwidth", ETS{TC: [8]uint8{3: 1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{2, 2}}, true, true, true},
		{"CBS", ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{2, 2, 2, 2, 2, 2, 2, 1}, TC: [8]uint8{7: 7}}, false,
			false, false},
		{"vendor", ETS{TSA: [8]uint8{TSAVendor}}, false, false, false},
		{"99 %", ETS{Bandwidth: [8]uint8{99}, TSA: [8]uint8{TSAETS}}, false, false, false},
	} {
		cee, ok := c.ets.cee()
		if ok != c.cee {
			t.Errorf("%s: CEE: %v", c.name, ok)
		}
		if ok {
			if back, err := cee.ets(); err != 0 || back.Same(&c.ets) != c.back {
				t.Errorf("%s: CEE: %+v is back as %+v, %v", c.name, c.ets, back, err)
			}
		}
		cin, ok := c.ets.cin()
		if ok != c.cin {
			t.Errorf("%s: CIN: %v", c.name, ok)
		}
		if ok {
			if back, err := cin.ets(); err != 0 || back.Same(&c.ets) != c.back {
				t.Errorf("%s: CIN: %+v is back as %+v, %v", c.name, c.ets, back, err)
			}
		}
	}
}

// TestStrictOrder: CEE has one strict group, so it loses the order of two; CIN keeps it.
func TestStrictOrder(t *testing.T) {
	e := ETS{TC: [8]uint8{6: 2, 7: 1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}}
	cee, _ := e.cee()
	if back, err := cee.ets(); err != 0 || back.TC != [8]uint8{6: 1, 7: 1} {
		t.Errorf("CEE: %+v %v", back, err)
	}
	cin, _ := e.cin()
	if back, err := cin.ets(); err != 0 || !back.Same(&e) || back.TC != e.TC {
		t.Errorf("CIN: %+v %v", back, err)
	}
}

// TestFreeClass: priorities in group 15 get the class above all others, or the highest free one.
func TestFreeClass(t *testing.T) {
	for _, c := range []struct {
		pgid, percent [8]uint8
		tc            [8]uint8
		err           Error
	}{
		{[8]uint8{0, 0, 0, 1, 0, 0, 15, 15}, [8]uint8{50, 50}, [8]uint8{0, 0, 0, 1, 0, 0, 2, 2}, 0},
		{[8]uint8{7, 7, 7, 7, 7, 7, 15, 15}, [8]uint8{7: 100}, [8]uint8{7, 7, 7, 7, 7, 7, 6, 6}, 0},
		{[8]uint8{0, 1, 2, 3, 5, 6, 7, 15}, [8]uint8{0: 100}, [8]uint8{0, 1, 2, 3, 5, 6, 7, 4}, 0},
		{[8]uint8{15, 15, 15, 15, 15, 15, 15, 15}, [8]uint8{}, [8]uint8{}, 0},
		{[8]uint8{0, 1, 2, 3, 4, 5, 6, 15}, [8]uint8{10, 10, 10, 10, 10, 10, 20, 20}, [8]uint8{}, ErrBandwidth},
	} {
		g := ceeGroups{pgid: c.pgid, percent: c.percent}
		if err := g.check(); err != 0 {
			t.Fatal(err)
		}
		if e, err := g.ets(); err != c.err || err == 0 && e.TC != c.tc {
			t.Errorf("%v: %v %v, want %v %v", c.pgid, e.TC, err, c.tc, c.err)
		}
	}
}

// TestSharesOfCIN: equal shares, the first ones getting the rest, as lldpad sends them.
func TestSharesOfCIN(t *testing.T) {
	for n, want := range [][]uint8{1: {100}, 2: {50, 50}, 3: {34, 33, 33}, 6: {17, 17, 17, 17, 16, 16},
		7: {15, 15, 14, 14, 14, 14, 14}, 8: {13, 13, 13, 13, 12, 12, 12, 12}} {
		if want == nil {
			continue
		}
		e := ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}}
		for p := n; p < 8; p++ {
			e.TC[p] = 1
		}
		if g, ok := e.cin(); !ok || !slices.Equal(g.share[:n], want) {
			t.Errorf("%d: %v", n, g)
		}
	}
	mixed := cinGroups{percent: [8]uint8{100}, share: [8]uint8{50, 50},
		strict: [8]uint8{0, 0, 2, 2, 2, 2, 2, 2}}
	if err := mixed.check(); err != 0 {
		t.Fatal(err)
	}
	want := ETS{TC: [8]uint8{0, 0, 1, 1, 1, 1, 1, 1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{TSAETS}}
	if e, err := mixed.ets(); err != 0 || e != want {
		t.Errorf("%+v %v", e, err)
	}
}

// TestAppsThatDoNotFit: CEE has no DSCP, CIN only three applications. What is left out is told.
func TestAppsThatDoNotFit(t *testing.T) {
	c := testConfig(CEE)
	c.Apps = []App{{SelectEthertype, EthertypeFCoE, 3}, {SelectDSCP, 46, 5}, {SelectUDP, 4791, 3},
		{SelectDSCP, 4791, 5}}
	for v, want := range map[Version][]App{
		IEEE: nil, CEE: {c.Apps[1], c.Apps[3]}, CIN: {c.Apps[1], c.Apps[2], c.Apps[3]},
	} {
		c.Version = v
		m := NewMachine(c)
		if got := m.Status().Omitted; !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v, want %v", v, got, want)
		}
		sent := parse(v, m.TLVs(nil)).apps
		if len(sent) != len(c.Apps)-len(want) {
			t.Errorf("%v: sent %v", v, sent)
		}
	}
	c.Apps = nil
	for port := range uint16(MaxApps + 5) {
		c.Apps = append(c.Apps, App{SelectTCP, 1000 + port, 1})
	}
	for _, v := range []Version{IEEE, CEE} {
		c.Version = v
		m := NewMachine(c)
		for _, tlv := range m.TLVs(nil) {
			if len(tlv) > maxLength {
				t.Errorf("%v: %d bytes", v, len(tlv))
			}
		}
		if n, out := len(parse(v, m.TLVs(nil)).apps), m.Status().Omitted; n != MaxApps || len(out) != 5 {
			t.Errorf("%v: %d sent, %d not", v, n, len(out))
		}
	}
}

// TestSame: numbers of classes do not count, what priorities get does.
func TestSame(t *testing.T) {
	a := testETS
	for name, c := range map[string]struct {
		b    ETS
		same bool
	}{
		"itself": {a, true},
		"other numbers": {ETS{TC: [8]uint8{5, 5, 5, 4, 5, 5, 7, 7}, Bandwidth: [8]uint8{5: 40, 4: 60},
			TSA: [8]uint8{5: 2, 4: 2}}, true},
		"unused classes": {ETS{TC: a.TC, Bandwidth: [8]uint8{40, 60, 7}, TSA: [8]uint8{2, 2, 0, 1, 255}},
			true},
		"other bandwidth":         {ETS{TC: a.TC, Bandwidth: [8]uint8{50, 50}, TSA: a.TSA}, false},
		"other algorithm":         {ETS{TC: a.TC, Bandwidth: a.Bandwidth, TSA: [8]uint8{2, 2, 255}}, false},
		"other classes":           {ETS{TC: [8]uint8{3: 1, 7: 2}, Bandwidth: a.Bandwidth, TSA: a.TSA}, false},
		"one strict class is two": {ETS{TC: [8]uint8{3: 1, 6: 2, 7: 3}, Bandwidth: a.Bandwidth, TSA: a.TSA}, false},
	} {
		if a.Same(&c.b) != c.same || c.b.Same(&a) != c.same {
			t.Errorf("%s: not %v", name, c.same)
		}
	}
	x := ETS{TC: [8]uint8{6: 1, 7: 2}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{2}}
	if y := (ETS{TC: [8]uint8{6: 2, 7: 1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{2}}); x.Same(&y) {
		t.Error("the order of strict classes does not count")
	}
}
