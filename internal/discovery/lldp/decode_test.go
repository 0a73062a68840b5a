package lldp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// bytesOf decodes hexadecimal digits; blanks and all after a # in a line are left out.
func bytesOf(text string) (b []byte) {
	for line := range strings.Lines(text) {
		digits, _, _ := strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			panic(err)
		}
		b = append(b, part...)
	}
	return b
}

// mandatory is the start of an LLDPDU: chassis ID 00:25:b5:00:00:01, port ID Ethernet1/2, TTL
// 120 s.
const mandatory = `
	02 07 04 0025b5000001
	04 0c 05 45746865726e6574312f32
	06 02 0078
`

const end = "\n00 00\n"

// full has all TLVs that Decode knows, and some that it does not.
const full = mandatory + `
	08 05 75706c696e         # port description
	0a 03 737731             # system name
	0c 06 4e582d4f530a       # system description, with a newline
	0e 04 0014 0004          # bridge and router, of which bridge
	10 0c 05 01 c0000201 02 00000007 00
	10 1b 11 02 20010db8000000000000000000000001 03 00010203 03 2b0601
	10 0e 07 06 020000000001 01 00000000 00
	fe 06 0080c2 01 0064     # PVID 100
	fe 09 00120f 01 03 6c01 0010
	fe 06 00120f 04 2400     # maximum frame size 9216
	fe 06 0080c2 0b 88 08    # PFC
	fe 04 001b21 02          # CEE without a body
	12 03 010203             # reserved type 9
` + end

const header = "0180c200000e 00059b000001 88cc"

func fullDecoded() LLDPDU {
	return LLDPDU{
		Chassis: ChassisID{ChassisMAC, bytesOf("0025b5000001")}, Port: PortID{PortInterfaceName, []byte("Ethernet1/2")},
		TTL:             120,
		PortDescription: []byte("uplin"), SystemName: []byte("sw1"), SystemDescription: []byte("NX-OS\n"),
		HasCapabilities: true, Capabilities: Capabilities{Supported: Bridge | Router, Enabled: Bridge},
		Management: []ManagementAddress{
			{Subtype: 1, Address: []byte{192, 0, 2, 1}, Numbering: NumberIfIndex, Number: 7, OID: []byte{}},
			{Subtype: 2, Address: bytesOf("20010db8 000000000000000000000001"), Numbering: NumberSystemPort,
				Number: 0x10203, OID: bytesOf("2b0601")},
			{Subtype: 6, Address: bytesOf("020000000001"), Numbering: NumberUnknown, OID: []byte{}},
		},
		HasPVID: true, PVID: 100,
		HasMACPHY: true, MACPHY: MACPHY{AutoNegotiation: 3, Advertised: 0x6c01, MAU: 16},
		MaxFrameSize: 9216,
		Organizational: [][]byte{bytesOf("0080c2 01 0064"), bytesOf("00120f 01 03 6c01 0010"),
			bytesOf("00120f 04 2400"), bytesOf("0080c2 0b 8808"), bytesOf("001b21 02")},
		Raw: bytesOf(full), Unrecognized: 2, Recognized: 1, idLength: 9 + 14,
	}
}

func isPFC(value []byte) bool { return string(value[:4]) == "\x00\x80\xc2\x0b" }

func TestDecodeAllTLVs(t *testing.T) {
	want := fullDecoded()
	for _, padding := range []int{0, 1, 5, 700} {
		var got LLDPDU
		if err := got.Decode(append(bytesOf(full), bytes.Repeat([]byte{0xee}, padding)...), isPFC); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes of padding: decoded\n%+v, want\n%+v", padding, got, want)
		}
	}
}

// TestDecodeForgets: an LLDPDU that is decoded into another has nothing of it.
func TestDecodeForgets(t *testing.T) {
	var got, want LLDPDU
	if err := got.Decode(bytesOf(full), nil); err != nil {
		t.Fatal(err)
	}
	for _, u := range []*LLDPDU{&got, &want} {
		if err := u.Decode(bytesOf(mandatory+end), nil); err != nil {
			t.Fatal(err)
		}
	}
	got.Management, got.Organizational = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded\n%+v, want\n%+v", got, want)
	}
}

func TestTLVs(t *testing.T) {
	var u LLDPDU
	if err := u.Decode(bytesOf(full), nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for kind, value := range u.TLVs() {
		got = append(got, fmt.Sprintf("%d %x", kind, value))
	}
	want := []string{"1 040025b5000001", "2 0545746865726e6574312f32", "3 0078", "4 75706c696e", "5 737731",
		"6 4e582d4f530a", "7 00140004", "8 0501c0000201020000000700",
		"8 110220010db80000000000000000000000010300010203032b0601", "8 0706020000000001010000000000"}
	want = append(want, "127 0080c2010064", "127 00120f01036c010010", "127 00120f042400", "127 0080c20b8808",
		"127 001b2102", "9 010203")
	if !slices.Equal(got, want) {
		t.Errorf("TLVs\n%q, want\n%q", got, want)
	}
	for range u.TLVs() {
		break // a loop may end early
	}
}

func TestUnwrap(t *testing.T) {
	const data = "02 02 0741 04 02 0741 06 02 0001 00 00"
	source := [6]byte(bytesOf("00059b000001"))
	for _, c := range []struct {
		name, frame string
		err         error
	}{
		{"untagged", header + data, nil},
		{"tagged with a priority", "0180c200000e 00059b000001 8100 e000 88cc" + data, nil},
		{"tagged with a VLAN", "0180c200000e 00059b000001 8100 e009 88cc" + data, nil},
		{"another group", "0180c2000003 00059b000001 88cc" + data, ErrDestination},
		{"unicast", "00059b000002 00059b000001 88cc" + data, ErrDestination},
		{"another type", "0180c200000e 00059b000001 8809" + data, ErrEtherType},
		{"another type behind a tag", "0180c200000e 00059b000001 8100 e000 8809" + data, ErrEtherType},
		{"two tags", "0180c200000e 00059b000001 8100 e000 8100 e000 88cc" + data, ErrEtherType},
		{"a service tag", "0180c200000e 00059b000001 88a8 e000 88cc" + data, ErrEtherType},
		{"empty", "", ErrEtherType},
		{"only a header", header, nil},
		{"a cut header", header[:len(header)-2], ErrEtherType},
		{"a cut tag", "0180c200000e 00059b000001 8100 e000 88", ErrEtherType},
	} {
		from, got, err := Unwrap(bytesOf(c.frame))
		if err != c.err {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if err == nil && (from != source || c.name != "only a header" && !bytes.Equal(got, bytesOf(data))) {
			t.Errorf("%s: from %x: % x", c.name, from, got)
		}
	}
}

// TestDecodeRefuses lists LLDPDUs that are discarded as a whole.
func TestDecodeRefuses(t *testing.T) {
	const chassis, port, ttl = "02 07 04 0025b5000001", "04 02 05 41", "06 02 0078"
	for _, c := range []struct {
		name, pdu string
		want      error
	}{
		{"nothing", "", ErrOrder},
		{"only an end", end, ErrOrder},
		{"only a chassis ID", chassis + end, ErrOrder},
		{"no TTL", chassis + port + end, ErrOrder},
		{"no port ID", chassis + ttl + end, ErrOrder},
		{"no chassis ID", port + ttl + end, ErrOrder},
		{"port before chassis", port + chassis + ttl + end, ErrOrder},
		{"TTL before port", chassis + ttl + port + end, ErrOrder},
		{"a name before the TTL", chassis + port + "0a 01 41" + ttl + end, ErrOrder},
		{"an end before the TTL", chassis + port + "00 00" + ttl + end, ErrOrder},
		{"chassis ID without subtype", "02 00" + port + ttl + end, ErrChassisID},
		{"chassis ID without value", "02 01 04" + port + ttl + end, ErrChassisID},
		{"chassis ID of 256 bytes", "03 01 07" + long(256) + port + ttl + end, ErrChassisID},
		{"chassis ID of 510 bytes", "03 ff 07" + long(510) + port + ttl + end, ErrChassisID},
		{"port ID without subtype", chassis + "04 00" + ttl + end, ErrPortID},
		{"port ID without value", chassis + "04 01 05" + ttl + end, ErrPortID},
		{"port ID of 256 bytes", chassis + "05 01 07" + long(256) + ttl + end, ErrPortID},
		{"TTL without value", chassis + port + "06 00" + end, ErrTTL},
		{"TTL of 1 byte", chassis + port + "06 01 78" + end, ErrTTL},
		{"second chassis ID", chassis + port + ttl + chassis + end, ErrRepeated},
		{"second port ID", chassis + port + ttl + port + end, ErrRepeated},
		{"second TTL", chassis + port + ttl + ttl + end, ErrRepeated},
		{"second TTL at the end", full[:len(full)-len(end)] + ttl, ErrRepeated},
		{"invalid second chassis ID", chassis + port + ttl + "02 00" + end, ErrRepeated},
		{"chassis ID past the end", "02 ff 04 00", ErrOrder},
		{"port ID past the end", chassis + "04 ff 05 41", ErrOrder},
		{"TTL past the end", chassis + port + "06 03 0078", ErrOrder},
		{"1501 bytes", chassis + port + ttl + end + strings.Repeat("00", 1501-19), ErrTooLong},
	} {
		var u LLDPDU
		if err := u.Decode(bytesOf(c.pdu), nil); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// accepted is an LLDPDU that is not discarded as a whole.
type accepted struct {
	name, pdu string
	change    func(*LLDPDU) // what it has beside the mandatory TLVs, or instead
	errors    map[Error]uint16
}

func (c accepted) check(t *testing.T) {
	t.Helper()
	var got LLDPDU
	if err := got.Decode(bytesOf(c.pdu), nil); err != nil {
		t.Errorf("%s: %v", c.name, err)
		return
	}
	want := LLDPDU{Chassis: ChassisID{ChassisMAC, bytesOf("0025b5000001")},
		Port: PortID{PortInterfaceName, []byte("Ethernet1/2")}, TTL: 120}
	if c.change != nil {
		c.change(&want)
	}
	for e, n := range c.errors {
		want.Errors[e] = n
	}
	want.Raw, want.idLength = got.Raw, got.idLength
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: decoded\n%+v, want\n%+v", c.name, got, want)
	}
	if !bytes.HasPrefix(bytesOf(c.pdu), got.Raw) {
		t.Errorf("%s: % x is not how it starts", c.name, got.Raw)
	}
}

// long returns hexadecimal digits of n bytes.
func long(n int) string { return strings.Repeat("41", n) }

// TestDecodeMandatory: the mandatory TLVs at their limits, and the end.
func TestDecodeMandatory(t *testing.T) {
	for _, c := range []accepted{
		{"no end", mandatory, nil, nil},
		{"1500 bytes", mandatory + end + strings.Repeat("00", 1500-29), nil, nil},
		{"end with a length", mandatory + "00 01 41", nil, map[Error]uint16{ErrLength: 1}},
		{"end past the end", mandatory + "00 09 41", nil, map[Error]uint16{ErrLength: 1}},
		{"TLVs behind the end", mandatory + end + mandatory + end, nil, nil},
		{"chassis ID of 255 bytes", "03 00 07" + long(255) + "04 02 0541 06 02 0078" + end,
			func(u *LLDPDU) {
				u.Chassis, u.Port = ChassisID{7, bytesOf(long(255))}, PortID{5, []byte("A")}
			}, nil},
		{"port ID of 255 bytes", "02 02 0041 05 00 ff" + long(255) + "06 02 0078" + end,
			func(u *LLDPDU) {
				u.Chassis, u.Port = ChassisID{0, []byte("A")}, PortID{255, bytesOf(long(255))}
			}, nil},
		{"TTL of 3 bytes", "02 02 0441 04 02 0541 06 03 ffff00" + end, func(u *LLDPDU) {
			u.Chassis, u.Port, u.TTL = ChassisID{4, []byte("A")}, PortID{5, []byte("A")}, 65535
		}, nil},
		{"shutdown", "02 02 0441 04 02 0541 06 02 0000" + "02 02 0441", func(u *LLDPDU) {
			u.Chassis, u.Port, u.TTL = ChassisID{4, []byte("A")}, PortID{5, []byte("A")}, 0
		}, nil},
	} {
		c.check(t)
	}
}

// TestDecodeTexts: the optional TLVs of the basic set, except management addresses.
func TestDecodeTexts(t *testing.T) {
	name := func(u *LLDPDU) { u.SystemName = []byte("A") }
	for _, c := range []accepted{
		{"one byte of a header", mandatory + "0a", nil, map[Error]uint16{ErrCut: 1}},
		{"a name past the end", mandatory + "0a 02 41", nil, map[Error]uint16{ErrCut: 1}},
		{"a TTL past the end", mandatory + "06 03 0078", nil, map[Error]uint16{ErrCut: 1}},
		{"the longest length, past the end", mandatory + "0a 01 41 ff ff" + long(510), name,
			map[Error]uint16{ErrCut: 1}},

		{"names of 0 bytes", mandatory + "08 00 0a 00 0c 00", func(u *LLDPDU) {
			u.PortDescription, u.SystemName, u.SystemDescription = []byte{}, []byte{}, []byte{}
		}, nil},
		{"names of 255 bytes", mandatory + "08 ff" + long(255) + "0a ff" + long(255) + "0c ff" + long(255),
			func(u *LLDPDU) {
				a := bytesOf(long(255))
				u.PortDescription, u.SystemName, u.SystemDescription = a, a, a
			}, nil},
		{"names of 256 bytes", mandatory + "09 00" + long(256) + "0b 00" + long(256) + "0d 00" + long(256), nil,
			map[Error]uint16{ErrLength: 3}},
		{"two names", mandatory + "0a 01 41 0a 01 42 0a 01 43", name, map[Error]uint16{ErrDuplicate: 2}},
		{"a name after one that is too long", mandatory + "0b 00" + long(256) + "0a 01 41", name,
			map[Error]uint16{ErrLength: 1}},
		{"capabilities of 3 and 5 bytes", mandatory + "0e 03 000400 0e 05 0004000400", nil,
			map[Error]uint16{ErrLength: 2}},
		{"two capabilities", mandatory + "0e 04 0000 0000 0e 04 0004 0004",
			func(u *LLDPDU) { u.HasCapabilities = true }, map[Error]uint16{ErrDuplicate: 1}},
	} {
		c.check(t)
	}
}

func TestDecodeManagementAndOrganizational(t *testing.T) {
	for _, c := range []accepted{
		{"management address without all", mandatory + "10 00", nil, map[Error]uint16{ErrLength: 1}},
		{"management address of 0 bytes", mandatory + "10 08 01 01 02 00000001 00", nil,
			map[Error]uint16{ErrLength: 1}},
		{"management address of 32 bytes", mandatory + "10 28 21 01" + long(32) + "02 00000001 00", nil,
			map[Error]uint16{ErrLength: 1}},
		{"management address without OID length", mandatory + "10 0b 05 01 c0000201 02 00000007", nil,
			map[Error]uint16{ErrLength: 1}},
		{"OID past the TLV", mandatory + "10 0c 05 01 c0000201 02 00000007 01", nil, map[Error]uint16{ErrLength: 1}},
		{"bytes behind the OID", mandatory + "10 0d 05 01 c0000201 02 00000007 00 41", nil,
			map[Error]uint16{ErrLength: 1}},
		{"OID of 129 bytes", mandatory + "10 8d 05 01 c0000201 02 00000007 81" + long(129), nil,
			map[Error]uint16{ErrLength: 1}},
		{"management address of 31 bytes, OID of 128",
			mandatory + "10 a7 20 09" + long(31) + "02 00000001 80" + long(128),
			func(u *LLDPDU) {
				u.Management = []ManagementAddress{{9, bytesOf(long(31)), 2, 1, bytesOf(long(128))}}
			}, nil},

		{"organizational TLVs of 0 and 3 bytes", mandatory + "fe 00 fe 03 0080c2", nil, map[Error]uint16{ErrLength: 2}},
		{"organizational TLV of 511 bytes", mandatory + "ff ff" + long(511), func(u *LLDPDU) {
			u.Organizational, u.Unrecognized = [][]byte{bytesOf(long(511))}, 1
		}, nil},
		{"PVIDs of 1 and 3 bytes", mandatory + "fe 05 0080c201 00 fe 07 0080c201 000100", nil,
			map[Error]uint16{ErrLength: 2}},
		{"MAC/PHY of 4 and 6 bytes", mandatory + "fe 08 00120f01 00000000 fe 0a 00120f01 000000000000", nil,
			map[Error]uint16{ErrLength: 2}},
		{"frame sizes of 1 and 3 bytes", mandatory + "fe 05 00120f04 00 fe 07 00120f04 000100", nil,
			map[Error]uint16{ErrLength: 2}},
		{"two PVIDs", mandatory + "fe 06 0080c201 0000 fe 06 0080c201 0001", func(u *LLDPDU) {
			u.HasPVID, u.Organizational = true, [][]byte{bytesOf("0080c201 0000")}
		}, map[Error]uint16{ErrDuplicate: 1}},
		{"two of all others", mandatory + strings.Repeat("fe 09 00120f01 0000000000 fe 06 00120f04 0001", 2),
			func(u *LLDPDU) {
				u.HasMACPHY, u.MaxFrameSize = true, 1
				u.Organizational = [][]byte{bytesOf("00120f01 0000000000"), bytesOf("00120f04 0001")}
			}, map[Error]uint16{ErrDuplicate: 2}},
		{"two unknown ones", mandatory + "fe 04 00120f02 fe 04 00120f02 fc 00 12 00", func(u *LLDPDU) {
			u.Organizational, u.Unrecognized = [][]byte{bytesOf("00120f02"), bytesOf("00120f02")}, 4
		}, nil},
	} {
		c.check(t)
	}
}

// TestDecodeCut cuts an LLDPDU behind each byte. Where it does not cut a TLV, nothing is wrong; the
// TLVs before the cut count.
func TestDecodeCut(t *testing.T) {
	b := bytesOf(full)
	// The TLVs end at these bytes; the optional ones begin at 27.
	ends := []int{9, 23, 27, 34, 39, 47, 53, 67, 96, 112, 120, 131, 139, 147, 153, 158, 160}
	if ends[len(ends)-1] != len(b) {
		t.Fatalf("the LLDPDU has %d bytes", len(b))
	}
	for n := range b {
		var u LLDPDU
		err := u.Decode(b[:n:n], nil)
		if n < 27 {
			if err != ErrOrder {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		wantCut, before := uint16(1), 0
		for i, e := range ends {
			if e == n {
				wantCut = 0
			}
			if e <= n {
				before = i + 1
			}
		}
		if n == 159 {
			wantCut = 1 // of the End TLV
		}
		tlvs := 0
		for range u.TLVs() {
			tlvs++
		}
		if err != nil || u.Errors[ErrCut] != wantCut || tlvs != before || len(u.Raw) != n {
			t.Errorf("%d bytes: %v, errors %v, %d TLVs, want %d", n, err, u.Errors, tlvs, before)
		}
		addresses := 0
		for _, e := range []int{67, 96, 112} {
			if e <= n {
				addresses++
			}
		}
		if u.HasPVID != (n >= 120) || u.HasMACPHY != (n >= 131) || len(u.Management) != addresses {
			t.Errorf("%d bytes: %+v", n, u)
		}
	}
}

// TestDecodeLengthsThatLie writes each possible length into the header of each TLV. Decode must
// never go beyond the LLDPDU: b has no capacity behind it, so this would panic.
func TestDecodeLengthsThatLie(t *testing.T) {
	b := bytesOf(full)
	for _, at := range []int{0, 9, 23, 27, 34, 39, 47, 53, 67, 96, 112, 120, 131, 139, 147, 153, 158} {
		for length := range 1 << 9 {
			lie := slices.Clip(bytes.Clone(b))
			lie[at], lie[at+1] = lie[at]&^1|byte(length>>8), byte(length)
			var got LLDPDU
			err := got.Decode(lie, isPFC)
			if want, wantErr := reference(lie); err != wantErr || err == nil && !want.same(&got) {
				t.Fatalf("length %d at %d: %v, %+v\nwant %v, %+v", length, at, err, got, wantErr, want)
			}
		}
	}
}
