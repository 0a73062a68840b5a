package dcbx

import (
	"reflect"
	"testing"
)

// cut splits bytes of a fuzzer into TLVs, as an LLDPDU has them.
func cut(b []byte) (tlvs [][]byte) {
	for len(b) > 0 && len(tlvs) < 50 {
		_, value, rest, err := cutTLV(b)
		if err != 0 {
			return append(tlvs, b)
		}
		tlvs, b = append(tlvs, value), rest
	}
	return tlvs
}

// addSeeds adds what Machines send.
func addSeeds(f *testing.F, add func(b []byte)) {
	for _, v := range []Version{IEEE, CEE, CIN} {
		var b []byte
		for _, tlv := range goodTLVs(f, v) {
			b = appendTLV(b, typeOrg, tlv)
		}
		add(b)
	}
}

// fuzz checks what is read of any bytes: it keeps the limits of the tables, and what is written of
// it is read alike.
func fuzz(f *testing.F, v Version) {
	addSeeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		m := parse(v, cut(b))
		checkMessage(t, v, m)
		c := testConfig(v) // a Machine with the peer's values sends what is read as these
		if m.features[FeatureETS].present {
			c.ETS = m.ets
		}
		if m.features[FeatureApp].present && len(m.apps) <= MaxApps {
			c.Apps = m.apps
		}
		c.PFC = m.pfc
		c.PFC.Capability &= 15
		sender := NewMachine(c)
		back := parse(v, sender.TLVs(nil))
		if back.counts != [Errors]uint64{} || back.pfc.Priorities != c.PFC.Priorities {
			t.Fatalf("%+v was read of what was sent for %+v", back, c)
		}
		// Of several strict classes, CEE loses the order.
		if r := back.features[FeatureETS]; r.present && v != CEE && !back.ets.Same(&c.ETS) ||
			r.present != sender.advertises(FeatureETS) {
			t.Fatalf("%+v was read of what was sent for %+v", back.ets, c.ETS)
		}
		if r := back.features[FeatureApp]; r.present && len(c.Apps) <= MaxApps &&
			!reflect.DeepEqual(carriedBy(v, back.apps), carriedBy(v, c.Apps)) {
			t.Fatalf("%+v was read of what was sent for %+v", back.apps, c.Apps)
		}
	})
}

// checkMessage checks the limits of what was read.
func checkMessage(t *testing.T, v Version, m *message) {
	t.Helper()
	for _, e := range []*ETS{&m.ets, &m.recommend} {
		used := m.features[FeatureETS].present
		if e == &m.recommend {
			used = m.recommends
		}
		if !used {
			continue
		}
		for _, tc := range e.TC {
			if tc > 7 {
				t.Fatalf("class %d", tc)
			}
		}
		if !e.sums() || e.MaxTCs > 8 {
			t.Fatalf("%+v", e)
		}
	}
	for _, a := range m.apps {
		if a.Selector < SelectEthertype || a.Selector > SelectDSCP || a.Priority > 7 {
			t.Fatalf("%+v", a)
		}
	}
	if len(m.apps) > 8*maxLength {
		t.Fatalf("%d applications", len(m.apps))
	}
	for f, r := range m.features {
		if r.present && (r.err != 0 || r.twice) || v.legacy() && r.present && m.control == nil {
			t.Fatalf("%v: %+v", Feature(f), r)
		}
	}
}

// checkMachine checks a Machine whose peer sends the same all the time, and then goes.
func checkMachine(t *testing.T, m *Machine, tlvs [][]byte) {
	t.Helper()
	for range 3 {
		m.Receive(testPeer, tlvs)
	}
	for f, s := range m.Status().Features {
		if s.Why == "" || s.Source == Peer && !s.Peer.Present && !s.Peer.Recommends ||
			Feature(f) == FeaturePFC && s.Source == Off && s.Operational.PFC.Priorities != 0 {
			t.Fatalf("%v: %+v", Feature(f), s)
		}
		m.Refuse(Feature(f), "no memory")
	}
	m.Receive(testPeer, tlvs)
	m.Expire()
	for f, s := range m.Status().Features {
		if s.State != StateNoPeer && s.State != StateOff && s.Source != Local {
			t.Fatalf("%v: %+v", Feature(f), s)
		}
	}
	for _, tlv := range m.TLVs(nil) {
		if len(tlv) > maxLength {
			t.Fatalf("%d bytes", len(tlv))
		}
	}
}

// FuzzMachine lets a Machine go through its life with a peer that sends anything.
func FuzzMachine(f *testing.F) {
	for v := range Version(versions) {
		addSeeds(f, func(b []byte) { f.Add(byte(v), b) })
	}
	f.Fuzz(func(t *testing.T, how byte, b []byte) {
		c := testConfig(Version(how % versions))
		c.Willing = willing(how&4 > 0)
		checkMachine(t, NewMachine(c), cut(b))
	})
}

func FuzzIEEE(f *testing.F) { fuzz(f, IEEE) }
func FuzzCEE(f *testing.F)  { fuzz(f, CEE) }
func FuzzCIN(f *testing.F)  { fuzz(f, CIN) }

// FuzzPair lets a fuzzer be the medium between two Machines: it selects what is delivered, and what
// changes. Afterwards both settle.
func FuzzPair(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) < 4 || len(steps) > 200 {
			return
		}
		a := pairConfig(Version(steps[0]%versions), 0, steps[1])
		b := pairConfig(Version(steps[0]/16%versions), 1, steps[2])
		a.Willing, b.Willing = willing(steps[3]&1 == 1), willing(steps[3]&2 == 2)
		a.Tie, b.Tie = Tie(steps[3]>>2&1), Tie(steps[3]>>3&1)
		l := newLink(a, b, nil)
		for _, step := range steps[4:] {
			n, peer := l.ends[step&1], l.ends[1-step&1]
			switch step >> 1 & 7 {
			case 0, 1:
				n.m.Receive(peer.c.MAC, peer.m.TLVs(nil))
			case 2:
				n.inbox = append(n.inbox, peer.m.TLVs(nil))
			case 3: // an old one
				if len(n.inbox) > 0 {
					n.m.Receive(peer.c.MAC, n.inbox[int(step>>4)%len(n.inbox)])
				}
			case 4:
				n.c.PFC.Priorities = step >> 4
				n.m.Configure(n.c)
			case 5:
				n.c.Willing = willing(step>>4&1 == 1)
				n.m.Configure(n.c)
			case 6:
				n.m.Expire()
			case 7:
				n.m.Refuse(Feature(step>>4)%Features, []string{"", "no memory"}[step>>6&1])
			}
		}
		for _, n := range l.ends {
			n.inbox = nil
			for f := range Feature(Features) {
				n.m.Refuse(f, "")
			}
		}
		if !l.settles(t) {
			t.Fatalf("%+v", l.status())
		}
	})
}
