package dcbxtest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTwoIEEEModels: two models of IEEE settle, and PFC on the same map wherever one is willing.
func TestTwoIEEEModels(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	for n := range uint64(10_000) {
		r := rand.New(rand.NewPCG(*seed, n))
		macs := [2][6]byte{{2, 0, 0, 0, 0, byte(r.IntN(3))}, {2, 0, 0, 0, 0, 1}}
		if macs[0] == macs[1] {
			macs[1][5]++
		}
		higher := r.IntN(2) == 0
		l := NewLink(r)
		var peers [2]*IEEEPeer
		for i := range peers {
			peers[i] = NewIEEEPeer(RandomIEEE(r, macs[i], macs[1-i], higher))
			l.Attach(i, peers[i], 0, 0)
		}
		for range r.IntN(10) {
			l.Disturb(r.IntN(20))
			switch i := r.IntN(2); r.IntN(3) {
			case 0:
				peers[i].Configure(RandomIEEE(r, macs[i], macs[1-i], higher))
			case 1:
				l.Expire(i)
			}
		}
		l.Settle(20)
		l.Quiet()
		peers[0].Configure(RandomIEEE(r, macs[0], macs[1], higher))
		l.Follow(20)
		failures := l.Failures()
		for i, p := range peers {
			failures = append(failures, p.Violations()...)
			c, o, otherPFC := p.config, peers[1-i].config, peers[1-i].PFC
			recommended := o.SendETS && !o.NoRecommendation
			if c.SendETS && c.WillingETS && recommended && p.ETS != o.ETS {
				failures = append(failures, "a willing end does not run the recommendation")
			}
			symmetric := (c.WillingPFC || o.WillingPFC) && c.SendPFC && o.SendPFC
			if symmetric && (p.PFC != otherPFC || p.PFC != c.PFC && p.PFC != o.PFC) {
				failures = append(failures, "two maps of PFC")
			}
			lower := bytes.Compare(macs[i][:], macs[1-i][:]) < 0
			if symmetric && c.WillingPFC && o.WillingPFC && lower == higher && p.PFC != c.PFC {
				failures = append(failures, "the wrong end gives way")
			}
		}
		if len(failures) > 0 {
			t.Fatalf("exchange %d, -seed=%d: %q", n, *seed, failures)
		}
	}
}

// TestIEEEWire checks bytes written by hand from the table, and that they are read.
func TestIEEEWire(t *testing.T) {
	table := Table{TC: [8]uint8{0, 0, 0, 1, 0, 0, 2, 2}, Bandwidth: [8]uint8{60, 40}, TSA: [8]uint8{2, 2, 0}}
	c := IEEEConfig{SendETS: true, SendPFC: true, SendApps: true, WillingETS: true, WillingPFC: true,
		CBS: true, MaxTCs: 3, ETS: table, MBC: true, Capability: 8, PFC: 0x08,
		Apps: []IEEEApp{{3, 1, 0x8906}, {4, 2, 3260}}}
	p := NewIEEEPeer(c)
	got := p.TLVs()
	want := [][]byte{
		{0, 0x80, 0xc2, 9, 0xc3, 0x00, 0x01, 0x00, 0x22, 60, 40, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0},
		{0, 0x80, 0xc2, 10, 0, 0x00, 0x01, 0x00, 0x22, 60, 40, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0},
		{0, 0x80, 0xc2, 11, 0xc8, 0x08},
		{0, 0x80, 0xc2, 12, 0, 0x61, 0x89, 0x06, 0x82, 0x0c, 0xbc},
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("got  % x\nwant % x", got[i], want[i])
		}
	}
	q := NewIEEEPeer(IEEEConfig{})
	q.Receive(got)
	m := q.other
	if *m.ets != (etsTLV{true, true, 3, table}) || *m.recommendation != table ||
		*m.pfc != (pfcTLV{true, true, 8, 0x08}) || !slices.Equal(m.apps, c.Apps) || len(q.Violations()) > 0 {
		t.Errorf("read %+v, violations %v", m, q.Violations())
	}
}

// TestIEEEViolations: each breach of the format is reported.
func TestIEEEViolations(t *testing.T) {
	good := NewIEEEPeer(IEEEConfig{SendETS: true, SendPFC: true, SendApps: true, Apps: []IEEEApp{{3, 1, 0x8906}},
		ETS: Table{Bandwidth: [8]uint8{100}, TSA: [8]uint8{2}}}).TLVs()
	for name, spoil := range map[string]func([][]byte) [][]byte{
		"twice":          func(v [][]byte) [][]byte { return append(v, v[2]) },
		"short ETS":      func(v [][]byte) [][]byte { v[0] = v[0][:24]; return v },
		"long PFC":       func(v [][]byte) [][]byte { v[2] = append(v[2], 0); return v },
		"cut App":        func(v [][]byte) [][]byte { v[3] = v[3][:7]; return v },
		"bandwidth":      func(v [][]byte) [][]byte { v[1][9]--; return v },
		"class 8":        func(v [][]byte) [][]byte { v[0][5] = 0x08; return v },
		"reserved ETS":   func(v [][]byte) [][]byte { v[0][4] |= 0x10; return v },
		"reserved rec":   func(v [][]byte) [][]byte { v[1][4] = 3; return v },
		"reserved PFC":   func(v [][]byte) [][]byte { v[2][4] |= 0x20; return v },
		"reserved apps":  func(v [][]byte) [][]byte { v[3][4] = 1; return v },
		"reserved entry": func(v [][]byte) [][]byte { v[3][5] |= 0x08; return v },
	} {
		var tlvs [][]byte
		for _, v := range good {
			tlvs = append(tlvs, slices.Clone(v))
		}
		p := NewIEEEPeer(IEEEConfig{})
		if p.Receive(tlvs); len(p.Violations()) > 0 {
			t.Fatalf("violations without a reason: %v", p.Violations())
		}
		if p.Receive(spoil(tlvs)); len(p.Violations()) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
}
