package dcbxtest

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

var seed = flag.Uint64("seed", rand.Uint64(), "of the random exchanges")

// TestTwoModels: whatever two models go through, they settle on what the rules say.
func TestTwoModels(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	for _, v := range []Version{CEE, CIN} {
		most := 0
		for n := range uint64(10_000) {
			r := rand.New(rand.NewPCG(*seed, n))
			l := NewLink(r)
			peers := [2]*Peer{NewPeer(Random(r, v)), NewPeer(Random(r, v))}
			for i, p := range peers {
				l.Attach(i, p, v, p.config.MaxVersion)
			}
			for range r.IntN(10) {
				l.Disturb(r.IntN(20))
				upset(r, l, v, peers)
			}
			most = max(most, l.Settle(20))
			for range 2 {
				l.Quiet()
				settled(t, l, peers)
				i := r.IntN(2)
				peers[i].Configure(Random(r, v))
				l.Changed(i)
				most = max(most, l.Follow(20))
			}
			settled(t, l, peers)
			if t.Failed() {
				for _, line := range l.Log() {
					t.Log(line)
				}
				t.Fatalf("exchange %d of version %d, -seed=%d", n, v, *seed)
			}
		}
		t.Logf("version %d: at most %d LLDPDUs to settle", v, most)
	}
}

// upset changes something at one of the ends.
func upset(r *rand.Rand, l *Link, v Version, peers [2]*Peer) {
	i := r.IntN(2)
	switch r.IntN(4) {
	case 0:
		peers[i].Restart(Random(r, v))
		l.Attach(i, peers[i], v, peers[i].config.MaxVersion)
	case 1:
		l.Expire(i)
	case 2:
		peers[i].Configure(Random(r, v))
		l.Changed(i)
	case 3:
	}
}

func settled(t *testing.T, l *Link, peers [2]*Peer) {
	for _, w := range l.Failures() {
		t.Error(w)
	}
	for i, p := range peers {
		other := peers[1-i]
		for _, w := range p.Violations() {
			t.Errorf("end %d sees: %s", i, w)
		}
		seq, ack, myAck := p.Numbers()
		otherSeq, _, _ := other.Numbers()
		if seq == 0 || seq != myAck || ack != otherSeq {
			t.Errorf("end %d: numbers %d, %d, %d; the other is at %d", i, seq, ack, myAck, otherSeq)
		}
		for f := range Features {
			agree(t, p.Running(f), other.Running(f))
			if other.other.features[f].present {
				if said := other.other.features[f].error; said != p.Running(f).Error {
					t.Errorf("end %d: error %v of feature %d is not what it said", i, said, f)
				}
			}
		}
	}
}

// agree checks what must hold between two ends, whatever the rules: an end that takes the other's
// values runs the same as the other.
func agree(t *testing.T, a, b Running) {
	if !a.On || !a.FromPeer {
		return
	}
	if !b.On || b.FromPeer || a.PFC != b.PFC || a.Groups != b.Groups || !slices.Equal(a.Apps, b.Apps) {
		t.Errorf("one end runs %+v of the other, which runs %+v", a, b)
	}
}

// TestWire checks the bytes of both versions against bytes written by hand from the tables.
func TestWire(t *testing.T) {
	for _, test := range []struct {
		config Config
		want   []byte
	}{
		{Config{Version: CEE, Advertise: all, Enable: all, Willing: [Features]bool{PFC: true}, PFC: 0x08, PFCTCs: 7,
			Groups: Groups{Group: [8]uint8{0, 0, 0, 1, 0, 0, 15, 15}, Percent: [8]uint8{60, 40}, TCs: 8},
			Apps:   []Application{{Protocol: 0x8906, OUI: 0x0c1b21, Priorities: 0x08}, {3260, 1, 0x001b21, 0x10}}},
			[]byte{0x00, 0x1b, 0x21, 0x02,
				0x02, 10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
				0x04, 17, 0, 0, 0x80, 0, 0x00, 0x01, 0x00, 0xff, 60, 40, 0, 0, 0, 0, 0, 0, 8,
				0x06, 6, 0, 0, 0xc0, 0, 0x08, 7,
				0x08, 16, 0, 0, 0x80, 0, 0x89, 0x06, 0x0c, 0x1b, 0x21, 0x08, 0x0c, 0xbc, 0x01, 0x1b, 0x21, 0x10}},
		{Config{Version: CIN, Advertise: all, Enable: all, Willing: [Features]bool{PFC: true}, PFC: 0x08,
			Groups: Groups{Group: [8]uint8{3: 1}, Percent: [8]uint8{60, 40}, Strict: [8]uint8{7: 2},
				Share: [8]uint8{100, 0, 0, 100}},
			Apps: []Application{{Protocol: 0, Priorities: 0x08}, {Protocol: 2, Priorities: 0x08}}},
			[]byte{0x00, 0x1b, 0x21, 0x01,
				0x02, 10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
				0x04, 28, 0, 0, 0x80, 0, 60, 40, 0, 0, 0, 0, 0, 0,
				0, 100, 0, 0, 0, 0, 0x20, 100, 0, 0, 0, 0, 0, 0, 0x10, 0,
				0x06, 5, 0, 0, 0xc0, 0, 0x08,
				0x0a, 5, 0, 0, 0x80, 0, 0x08, 0x0a, 5, 0, 0, 0x80, 2, 0x08}},
	} {
		got := NewPeer(test.config).TLVs()
		if len(got) != 1 || !slices.Equal(got[0], test.want) {
			t.Errorf("version %d:\ngot  % x\nwant % x", test.config.Version, got, test.want)
		}
		m, wrong := parse(test.config.Version, got)
		if m == nil || len(wrong) > 0 {
			t.Fatalf("version %d: own TLV refused: %v", test.config.Version, wrong)
		}
		for f := range Features {
			want := advertOf(&test.config, f)
			got := m.features[f]
			if !reflect.DeepEqual(got, want) {
				t.Errorf("version %d, feature %d: read %+v, not %+v", test.config.Version, f, got, want)
			}
		}
	}
}

var all = [Features]bool{true, true, true}
