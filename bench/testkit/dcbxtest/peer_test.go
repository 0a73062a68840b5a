package dcbxtest

import (
	"slices"
	"strings"
	"testing"
)

// TestRules has a row for each rule of the feature state machine.
func TestRules(t *testing.T) {
	type bits struct{ present, twice, enable, willing, error bool }
	const (
		localOn, localOff, localError = "local on", "local off", "local off error"
		peerOn, peerOff               = "peer on", "peer off"
	)
	own := bits{present: true, enable: true}
	willing := bits{present: true, enable: true, willing: true}
	for _, row := range []struct {
		name       string
		own        bits
		other      *bits
		compatible bool
		cee, cin   string
	}{
		{"not advertised", bits{enable: true}, &own, false, localOn, localOn},
		{"not advertised, no peer", bits{}, nil, false, localOn, localOn},
		{"no peer", own, nil, true, localError, localOff},
		{"missing", own, &bits{}, true, localError, localOff},
		{"twice", own, &bits{present: true, twice: true, enable: true}, true, localError, localError},
		{"own disabled", bits{present: true, willing: true}, &own, false, localOff, localOff},
		{"other disabled", own, &bits{present: true}, false, localOff, localOff},
		{"willing", willing, &own, false, peerOn, peerOn},
		{"willing, error", willing, &bits{present: true, enable: true, error: true}, true, peerOff, peerOff},
		{"other willing", own, &willing, false, localOn, localOn},
		{"other willing, error", own, &bits{present: true, enable: true, willing: true, error: true}, true,
			localOff, localOff},
		{"none willing", own, &own, false, localError, localError},
		{"none willing, compatible", own, &own, true, localOn, localOn},
		{"none willing, error", own, &bits{present: true, enable: true, error: true}, true, localOff, localOff},
		{"both willing", willing, &willing, false, localError, localError},
		{"both willing, compatible", willing, &willing, true, localOn, localOn},
	} {
		advertised := func(b bits, pfc uint8) advert {
			return advert{present: b.present, twice: b.twice, enable: b.enable, willing: b.willing,
				error: b.error, pfc: pfc}
		}
		a := advertised(row.own, 0x08)
		var b *advert
		if row.other != nil {
			x := advertised(*row.other, 0x10)
			b = &x
			if row.compatible {
				b.pfc = 0x08
			}
		}
		for v, want := range map[Version]string{CEE: row.cee, CIN: row.cin} {
			got := decide(v, PFC, a, b)
			text := "local off"
			if got.FromPeer {
				text = "peer off"
			}
			if got.On {
				text = strings.Replace(text, "off", "on", 1)
			}
			if got.Error {
				text += " error"
			}
			if text != want {
				t.Errorf("%s, version %d: %s, not %s", row.name, v, text, want)
			}
			if pfc := got.PFC; !got.FromPeer && pfc != 0x08 || got.FromPeer && pfc != b.pfc {
				t.Errorf("%s, version %d: runs %#x", row.name, v, pfc)
			}
		}
	}
}

func TestCompatible(t *testing.T) {
	a := advert{groups: Groups{Percent: [8]uint8{100}}, apps: []Application{{1, 0, 0, 8}, {2, 0, 0, 4}}}
	b := advert{groups: Groups{Percent: [8]uint8{99, 1}}, apps: []Application{{2, 0, 0, 4}, {1, 0, 0, 8}}}
	c := advert{apps: []Application{{1, 0, 0, 8}, {2, 0, 0, 1}}}
	d := advert{apps: []Application{{2, 0, 0, 4}, {2, 1, 0, 1}, {3, 0, 0, 1}, {1, 0, 0, 0}}}
	for _, row := range []struct {
		v    Version
		f    Feature
		b    advert
		want bool
	}{{CEE, PG, b, true}, {CIN, PG, b, false}, {CIN, PG, a, true}, {CEE, App, b, true}, {CEE, App, c, false},
		{CEE, App, d, true}, {CEE, App, advert{}, true}} {
		if got := compatible(row.v, row.f, a, row.b); got != row.want {
			t.Errorf("version %d, feature %d: %v", row.v, row.f, got)
		}
	}
}

// TestViolations: each breach of the format is reported.
func TestViolations(t *testing.T) {
	config := func(v Version) Config {
		c := Config{Version: v, Advertise: all, Enable: all, PFC: 8, Groups: Groups{Percent: [8]uint8{100}},
			Apps: []Application{{Protocol: 0}, {Protocol: 1}}}
		return c
	}
	type spoil struct {
		v   Version
		say string
		f   func([]byte) []byte
	}
	set := func(i int, b byte) func([]byte) []byte { return func(v []byte) []byte { v[i] = b; return v } }
	more := func(b ...byte) func([]byte) []byte { return func(v []byte) []byte { return append(v, b...) } }
	for _, s := range []spoil{
		{CEE, "of one byte", more(1)},
		{CEE, "sub-TLV 60 is cut", more(60<<1, 4, 0, 0, 0)},
		{CEE, "control has length 4", more(2, 4, 0, 0, 0, 0)},
		{CEE, "2 control", more(2, 10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0)},
		{CEE, "control: OperVersion is above", set(6, 1)},
		{CEE, "length 3", set(4+12+1, 3)},
		{CEE, "reserved flags", set(4+12+4, 0x81)},
		{CEE, "sub-TLV 2: OperVersion is above", set(4+12+2, 1)},
		{CEE, "reserved group 8", set(4+12+6, 0x08)},
		{CEE, "sum to 99", set(4+12+10, 99)},
		{CEE, "sub-TLV 3: length 5", func(v []byte) []byte {
			v[4+12+19+1] = 5
			return slices.Delete(v, 4+12+19+7, 4+12+19+8)
		}},
		{CIN, "sum to 101", set(4+12+6, 101)},
		{CIN, "101 % of its group", set(4+12+6+9, 101)},
		{CIN, "different flags", set(4+12+30+7+4, 0xc0)},
	} {
		good := NewPeer(config(s.v)).TLVs()
		if _, wrong := parse(s.v, good); len(wrong) > 0 {
			t.Fatalf("version %d: %q without a reason", s.v, wrong)
		}
		p := NewPeer(config(s.v))
		p.Receive([][]byte{s.f(slices.Clone(good[0]))})
		if got := strings.Join(p.Violations(), "; "); !strings.Contains(got, s.say) {
			t.Errorf("%q is not in %q", s.say, got)
		}
	}
	good := NewPeer(config(CEE)).TLVs()
	if _, wrong := parse(CEE, append(good, good...)); len(wrong) != 1 {
		t.Errorf("two TLVs of the version: %q", wrong)
	}
}

// TestNumbers: wrong sequence and acknowledgement numbers are reported by a Peer as far as it can
// tell, and by an Audit exactly.
func TestNumbers(t *testing.T) {
	c := Config{Version: CEE, Advertise: all, Enable: all, Groups: Groups{Percent: [8]uint8{100}}}
	say := func(seq, ack uint32, pfc uint8) [][]byte {
		d := c
		d.PFC = pfc
		m := message{seq: seq, ack: ack}
		for f := range Features {
			m.features[f] = advertOf(&d, f)
		}
		return [][]byte{m.build(CEE, &d)}
	}
	p := NewPeer(c)
	p.TLVs()
	p.Receive(say(1, 1, 8))
	if p.Violations() != nil {
		t.Error(p.Violations())
	}
	p.Receive(say(2, 1, 9)) // 1 was received, but no acknowledgement of it was sent
	p.Receive(say(1, 2, 8))
	if got := p.Violations(); len(got) != 2 || !strings.Contains(got[0], "1 was never") ||
		!strings.Contains(got[1], "2, which") {
		t.Error(got)
	}

	for _, test := range []struct {
		say string
		f   func(*Audit)
	}{
		{"", func(a *Audit) {
			a.Sent(say(1, 3, 8))
			a.Received(say(3, 1, 0))
			a.Changed()
			a.Sent(say(2, 3, 9))
		}},
		{"acknowledges 2 after it received 3", func(a *Audit) { a.Sent(say(1, 2, 8)) }},
		{"number 2 after 0", func(a *Audit) { a.Sent(say(2, 3, 8)) }},
		{"number 2 after 1", func(a *Audit) { a.Sent(say(1, 3, 8)); a.Changed(); a.Sent(say(2, 3, 9)) }},
		{"same number 1", func(a *Audit) { a.Sent(say(1, 3, 8)); a.Sent(say(1, 3, 9)) }},
		{"nothing changed", func(a *Audit) { a.Sent(say(1, 3, 8)); a.Received(say(3, 1, 0)); a.Sent(say(2, 3, 8)) }},
		{"no TLV", func(a *Audit) { a.Sent(nil) }},
	} {
		a := NewAudit(CEE, 0)
		if !a.Received(say(3, 0, 0)) {
			t.Error("nothing is acknowledged, and no reply is due")
		}
		test.f(a)
		got := strings.Join(a.violations, "; ")
		if (got == "") != (test.say == "") || !strings.Contains(got, test.say) {
			t.Errorf("%q is not in %q", test.say, got)
		}
	}
}
