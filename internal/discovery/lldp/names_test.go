package lldp

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestIDText(t *testing.T) {
	for _, c := range []struct {
		subtype       uint8
		value         string // hexadecimal
		chassis, port string // kind: text
	}{
		{0, "41", "reserved 0: A", "reserved 0: A"},
		{1, "4341", "component: CA", "interface alias: CA"},
		{2, "1b5b324a", `interface alias: \x1b[2J`, `component: \x1b[2J`},
		{3, "0102030405ff", `port component: \x01\x02\x03\x04\x05\xff`, "mac: 01:02:03:04:05:ff"},
		{4, "0102030405ff", "mac: 01:02:03:04:05:ff", "network address: family 1: 02030405ff"},
		{4, "01c0000201", "mac: 01:c0:00:02:01", "network address: 192.0.2.1"},
		{5, "01c0000201", "network address: 192.0.2.1", `interface name: \x01\xc0` + `\x00\x02\x01`},
		{5, "0220010db8000000000000000000000001", "network address: 2001:db8::1", "-"},
		{5, "06020000000001", "network address: 02:00:00:00:00:01", "-"},
		{5, "01", "network address: family 1: ", `interface name: \x01`},
		{6, "657468", "interface name: eth", "agent circuit id: eth"},
		{7, "657468", "local: eth", "local: eth"},
		{8, "657468", "reserved 8: eth", "reserved 8: eth"},
		{255, "657468", "reserved 255: eth", "reserved 255: eth"},
	} {
		chassis, port := ChassisID{c.subtype, bytesOf(c.value)}, PortID{c.subtype, bytesOf(c.value)}
		if got := chassis.Kind() + ": " + chassis.String(); got != c.chassis {
			t.Errorf("chassis ID %d %s: %q, want %q", c.subtype, c.value, got, c.chassis)
		}
		if got := port.Kind() + ": " + port.String(); c.port != "-" && got != c.port {
			t.Errorf("port ID %d %s: %q, want %q", c.subtype, c.value, got, c.port)
		}
	}
}

func TestManagementText(t *testing.T) {
	for _, a := range []string{"192.0.2.1", "2001:db8::1"} {
		if got := ManagementIP(netip.MustParseAddr(a), NumberIfIndex, 1).String(); got != a {
			t.Errorf("%s: %s", a, got)
		}
	}
	if got := ManagementIP(netip.MustParseAddr("::ffff:192.0.2.1"), NumberIfIndex, 1).String(); got != "192.0.2.1" {
		t.Errorf("IPv4 in IPv6: %s", got)
	}
}

func TestCapabilityNames(t *testing.T) {
	want := []string{"other", "repeater", "bridge", "wlan", "router", "telephone", "docsis", "station", "c-vlan",
		"s-vlan", "tpmr", "bit 11", "bit 12", "bit 13", "bit 14", "bit 15"}
	if got := Capability(0xffff).Names(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Bridge | Router).Names(); !slices.Equal(got, []string{"bridge", "router"}) {
		t.Errorf("bridge and router: %q", got)
	}
	if got := Capability(0).Names(); len(got) != 0 {
		t.Errorf("none: %q", got)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"Ethernet1/2":              "Ethernet1/2",
		"Übertragung 東京 €":         "Übertragung 東京 €",
		"NX-OS(tm)\r\nn5000\tfc":   `NX-OS(tm)\r\nn5000\tfc`,
		"\x1b]0;owned\x07":         `\x1b]0;owned\x07`,
		"\x9b31m":                  `\x9b31m`, // one byte: not UTF-8
		"\u009b31m":                `\u009b31m`,
		"\u0080\uffff\U0001ffff":   `\u0080\uffff\U0001ffff`,
		"a\x7f\x08b":               `a\x7f\x08b`,
		"\u202egpj.exe":            `\u202egpj.exe`, // right to left
		"\u2028\u00a0\u200b\ufeff": `\u2028\u00a0\u200b\ufeff`,
		"\U000e0001":               `\U000e0001`,
		"\xff\xc3":                 `\xff\xc3`,
		"\ufffd":                   "\ufffd",
		`a\x1b`:                    `a\\x1b`,
		"sw1\x00\x00":              "sw1",
		"a\x00b\x00":               `a\x00b`,
		"\x00":                     "",
	} {
		if got := Printable([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPrintableIsPrintable: whatever a peer sends, a terminal gets printable characters of valid
// UTF-8, not many more than bytes.
func TestPrintableIsPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		utf8 := rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })
		text := rapid.OneOf(rapid.SliceOf(rapid.Byte()), utf8).Draw(t, "text")
		got := Printable(text)
		bad := strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) })
		if got != strings.ToValidUTF8(got, "") || bad || len(got) > 4*len(text) {
			t.Errorf("%q: %q", text, got)
		}
	})
}

func TestNamesOfErrors(t *testing.T) {
	names := map[string]bool{}
	for e := range NumErrors {
		if e.Error() == "" || e.Name() == "" || names[e.Name()] {
			t.Errorf("error %d: %q, %q", e, e.Name(), e.Error())
		}
		names[e.Name()] = true
	}
}
