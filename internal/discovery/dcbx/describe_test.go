package dcbx

import "testing"

// TestDescribe has the TLVs of testConfig, and others with every flag.
func TestDescribe(t *testing.T) {
	const (
		tables = "TC 0 (0-2,4-5) 40 %, TC 1 (3) 60 %, TC 2 (6-7) strict"
		apps   = "ethertype 0x8906 with priority 3, ethertype 0x8914 with priority 3"
		legacy = "control: version 0 of 0, SeqNo 1, AckNo 0; pfc: enabled, 3; ets: enabled, " + tables +
			"; app: enabled, " + apps + ", port 3260 with priority 4"
	)
	want := map[Version][][2]string{
		IEEE: {
			{"ETS configuration", "not willing; up to 8 traffic classes; " + tables},
			{"ETS recommendation", tables},
			{"PFC configuration", "not willing; up to 8 priorities; 3"},
			{"application priority", apps + ", TCP port 3260 with priority 4"},
		},
		CEE: {{"DCBX CEE", legacy}},
		CIN: {{"DCBX CIN", legacy}},
	}
	for v, words := range want {
		for i, tlv := range goodTLVs(t, v) {
			if name, text, err := Describe(tlv); name != words[i][0] || text != words[i][1] || err != nil ||
				!Recognizes(tlv) {
				t.Errorf("%v: %q: %q, %v, want %q", v, name, text, err, words[i])
			}
		}
	}
	for _, c := range []struct{ tlv, name, text, err string }{
		{"0080c2 0b c4 18", "PFC configuration", "willing; MACsec bypass; up to 4 priorities; 3-4", ""},
		{"0080c2 0b 08", "PFC configuration", "", ErrLength.Error()},
		{"0080c2 09 87 00010022 2832000000000000 0202000000000000", "ETS configuration", "", ErrBandwidth.Error()},
		{badParts.Replace("CEE 020a 01 02 00000003 00000004 0606 00 00 60 00 08 08"), "DCBX CEE",
			"control: version 1 of 2, SeqNo 3, AckNo 4; pfc: willing error, 3", ""},
		{badParts.Replace("CEE PFC"), "DCBX CEE", "", ErrControl.Error()},
		{badParts.Replace("CEE HEAD 0606 00 00 00 00 00 08"), "DCBX CEE",
			"control: version 0 of 0, SeqNo 1, AckNo 1; pfc:, none", ""},
		{"00120f 01 03", "not DCBX", "", ""},
	} {
		name, text, err := Describe(unhex(t, c.tlv))
		said := ""
		if err != nil {
			said = err.Error()
		}
		if name != c.name || text != c.text || said != c.err {
			t.Errorf("%s: %q: %q, %q, want %q", c.tlv, name, text, said, c)
		}
	}
	if Recognizes(unhex(t, "00120f 01 03")) {
		t.Error("a TLV of 802.3 is taken for DCBX")
	}
}

// TestNameOfAnApp: a protocol has a name only with the selectors that its number belongs to.
func TestNameOfAnApp(t *testing.T) {
	names := map[App]string{
		{Selector: SelectEthertype, Protocol: 0x8906}: "fcoe",
		{Selector: SelectEthertype, Protocol: 0x8914}: "fip",
		{Selector: SelectEthertype, Protocol: 0x8915}: "roce",
		{Selector: SelectTCP, Protocol: 3260}:         "iscsi",
		{Selector: SelectPort, Protocol: 3260}:        "iscsi",
		{Selector: SelectUDP, Protocol: 4791}:         "rocev2",
		{Selector: SelectPort, Protocol: 4791}:        "rocev2",
	}
	for selector := range uint8(8) {
		for _, number := range []uint16{0x8906, 0x8914, 0x8915, 3260, 4791, 80} {
			a := App{Selector: selector, Protocol: number}
			if got := a.Name(); got != names[a] {
				t.Errorf("%+v: %q, want %q", a, got, names[a])
			}
		}
	}
}

// TestAlgorithmNames: the numbers are those of 802.1Q, table 8-5.
func TestAlgorithmNames(t *testing.T) {
	for tsa, want := range map[uint8]string{0: "strict", 1: "cbs", 2: "ets", 3: "reserved 3", 254: "reserved 254",
		255: "vendor"} {
		if got := AlgorithmName(tsa); got != want {
			t.Errorf("%d: %q, want %q", tsa, got, want)
		}
	}
}

// TestStatusOfTheControl: a status has the peer's numbers once the peer has sent some.
func TestStatusOfTheControl(t *testing.T) {
	for _, v := range []Version{CEE, CIN} {
		m := NewMachine(testConfig(v))
		if c := m.Status().Control; c == nil || c.PeerHasControl || c.PeerSeqNo != 0 {
			t.Errorf("%v, without a peer: %+v", v, c)
		}
		pfc := scriptedFeature(v, FeaturePFC, peerFlags{enable: true}, true)
		m.Receive([6]byte{2}, [][]byte{scripted(v, 5, 1, pfc)})
		if c := m.Status().Control; c == nil || !c.PeerHasControl || c.PeerSeqNo != 5 {
			t.Errorf("%v, with a peer: %+v", v, c)
		}
	}
}
