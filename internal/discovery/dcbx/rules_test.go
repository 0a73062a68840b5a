package dcbx

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// sub returns a sub-TLV, written from the tables.
func sub(kind int, value ...byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(kind)<<9|uint16(len(value))), value...)
}

// peerFlags are the flags of a feature of a scripted peer.
type peerFlags struct{ enable, willing, fails bool }

func (p peerFlags) byte() (b byte) {
	for bit, on := range map[byte]bool{0x80: p.enable, 0x40: p.willing, 0x20: p.fails} {
		if on {
			b |= bit
		}
	}
	return b
}

// scripted returns a TLV of CEE or CIN with features of the scripted peer.
func scripted(v Version, seq, ack uint32, features ...[]byte) []byte {
	tlv := []byte{0x00, 0x1b, 0x21, 2}
	if v == CIN {
		tlv[3] = 1
	}
	value := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{0, 0}, seq), ack)
	return append(append(tlv, sub(1, value...)...), slices.Concat(features...)...)
}

// scriptedFeature returns the sub-TLV of a feature with the values of testConfig, or with others.
func scriptedFeature(v Version, f Feature, flags peerFlags, same bool) []byte {
	h := []byte{0, 0, flags.byte(), 0}
	choose := func(a, b byte) byte {
		if same {
			return a
		}
		return b
	}
	switch {
	case f == FeaturePFC && v == CEE:
		return sub(3, append(h, choose(0x08, 0x10), 8)...)
	case f == FeaturePFC:
		return sub(3, append(h, choose(0x08, 0x10))...)
	case f == FeatureETS && v == CEE:
		return sub(2, append(h, 0x00, 0x01, 0x00, 0xff, choose(40, 50), choose(60, 50), 0, 0, 0, 0, 0, 0, 8)...)
	case f == FeatureETS:
		return sub(2, append(h, choose(40, 50), choose(60, 50), 0, 0, 0, 0, 0, 0, 0, 20, 0, 20, 0, 20, 0x20, 100, 0, 20,
			0, 20, 0x50, 0, 0x50, 0)...)
	case v == CEE:
		return sub(4, append(h, 0x89, 0x06, 0, 0x1b, 0x21, choose(8, 16), 0x89, 0x14, 0, 0x1b, 0x21, 8,
			0x0c, 0xbc, 1, 0x1b, 0x21, 16)...)
	}
	var all []byte
	for subtype, priorities := range []byte{choose(8, 16), 16, 8} {
		all = append(all, sub(5, 0, 0, flags.byte(), byte(subtype), priorities)...)
	}
	return all
}

// scene is a combination of what decides about a feature.
type scene struct {
	enable, willing bool // this end
	present, twice  bool // of the peer's sub-TLV
	peer            peerFlags
	same            bool
}

// outcome is what the rules of DCBX 1.00 and 1.01 demand, in their words.
func (s scene) outcome(v Version, f Feature) (runs Source, fails bool, state State) {
	if !s.present {
		return Off, v == CEE, StateAbsent
	}
	if s.twice {
		return Off, true, StateDuplicate
	}
	if !s.enable || !s.peer.enable {
		return Off, false, StateOff
	}
	compatible := s.same || v == CEE && f == FeatureETS
	if s.willing == s.peer.willing && !compatible {
		return Off, true, StateMismatch
	}
	if s.peer.fails {
		return Off, false, StatePeerError
	}
	if s.willing && !s.peer.willing {
		runs, state = Peer, StatePeer
	} else {
		runs, state = Local, StateLocal
	}
	if s.same {
		state = StateAgreed
	}
	return runs, false, state
}

// scenes returns all combinations.
func scenes() (all []scene) {
	for bits := range 1 << 8 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		s := scene{on(0), on(1), on(2), on(3), peerFlags{on(4), on(5), on(6)}, on(7)}
		if s.present || !s.twice {
			all = append(all, s)
		}
	}
	return all
}

// settle lets a scripted peer, which acknowledges everything, talk to a Machine until the Machine
// has nothing to send, and returns the last TLV of the Machine.
func settle(t *testing.T, m *Machine, v Version, features ...[]byte) []byte {
	t.Helper()
	for range 10 {
		tlv := m.TLVs(nil)[0]
		c, err := decodeControl(tlv[6:16])
		if err != 0 {
			t.Fatal(err)
		}
		m.Receive([6]byte{2, 0, 0, 0, 0, 2}, [][]byte{scripted(v, 7, c.seq, features...)})
		if !m.Pending() {
			return m.TLVs(nil)[0]
		}
	}
	t.Fatal("the Machine does not settle")
	return nil
}

// errorFlag returns the Error flag of a feature in a TLV of CEE or CIN.
func errorFlag(v Version, f Feature, tlv []byte) bool {
	return parse(v, [][]byte{tlv}).features[f].failed
}

// TestFeatureStateMachine goes through every combination for every feature of CEE and CIN.
func TestFeatureStateMachine(t *testing.T) {
	n := 0
	for _, v := range []Version{CEE, CIN} {
		for f := range Feature(Features) {
			for _, s := range scenes() {
				n++
				name := fmt.Sprintf("%v %v %+v", v, f, s)
				c := testConfig(v)
				c.Enabled[f], c.Willing[f] = s.enable, s.willing
				m := NewMachine(c)
				var features []byte
				if s.present {
					features = scriptedFeature(v, f, s.peer, s.same)
				}
				if s.twice {
					features = append(features, scriptedFeature(v, f, s.peer, s.same)...)
				}
				tlv := settle(t, m, v, features)
				runs, fails, state := s.outcome(v, f)
				got := m.Status().Features[f]
				sent := errorFlag(v, f, tlv)
				if got.Source != runs || got.State != state || got.Local.Error != fails || sent != fails {
					t.Errorf("%s: runs %v, state %v, error %v (sent %v), want %v %v %v", name, got.Source, got.State,
						got.Local.Error, sent, runs, state, fails)
				}
				if !got.Synced || got.Why == "" {
					t.Errorf("%s: synced %v, %q", name, got.Synced, got.Why)
				}
				if want := operational(v, f, runs, s.same); !got.Operational.same(&want) {
					t.Errorf("%s: %+v runs, want %+v", name, got.Operational, want)
				}
			}
		}
	}
	if n != 2*3*192 {
		t.Errorf("%d combinations", n)
	}
}

// operational returns the values that run.
func operational(v Version, f Feature, runs Source, same bool) (w Values) {
	other := runs == Peer && !same
	switch f {
	case FeaturePFC:
		if w.PFC.Priorities = 0x08; other {
			w.PFC.Priorities = 0x10
		}
		if runs == Off {
			w.PFC.Priorities = 0
		}
	case FeatureETS:
		if w.ETS = testETS; other {
			w.ETS.Bandwidth = [8]uint8{50, 50}
		}
	case FeatureApp:
		switch w.Apps = slices.Clone(testApps); runs {
		case Off:
			w.Apps = nil
		case Peer:
			w.Apps[2].Selector = SelectPort
			if other {
				w.Apps[0].Priority = 4
			}
			slices.SortFunc(w.Apps, compareApps)
		}
	}
	return w
}

// TestEveryFactHasARule: the table has no gap, and a feature that is not sent runs as configured.
func TestEveryFactHasARule(t *testing.T) {
	used := map[*rule]bool{}
	for bits := range 1 << 8 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		r := decide(facts{on(0), on(1), on(2), on(3), on(4), on(5), on(6), on(7)})
		if used[r] = true; !on(0) && (r.source != Local || r.fault != never) {
			t.Errorf("%08b: %+v", bits, r)
		}
	}
	if len(used) != len(rules) {
		t.Errorf("%d of %d rules are reached", len(used), len(rules))
	}
}

// TestNotAdvertised: a table that CEE cannot express and a list without applications are not sent.
func TestNotAdvertised(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		c := testConfig(v)
		c.ETS, c.Apps = ETS{TSA: [8]uint8{TSACBS}}, nil
		m := NewMachine(c)
		tlv := settle(t, m, v, scriptedFeature(v, FeatureETS, peerFlags{true, false, false}, true),
			scriptedFeature(v, FeatureApp, peerFlags{true, false, false}, true))
		sent := parse(v, [][]byte{tlv})
		for _, f := range []Feature{FeatureETS, FeatureApp} {
			want := StateLocal
			if f == FeatureApp { // lists of which one is empty do not contradict each other
				want = StateAgreed
			}
			if s := m.Status().Features[f]; s.Source != Local || s.State != want || sent.features[f].present {
				t.Errorf("%v %v: %+v, sent %v", v, f, s, sent.features[f])
			}
		}
	}
}

// TestNoError: a Machine that has not yet had a peer has no Error flag; when the peer is gone, CEE
// has it and CIN has not.
func TestNoError(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		m := NewMachine(testConfig(v))
		for f := range Feature(Features) {
			if errorFlag(v, f, m.TLVs(nil)[0]) || m.Status().Features[f].State != StateNoPeer {
				t.Errorf("%v %v: an error without a peer", v, f)
			}
		}
		flags := peerFlags{enable: true}
		settle(t, m, v, scriptedFeature(v, FeaturePFC, flags, true), scriptedFeature(v, FeatureETS, flags, true),
			scriptedFeature(v, FeatureApp, flags, true))
		for f, s := range m.Status().Features {
			if s.State != StateAgreed || s.Source != Local {
				t.Errorf("%v %v: %+v", v, Feature(f), s)
			}
		}
		m.Expire()
		if m.Pending() != (v == CIN) {
			t.Errorf("%v: pending %v after the peer's expiry", v, m.Pending())
		}
		tlv := m.TLVs(nil)[0]
		if c := parse(v, [][]byte{tlv}).control; *c != (control{}) {
			t.Errorf("%v: control after the peer's expiry: %+v", v, c)
		}
		for f, s := range m.Status().Features {
			if errorFlag(v, Feature(f), tlv) != (v == CEE) || s.State != StateNoPeer || s.Source != Off {
				t.Errorf("%v %v: after the peer's expiry: %+v", v, Feature(f), s)
			}
		}
	}
}
