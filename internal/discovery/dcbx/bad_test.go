package dcbx

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// goodTLVs returns what a peer of testConfig sends in a version.
func goodTLVs(t testing.TB, v Version) (tlvs [][]byte) {
	t.Helper()
	for _, h := range vectors[v] {
		tlvs = append(tlvs, unhex(t, h))
	}
	return tlvs
}

// bad are TLVs with an error, separated by bars; names stand for parts of them.
var bad = []struct {
	name string
	v    Version
	f    Feature
	err  Error
	n    uint64 // errors
	tlvs string
}{
	{"class 8", IEEE, FeatureETS, ErrClass, 1, "ETSC 00 80010022 283c000000000000 0202000000000000"},
	{"class 15", IEEE, FeatureETS, ErrClass, 1, "ETSC 00 0001002f 283c000000000000 0202000000000000"},
	{"99 %", IEEE, FeatureETS, ErrBandwidth, 1, "ETSC 00 00010022 283b000000000000 0202000000000000"},
	{"356 %", IEEE, FeatureETS, ErrBandwidth, 1, "ETSC 00 00010022 286464640c000000 0202020202000000"},
	{"0 %", IEEE, FeatureETS, ErrBandwidth, 1, "ETSC 00 00010022 0000000000000000 0202000000000000"},
	{"recommended", IEEE, FeatureETS, ErrBandwidth, 1, "ETSR 00 00010022 283b000000000000 0202000000000000"},
	{"short ETS", IEEE, FeatureETS, ErrLength, 1, "ETSC 00 00010022 283c000000000000 02020000000000"},
	{"long ETS", IEEE, FeatureETS, ErrLength, 1, "ETSC 00 00010022 283c000000000000 020200000000000000"},
	{"short PFC", IEEE, FeaturePFC, ErrLength, 1, "0080c2 0b 08"},
	{"long PFC", IEEE, FeaturePFC, ErrLength, 1, "0080c2 0b 08 08 00"},
	{"cut application", IEEE, FeatureApp, ErrLength, 1, "0080c2 0c 00 61 8906 61 89"},
	{"no reserved byte", IEEE, FeatureApp, ErrLength, 1, "0080c2 0c"},
	{"PFC twice", IEEE, FeaturePFC, ErrDuplicate, 1, "0080c2 0b 08 08|0080c2 0b 08 08"},
	{"PFC thrice", IEEE, FeaturePFC, ErrDuplicate, 2, "0080c2 0b 08 08|0080c2 0b 08 08|0080c2 0b 08 08"},
	{"bad, then good PFC", IEEE, FeaturePFC, ErrDuplicate, 2, "0080c2 0b 08|0080c2 0b 08 08"},

	{"PGID 8", CEE, FeatureETS, ErrGroup, 1, "CEE HEAD GROUPS 00010088 283c000000000000 08"},
	{"PGID 14", CEE, FeatureETS, ErrGroup, 1, "CEE HEAD GROUPS e00100ff 283c000000000000 08"},
	{"101 %", CEE, FeatureETS, ErrBandwidth, 1, "CEE HEAD GROUPS 000100ff 293c000000000000 08"},
	{"0 %", CEE, FeatureETS, ErrBandwidth, 1, "CEE HEAD GROUPS 000100ff 0000000000000000 08"},
	{"length of CIN", CEE, FeaturePFC, ErrLength, 1, "CEE HEAD 0605 00 00 80 00 08"},
	{"header only", CEE, FeaturePFC, ErrLength, 1, "CEE HEAD 0604 00 00 80 00"},
	{"no header", CEE, FeaturePFC, ErrLength, 1, "CEE HEAD 0600"},
	{"cut application", CEE, FeatureApp, ErrLength, 1, "CEE HEAD 0809 00 00 80 00 8906 00 1b21"},
	{"length beyond the end", CEE, FeaturePFC, ErrTruncated, 1, "CEE HEAD PFC 0412 00 00 80 00 000100ff 283c"},
	{"one byte behind", CEE, FeaturePFC, ErrTruncated, 1, "CEE HEAD PFC 00"},
	{"no control", CEE, FeaturePFC, ErrControl, 1, "CEE PFC"},
	{"short control", CEE, FeaturePFC, ErrLength, 1, "CEE 0209 00 00 00000001 000000 PFC"},
	{"control twice", CEE, FeaturePFC, ErrDuplicate, 1, "CEE HEAD PFC HEAD"},
	{"PFC twice", CEE, FeaturePFC, ErrDuplicate, 1, "CEE HEAD PFC GROUPS 000100ff 283c000000000000 08 PFC"},
	{"TLV twice", CEE, FeaturePFC, ErrDuplicate, 1, "CEE HEAD PFC|CEE HEAD"},
	{"nothing", CEE, FeaturePFC, ErrControl, 1, "CEE"},

	{"sum of groups", CIN, FeatureETS, ErrBandwidth, 1, "CIN HEAD BWG 283b000000000000 0014 0014 0014 2064 REST"},
	{"sum of a group", CIN, FeatureETS, ErrBandwidth, 1, "CIN HEAD BWG 283c000000000000 0014 0014 0015 2064 REST"},
	{"no shares", CIN, FeatureETS, ErrBandwidth, 1, "CIN HEAD BWG 283c000000000000 0014 0014 0014 2000 REST"},
	{"strict 3", CIN, FeatureETS, ErrStrict, 1, "CIN HEAD BWG 283c000000000000 0014 0014 0014 3864 REST"},
	{"length of CEE", CIN, FeaturePFC, ErrLength, 1, "CIN HEAD PFC"},
	{"long application", CIN, FeatureApp, ErrLength, 1, "CIN HEAD 0a06 00 00 80 00 08 08"},
	{"application twice", CIN, FeatureApp, ErrDuplicate, 1, "CIN HEAD FCOE 0a05 00 00 80 02 08 FCOE"},
}

var badParts = strings.NewReplacer("ETSC", "0080c2 09", "ETSR", "0080c2 0a", "CEE", "001b21 02", "CIN", "001b21 01",
	"HEAD", "020a 00 00 00000001 00000001", "GROUPS", "0411 00 00 80 00", "PFC", "0606 00 00 80 00 08 08",
	"BWG", "041c 00 00 80 00", "REST", "0014 0014 5000 5000", "FCOE", "0a05 00 00 80 00 08")

// TestErrors: what is wrong has a name, and the feature does not run.
func TestErrors(t *testing.T) {
	for _, c := range bad {
		var tlvs [][]byte
		for _, h := range strings.Split(badParts.Replace(c.tlvs), "|") {
			tlvs = append(tlvs, unhex(t, h))
		}
		cfg := testConfig(c.v)
		cfg.Willing = willing(true)
		m := NewMachine(cfg)
		for range 3 { // the control sub-TLV acknowledges SeqNo 1
			m.Receive(testPeer, tlvs)
		}
		s := m.Status()
		f := s.Features[c.f]
		total := uint64(0)
		for _, n := range s.Errors {
			total += n
		}
		if f.Error != c.err || s.Errors[c.err] == 0 || total != 3*c.n || f.Source != Off || f.Peer.Present {
			t.Errorf("%s %s: %+v, errors %d", c.v, c.name, f, s.Errors)
		}
		want := StateAbsent
		if c.err == ErrDuplicate {
			want = StateDuplicate
		}
		if f.State != want || f.Why == "" {
			t.Errorf("%s %s: %v, %q", c.v, c.name, f.State, f.Why)
		}
		if c.v.legacy() && f.Local.Error != (c.v == CEE || c.err == ErrDuplicate) {
			t.Errorf("%s %s: error flag %v", c.v, c.name, f.Local.Error)
		}
	}
}

// TestUnreadableIsNotAcknowledged: a TLV of which nothing counts is not acknowledged either, so the
// peer keeps what ran before.
func TestUnreadableIsNotAcknowledged(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		for name, spoil := range map[string]func([]byte) []byte{
			"one byte behind": func(tlv []byte) []byte { return append(tlv, 0) },
			"cut off":         func(tlv []byte) []byte { return tlv[:len(tlv)-1] },
			"longer than a TLV": func(tlv []byte) []byte {
				return append(tlv, sub(100, make([]byte, maxLength+1-len(tlv)-2)...)...)
			},
			"control twice":          func(tlv []byte) []byte { return append(tlv, tlv[4:16]...) },
			"control cut to 9":       func(tlv []byte) []byte { tlv[5] = 9; return slices.Delete(tlv, 15, 16) },
			"first control too long": func(tlv []byte) []byte { tlv[5] = 11; return slices.Insert(tlv, 15, 0) },
		} {
			m := NewMachine(testConfig(v))
			same := scriptedFeature(v, FeaturePFC, plain, true)
			settle(t, m, v, same) // with number 7
			runs := m.Status().Features[FeaturePFC].Operational
			m.Receive(testPeer, [][]byte{spoil(scripted(v, 8, 1, same))})
			m.Receive(testPeer, [][]byte{spoil(scripted(v, 9, 1, same))})
			s := m.Status()
			if f := s.Features[FeaturePFC]; s.Control.AckNo != 7 || s.Control.PeerHasControl || f.Error == 0 {
				t.Errorf("%v, %s: %+v, %+v; before, %+v ran", v, name, s.Control, f, runs)
			}
			m.Receive(testPeer, [][]byte{scripted(v, 9, s.Control.SeqNo, same)})
			if s := m.Status(); s.Control.AckNo != 9 || !m.Pending() {
				t.Errorf("%v, %s: %+v after a readable TLV", v, name, s.Control)
			}
		}
	}
}

// TestRestOfABadMessage: a bad feature leaves the others as they are.
func TestRestOfABadMessage(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		m := NewMachine(testConfig(v))
		bad := scriptedFeature(v, FeatureETS, plain, true)
		bad[len(bad)-2] = 0xff
		bad[6] = 0xff
		settle(t, m, v, bad, scriptedFeature(v, FeaturePFC, plain, true))
		if got := m.Status(); got.Features[FeaturePFC].State != StateAgreed || got.Features[FeatureETS].Source != Off ||
			got.Features[FeatureETS].Error == 0 {
			t.Errorf("%v: %+v", v, got.Features)
		}
	}
}

// TestCutEverywhere: TLVs that are cut at any byte, and sub-TLVs with any length, are survived; no
// cut one is taken for a whole.
func TestCutEverywhere(t *testing.T) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		good := goodTLVs(t, v)
		whole := parse(v, good)
		for i := range good {
			for n := range good[i] {
				tlvs := slices.Clone(good)
				tlvs[i] = good[i][:n]
				m := NewMachine(testConfig(v))
				m.Receive(testPeer, tlvs)
				m.TLVs(nil)
				if got := parse(v, tlvs); fmt.Sprint(*got) == fmt.Sprint(*whole) {
					t.Errorf("%v: TLV %d cut to %d bytes is as good as whole", v, i, n)
				}
			}
		}
		if !v.legacy() {
			continue
		}
		for at := headerLength; at < len(good[0])-1; at++ {
			for value := range 256 {
				tlv := bytes.Clone(good[0])
				tlv[at] = byte(value)
				m := NewMachine(testConfig(v))
				m.Receive(testPeer, [][]byte{tlv})
				m.Status()
			}
		}
	}
}

// TestOnlyOneOfABatch: of several LLDPDUs the latest counts alone.
func TestOnlyOneOfABatch(t *testing.T) {
	m := NewMachine(testConfig(IEEE))
	good := goodTLVs(t, IEEE)
	m.Receive(testPeer, good)
	m.Receive(testPeer, good[2:3]) // PFC alone
	s := m.Status().Features
	if s[FeaturePFC].State != StateAgreed || s[FeatureETS].State != StateAbsent || s[FeatureApp].State != StateAbsent ||
		s[FeatureETS].Peer.Present || s[FeatureETS].Peer.Recommends || len(s[FeatureApp].Peer.Apps) > 0 {
		t.Errorf("%+v", s)
	}
}

// TestMemoryIsBounded: neither many LLDPDUs nor long ones make a Machine grow.
func TestMemoryIsBounded(t *testing.T) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		huge := slices.Concat(goodTLVs(t, v)[0], bytes.Repeat([]byte{0xff}, 1<<16))
		var many [][]byte
		for range 10000 {
			many = append(many, goodTLVs(t, v)...)
		}
		app := bytes.Repeat([]byte{0x61, 0x89, 0x06}, 1<<14)
		many = append(many, slices.Concat([]byte{0, 0x80, 0xc2, 0x0c, 0}, app))
		m := NewMachine(testConfig(v))
		for _, tlvs := range [][][]byte{{huge}, many} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m.Receive(testPeer, tlvs)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
				t.Errorf("%v: %d bytes for an LLDPDU", v, n)
			}
		}
		if s := m.Status(); s.Features[FeaturePFC].Source != Off {
			t.Errorf("%v: %+v", v, s)
		}
		good := goodTLVs(t, v)
		m.Receive(testPeer, good)
		if n := testing.AllocsPerRun(100, func() { m.Receive(testPeer, good) }); n > 60 {
			t.Errorf("%v: %v allocations for an LLDPDU", v, n)
		}
		if len(m.raw) > maxRaw {
			t.Errorf("%v: keeps %d TLVs", v, len(m.raw))
		}
	}
}

func BenchmarkReceive(b *testing.B) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		b.Run(v.String(), func(b *testing.B) {
			m, tlvs := NewMachine(testConfig(v)), goodTLVs(b, v)
			b.ReportAllocs()
			for b.Loop() {
				m.Receive(testPeer, tlvs)
			}
		})
	}
}
