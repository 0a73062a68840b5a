package lldp

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"sluice/bench/testkit/tshark"
)

var mac = [6]byte{0x02, 0, 0, 0, 0, 0xaa}

// local is what a port of the switch sends.
func local() Local {
	return Local{
		MAC: mac, Chassis: ChassisID{ChassisMAC, mac[:]}, Port: PortID{PortInterfaceName, []byte("port1")},
		PortDescription: "to the core", SystemName: "switcha", SystemDescription: "Sluice 1.0",
		Capabilities: Capabilities{Supported: Bridge | Router, Enabled: Bridge},
		Management: []ManagementAddress{ManagementIP(netip.MustParseAddr("192.0.2.1"), NumberIfIndex, 7),
			ManagementIP(netip.MustParseAddr("2001:db8::1"), NumberSystemPort, 0x10203)},
		PVID: 100, MaxFrameSize: 9216,
	}
}

func TestAppend(t *testing.T) {
	l := local()
	for _, c := range []struct {
		name           string
		ttl            uint16
		organizational [][]byte
		want           string
	}{
		{"all", 121, [][]byte{bytesOf("0080c2 0b 88 08"), bytesOf("001b21 02")}, `
			0180c200000e 0200000000aa 88cc
			02 07 04 0200000000aa
			04 06 05 706f727431
			06 02 0079
			08 0b 746f2074686520636f7265
			0a 07 73776974636861
			0c 0a 536c7569636520312e30
			0e 04 0014 0004
			10 0c 05 01 c0000201 02 00000007 00
			10 18 11 02 20010db8000000000000000000000001 03 00010203 00
			fe 06 0080c2 01 0064
			fe 06 00120f 04 2400
			fe 06 0080c2 0b 88 08
			fe 04 001b21 02
			00 00`},
		{"shutdown", 0, [][]byte{bytesOf("0080c2 0b 88 08")}, `
			0180c200000e 0200000000aa 88cc
			02 07 04 0200000000aa
			04 06 05 706f727431
			06 02 0000
			00 00
			` + strings.Repeat("00", 60-14-9-8-4-2)},
	} {
		before := []byte("before")
		got, err := l.Append(before, c.ttl, c.organizational)
		if want := append(before, bytesOf(c.want)...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n% x, want\n% x", c.name, err, got, want)
		}
	}
}

// TestAppendNamesWhatDoesNotFit: an error names each TLV that is not sent. All others are.
func TestAppendNamesWhatDoesNotFit(t *testing.T) {
	oneAddress := func(u *LLDPDU) bool { return len(u.Management) == 1 }
	org := func(subtype byte, n int) []byte { return append([]byte{0, 0x80, 0xc2, subtype}, make([]byte, n-4)...) }
	for _, c := range []struct {
		name           string
		change         func(*Local)
		organizational [][]byte
		missing        []string // in the error
		has            func(*LLDPDU) bool
	}{
		{"a system description of 256 bytes", func(l *Local) { l.SystemDescription = strings.Repeat("a", 256) }, nil,
			[]string{"without system description: it has 256 bytes: shorten it to 255"},
			func(u *LLDPDU) bool {
				return u.SystemDescription == nil && string(u.SystemName) == "switcha" && u.PVID == 100
			}},
		{"a management address of no bytes", func(l *Local) { l.Management[0] = ManagementAddress{} }, nil,
			[]string{"without management address: it has 0 bytes"}, oneAddress},
		{"a management address of 32 bytes", func(l *Local) { l.Management[0].Address = make([]byte, 32) }, nil,
			[]string{"without management address: it has 32 bytes"}, oneAddress},
		{"an OID of 129 bytes", func(l *Local) { l.Management[0].OID = make([]byte, 129) }, nil,
			[]string{"its OID 129"}, oneAddress},
		{"organizational TLVs of 3 and 512 bytes", nil, [][]byte{{0, 0x80, 0xc2}, org(9, 512), org(10, 511)},
			[]string{"without organizational TLV 00 80 c2: it has 3 bytes, not 4 to 511",
				"without organizational TLV 00 80 c2 09: it has 512 bytes, not 4 to 511"},
			func(u *LLDPDU) bool { return len(u.Organizational) == 3 && len(u.Organizational[2]) == 511 }},
		{"more than fits", nil, [][]byte{org(9, 511), org(10, 511), org(11, 400), org(12, 6)},
			[]string{"without organizational TLV 00 80 c2 0b: it needs 402 bytes, and 355 of 1500 are left"},
			func(u *LLDPDU) bool { return len(u.Organizational) == 5 && u.Organizational[4][3] == 12 }},
		{"one byte too much", nil, [][]byte{org(9, 511), org(10, 511), org(11, 354)},
			[]string{"without organizational TLV 00 80 c2 0b: it needs 356 bytes, and 355 of 1500 are left"},
			func(u *LLDPDU) bool { return len(u.Organizational) == 4 }},
		{"exactly 1500 bytes", nil, [][]byte{org(9, 511), org(10, 511), org(11, 353)}, nil,
			func(u *LLDPDU) bool { return len(u.Organizational) == 5 && len(u.Raw) == 1500 }},
	} {
		l := local()
		if c.change != nil {
			c.change(&l)
		}
		frame, err := l.Append(nil, 121, c.organizational)
		for _, m := range c.missing {
			if err == nil || !strings.Contains(err.Error(), m) {
				t.Errorf("%s: %v, want %q", c.name, err, m)
			}
		}
		if len(c.missing) == 0 && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var u LLDPDU
		if err := u.Decode(frame[14:], nil); err != nil || u.discarded() || !c.has(&u) {
			t.Errorf("%s: %v, sent %d bytes: %.300x", c.name, err, len(u.Raw), u.Raw)
		}
	}
}

func (u *LLDPDU) discarded() bool { return u.Errors != [NumErrors]uint16{} }

func TestAppendNeedsIDs(t *testing.T) {
	for want, change := range map[string]func(*Local){
		"LLDP chassis ID of 0 bytes: give it 1 to 255": func(l *Local) { l.Chassis.Value = nil },
		"LLDP port ID of 256 bytes: give it 1 to 255":  func(l *Local) { l.Port.Value = make([]byte, 256) },
	} {
		l := local()
		change(&l)
		frame, err := l.Append([]byte("before"), 121, nil)
		if err == nil || err.Error() != want || string(frame) != "before" {
			t.Errorf("%v, want %s; % x", err, want, frame)
		}
	}
}

// localOf draws what may be sent, short enough to fit, and organizational TLVs.
func localOf(t *rapid.T) (l Local, organizational [][]byte) {
	some := func(from, to int, name string) []byte {
		return rapid.SliceOfN(rapid.Byte(), from, to).Draw(t, name)
	}
	l = Local{
		MAC:             [6]byte(some(6, 6, "mac")),
		Chassis:         ChassisID{rapid.Byte().Draw(t, "chassis subtype"), some(1, 255, "chassis")},
		Port:            PortID{rapid.Byte().Draw(t, "port subtype"), some(1, 255, "port")},
		PortDescription: string(some(0, 80, "port description")), SystemName: string(some(0, 80, "system name")),
		SystemDescription: string(some(0, 255, "system description")),
		Capabilities: Capabilities{Capability(rapid.Uint16().Draw(t, "supported")),
			Capability(rapid.Uint16().Draw(t, "enabled"))},
		PVID: rapid.Uint16().Draw(t, "PVID"), MaxFrameSize: rapid.Uint16().Draw(t, "size"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "addresses") {
		l.Management = append(l.Management, ManagementAddress{rapid.Byte().Draw(t, "family"), some(1, 31, "address"),
			rapid.Byte().Draw(t, "numbering"), rapid.Uint32().Draw(t, "number"), some(0, 128, "OID")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "organizational") {
		organizational = append(organizational, append([]byte{0x00, 0x1b, 0x21}, some(1, 60, "body")...))
	}
	return l, organizational
}

// TestRoundTrip: what is sent is received.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, organizational := localOf(t)
		ttl := rapid.Uint16Min(1).Draw(t, "TTL")
		frame, err := l.Append(nil, ttl, organizational)
		if err != nil {
			t.Fatal(err)
		}
		source, data, err := Unwrap(frame)
		var u LLDPDU
		if err == nil {
			err = u.Decode(data, nil)
		}
		if err != nil || u.discarded() {
			t.Fatalf("%v, %+v", err, u)
		}
		got := Local{MAC: source, Chassis: u.Chassis, Port: u.Port, PortDescription: string(u.PortDescription),
			SystemName: string(u.SystemName), SystemDescription: string(u.SystemDescription),
			Management: u.Management, PVID: u.PVID, MaxFrameSize: u.MaxFrameSize}
		if u.HasCapabilities {
			got.Capabilities = u.Capabilities
		}
		if l.Capabilities.Supported == 0 {
			l.Capabilities.Enabled = 0
		}
		rest := u.Organizational
		for _, sent := range []bool{l.PVID != 0, l.MaxFrameSize != 0} {
			if sent {
				rest = rest[1:]
			}
		}
		if !same(got, l) || u.TTL != ttl || !same(rest, organizational) || len(frame) < 60 {
			t.Errorf("sent\n%+v %x, received\n%+v %x", l, organizational, got, rest)
		}
	})
}

// same compares what fmt shows, which does not distinguish nil from empty.
func same(a, b any) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

// TestGopacketReads: gopacket, an independent decoder, finds what was sent.
func TestGopacketReads(t *testing.T) {
	l := local()
	frame, err := l.Append(nil, 121, [][]byte{bytesOf("0080c2 0b 88 08")})
	if err != nil {
		t.Fatal(err)
	}
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatal(e.Error())
	}
	lldp := p.Layer(layers.LayerTypeLinkLayerDiscovery).(*layers.LinkLayerDiscovery)
	info := p.Layer(layers.LayerTypeLinkLayerDiscoveryInfo).(*layers.LinkLayerDiscoveryInfo)
	if lldp.ChassisID.Subtype != layers.LLDPChassisIDSubTypeMACAddr || !bytes.Equal(lldp.ChassisID.ID, mac[:]) ||
		string(lldp.PortID.ID) != "port1" || lldp.TTL != 121 || info.PortDescription != "to the core" ||
		info.SysName != "switcha" || info.SysDescription != "Sluice 1.0" || !info.SysCapabilities.SystemCap.Router ||
		!info.SysCapabilities.EnabledCap.Bridge || info.SysCapabilities.EnabledCap.Router ||
		!bytes.Equal(info.MgmtAddress.Address, l.Management[1].Address) && !bytes.Equal(info.MgmtAddress.Address,
			l.Management[0].Address) {
		t.Errorf("gopacket reads %+v\n%+v", lldp, info)
	}
	if q, err := info.Decode8021(); err != nil || q.PVID != 100 {
		t.Errorf("802.1: %+v, %v", q, err)
	}
	if m, err := info.Decode8023(); err != nil || m.MTU != 9216 {
		t.Errorf("802.3: %+v, %v", m, err)
	}
}

// TestTsharkReads: tshark finds what was sent, and no fault.
func TestTsharkReads(t *testing.T) {
	l := local()
	long := local()
	long.Chassis, long.Port = ChassisID{ChassisLocal, bytes.Repeat([]byte("c"), 255)}, PortID{PortLocal, []byte("p")}
	long.PortDescription, long.SystemDescription = strings.Repeat("d", 255), strings.Repeat("e", 255)
	long.Management = long.Management[1:]
	frames := make([][]byte, 3)
	for i, of := range []struct {
		l              *Local
		ttl            uint16
		organizational [][]byte
	}{{&l, 121, [][]byte{bytesOf("0080c2 0b 88 08")}}, {&l, 0, nil}, {&long, 65535, nil}} {
		var err error
		if frames[i], err = of.l.Append(nil, of.ttl, of.organizational); err != nil {
			t.Fatal(err)
		}
	}
	rows := tshark.Fields(t, frames, "lldp.chassis.id.mac", "lldp.chassis.id", "lldp.port.id", "lldp.time_to_live",
		"lldp.port.desc", "lldp.tlv.system.name", "lldp.tlv.system.desc", "lldp.tlv.system_cap",
		"lldp.tlv.enable_system_cap", "lldp.mgn.addr.ip4", "lldp.mgn.addr.ip6", "lldp.mgn.interface.number",
		"lldp.ieee.802_1.port_vlan.id", "lldp.ieee.802_3.max_frame_size", "lldp.dcbx.ieee.pfc.numtcs",
		"_ws.expert.message", "_ws.malformed")
	var got []string
	for _, row := range rows {
		got = append(got, strings.Join(row, "|"))
	}
	want := []string{
		"02:00:00:00:00:aa||port1|121|to the core|switcha|Sluice 1.0|0x0014|0x0004|192.0.2.1|" +
			"2001:db8::1|7,66051|100|9216|8||",
		"02:00:00:00:00:aa||port1|0|||||||||||||",
		fmt.Sprintf("|%s|p|65535|%s|switcha|%s|0x0014|0x0004||2001:db8::1|66051|100|9216|||", strings.Repeat("63", 255),
			strings.Repeat("d", 255), strings.Repeat("e", 255)),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tshark reads\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
