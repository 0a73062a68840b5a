package lldp

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		kind             uint8
		value, name, txt string
		err              error
	}{
		{1, "04020000000001", "chassis ID", "mac 02:00:00:00:00:01", nil},
		{1, "04", "chassis ID", "", ErrChassisID},
		{2, "0565746830", "port ID", "interface name eth0", nil},
		{2, "05", "port ID", "", ErrPortID},
		{3, "0079", "time to live", "121 s", nil},
		{3, "00", "time to live", "", ErrTTL},
		{5, "611b5b316d", "system name", `a\x1b[1m`, nil},
		{6, strings.Repeat("41", 255), "system description", strings.Repeat("A", 255), nil},
		{6, strings.Repeat("41", 256), "system description", "", ErrLength},
		{1, "07" + strings.Repeat("41", 255), "chassis ID", "local " + strings.Repeat("A", 255), nil},
		{1, "07" + strings.Repeat("41", 256), "chassis ID", "", ErrChassisID},
		{7, "00140004", "system capabilities", "can be bridge, router; is bridge", nil},
		{7, "00140000", "system capabilities", "can be bridge, router; is nothing", nil},
		{7, "0014", "system capabilities", "", ErrLength},
		{8, "0501c000020102000000070" + "0", "management address", "192.0.2.1", nil},
		{8, "0501c0", "management address", "", ErrLength},
		{9, "00", "reserved type 9", "", nil},
		{127, "0080c20107d0", "802.1 port VLAN ID", "VLAN 2000", nil},
		{127, "0080c20107", "802.1 port VLAN ID", "", ErrLength},
		{127, "00120f0405f2", "802.3 maximum frame size", "1522 bytes", nil},
		{127, "00120f010300000010", "802.3 MAC/PHY status", "autonegotiation supported, on; MAU type 16", nil},
		{127, "00000199aa", "organizational 00-00-01, subtype 153", "", nil},
		{127, "0000", "organizational", "", ErrLength},
	} {
		value, err := hex.DecodeString(c.value)
		if err != nil {
			t.Fatal(err)
		}
		name, text, err := Describe(c.kind, value)
		if name != c.name || text != c.txt || !errors.Is(err, c.err) {
			t.Errorf("%d %s: %q, %q, %v; want %q, %q, %v", c.kind, c.value, name, text, err, c.name, c.txt, c.err)
		}
	}
}
