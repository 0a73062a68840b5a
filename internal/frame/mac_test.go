package frame

import (
	"net"
	"testing"

	"pgregory.net/rapid"
)

func drawMAC(t *rapid.T, name string) MAC {
	return MAC(rapid.Uint64Range(0, uint64(Broadcast)).Draw(t, name))
}

// TestMACAgreesWithNet uses package net as the oracle for text and byte order.
func TestMACAgreesWithNet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMAC(t, "mac")
		b := m.Bytes()
		if want := net.HardwareAddr(b[:]).String(); m.String() != want {
			t.Fatalf("String %q, want %q", m, want)
		}
		if MACFrom(b[:]) != m {
			t.Fatalf("MACFrom(Bytes(%v)) = %v", m, MACFrom(b[:]))
		}
		if parsed, err := ParseMAC(m.String()); err != nil || parsed != m {
			t.Fatalf("ParseMAC(%q) = %v, %v", m, parsed, err)
		}
		if (b[0]&1 == 1) != m.Group() {
			t.Fatalf("Group of %v: %v", m, m.Group())
		}
	})
}

func TestParseMAC(t *testing.T) {
	const want MAC = 0x02005e10ffa1
	for _, s := range []string{"02:00:5e:10:ff:a1", "02-00-5E-10-FF-A1", "0200.5e10.ffa1"} {
		if got, err := ParseMAC(s); err != nil || got != want {
			t.Errorf("ParseMAC(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "02:00:5e:10:ff", "02:00:5e:10:ff:zz", "02:00:5e:10:ff:a1:00:00"} {
		if got, err := ParseMAC(s); err == nil {
			t.Errorf("ParseMAC(%q) = %v", s, got)
		}
	}
	if s := want.String(); s != "02:00:5e:10:ff:a1" {
		t.Errorf("String: %q", s)
	}
}

func TestMACKinds(t *testing.T) {
	for _, c := range []struct {
		mac                      string
		group, reserved, oneLink bool
	}{
		{"01:80:c2:00:00:00", true, false, false}, // BPDUs
		{"01:80:c2:00:00:01", true, true, true},   // MAC control
		{"01:80:c2:00:00:02", true, true, true},   // LACP
		{"01:80:c2:00:00:03", true, true, false},  // 802.1X
		{"01:80:c2:00:00:04", true, true, true},   // MAC control
		{"01:80:c2:00:00:0d", true, true, false},
		{"01:80:c2:00:00:0e", true, true, true}, // LLDP
		{"01:80:c2:00:00:0f", true, true, false},
		{"01:80:c2:00:00:10", true, false, false},
		{"01:80:c2:00:00:11", true, false, false},
		{"01:80:c1:ff:ff:ff", true, false, false},
		{"00:80:c2:00:00:01", false, false, false},
		{"ff:ff:ff:ff:ff:ff", true, false, false},
		{"02:00:5e:10:00:01", false, false, false},
	} {
		m, err := ParseMAC(c.mac)
		if err != nil {
			t.Fatal(err)
		}
		if m.Group() != c.group || m.Reserved() != c.reserved || m.OneLink() != c.oneLink {
			t.Errorf("%s: group %v, reserved %v, one link %v", c.mac, m.Group(), m.Reserved(), m.OneLink())
		}
	}
}
