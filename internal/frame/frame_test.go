package frame

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"
)

// bytesOf decodes hex with spaces.
func bytesOf(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

const (
	addresses = "01005e0000fb 02005e100001 "
	dst, src  = MAC(0x01005e0000fb), MAC(0x02005e100001)
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		problem     Problem
		want        Header
	}{
		{"untagged", addresses + "0800 45", OK, Header{Dst: dst, Src: src, Type: TypeIPv4, Payload: 14}},
		{"header only", addresses + "8808", OK, Header{Dst: dst, Src: src, Type: TypeMACControl, Payload: 14}},
		{"802.3 length", addresses + "0026 4242", OK, Header{Dst: dst, Src: src, Type: 38, Payload: 14}},
		{"tagged", addresses + "8100 7064 8906 00", OK,
			Header{Dst: dst, Src: src, Type: TypeFCoE, VID: 100, PCP: 3, DEI: true, Tagged: true, Payload: 18}},
		{"priority tag", addresses + "8100 e000 86dd", OK,
			Header{Dst: dst, Src: src, Type: TypeIPv6, PCP: 7, Tagged: true, Payload: 18}},
		{"highest VID", addresses + "8100 0ffe 88cc", OK,
			Header{Dst: dst, Src: src, Type: TypeLLDP, VID: 4094, Tagged: true, Payload: 18}},
		{"second tag is payload", addresses + "8100 0001 8100 0fff 0800", OK,
			Header{Dst: dst, Src: src, Type: TypeVLAN, VID: 1, Tagged: true, Payload: 18}},
		{"S-tag is a type with a priority", addresses + "88a8 b064 8100 0fff 0800", STagged,
			Header{Dst: dst, Src: src, Type: TypeSTag, PCP: 5, DEI: true, Payload: 14}},
		{"S-tag behind a C-tag is a type", addresses + "8100 6001 88a8 0fff", OK,
			Header{Dst: dst, Src: src, Type: TypeSTag, VID: 1, PCP: 3, Tagged: true, Payload: 18}},
		{"other tags are types", addresses + "9100 b064 0800", OK,
			Header{Dst: dst, Src: src, Type: 0x9100, Payload: 14}},
		{"empty", "", Runt, Header{}},
		{"13 bytes", addresses + "08", Runt, Header{}},
		{"tag without content", addresses + "8100", BadTag, Header{}},
		{"tag without all of its type", addresses + "8100 0001 08", BadTag, Header{}},
		{"S-tag without content", addresses + "88a8", BadTag, Header{}},
		{"S-tag without all of its type", addresses + "88a8 0001 08", BadTag, Header{}},
		{"reserved VID of an S-tag", addresses + "88a8 0fff 0800", BadTag, Header{}},
		{"reserved VID", addresses + "8100 0fff 0800", BadTag, Header{}},
	} {
		h := Header{VID: 9, PCP: 9, DEI: true, Tagged: true, Payload: 9} // of the frame before
		problem := Parse(bytesOf(c.frame), &h)
		if problem != c.problem {
			t.Errorf("%s: %v, want %v", c.name, problem, c.problem)
		} else if (problem == OK || problem == STagged) && h != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, h, c.want)
		}
	}
}

func TestDSCP(t *testing.T) {
	zeros := strings.Repeat("00", 38)
	for _, c := range []struct {
		name, frame string
		dscp        uint8
		ok          bool
	}{
		{"IPv4 EF", addresses + "0800 45b8" + zeros[:36], 46, true},
		{"IPv4 CS3 with ECN, tagged", addresses + "8100 6064 0800 4563" + zeros[:36], 24, true},
		{"IPv6 AF41", addresses + "86dd 6880" + zeros + zeros[:4], 34, true},
		{"IPv6 all ones, tagged", addresses + "8100 6064 86dd 6ff0" + zeros + zeros[:4], 63, true},
		{"IPv4 cut short", addresses + "0800 45b8" + zeros[:34], 0, false},
		{"IPv6 cut short", addresses + "86dd 6880" + zeros[:74], 0, false},
		{"IPv4 of version 6", addresses + "0800 65b8" + zeros, 0, false},
		{"IPv6 of version 4", addresses + "86dd 4880" + zeros, 0, false},
		{"FCoE", addresses + "8906 45b8" + zeros, 0, false},
		{"no payload", addresses + "0800", 0, false},
	} {
		b := bytesOf(c.frame)
		var h Header
		if p := Parse(b, &h); p != OK {
			t.Fatalf("%s: %v", c.name, p)
		}
		if dscp, ok := DSCP(b, &h); dscp != c.dscp || ok != c.ok {
			t.Errorf("%s: %d %v, want %d %v", c.name, dscp, ok, c.dscp, c.ok)
		}
	}
}

func TestPutHeaderParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Header{
			Dst:     drawMAC(t, "dst"),
			Src:     drawMAC(t, "src"),
			Type:    rapid.Uint16().Draw(t, "type"),
			Payload: 14,
		}
		if want.Tagged = rapid.Bool().Draw(t, "tagged"); want.Tagged {
			want.VID = rapid.Uint16Range(0, 4094).Draw(t, "vid")
			want.PCP = rapid.Uint8Range(0, 7).Draw(t, "pcp")
			want.Payload = 18
		} else if want.Type == TypeVLAN || want.Type == TypeSTag {
			want.Type = TypeIPv4 // 0x8100 as the type would be a truncated tag, not a header
		}
		b := make([]byte, 20)
		n := PutHeader(b, want.Dst, want.Src, want.VID, want.PCP, want.Tagged, want.Type)
		if n != int(want.Payload) || b[n] != 0 || b[n+1] != 0 {
			t.Fatalf("%d bytes written, want %d: % x", n, want.Payload, b)
		}
		var got Header
		if p := Parse(b[:n], &got); p != OK || got != want {
			t.Fatalf("%v %+v, want %+v", p, got, want)
		}
	})
}

// TestPutHeaderCutsOff: a field that is too wide does not affect its neighbours.
func TestPutHeaderCutsOff(t *testing.T) {
	b := make([]byte, 18)
	PutHeader(b, dst, src, 0xf064, 0xfb, true, TypeFCoE)
	want := Header{Dst: dst, Src: src, Type: TypeFCoE, VID: 100, PCP: 3, Tagged: true, Payload: 18}
	var h Header
	if p := Parse(b, &h); p != OK || h != want {
		t.Errorf("%v %+v, want %+v", p, h, want)
	}
}

// oracle decodes b with gopacket. The header is what Parse should find; dscp is -1 if gopacket
// finds none.
func oracle(b []byte) (h Header, dscp int, problem Problem) {
	var eth layers.Ethernet
	var tag layers.Dot1Q
	if eth.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil {
		return h, -1, Runt
	}
	h = Header{Dst: MACFrom(eth.DstMAC), Src: MACFrom(eth.SrcMAC), Type: uint16(eth.EthernetType),
		Payload: uint8(len(eth.Contents))}
	payload := eth.Payload
	if eth.EthernetType == layers.EthernetTypeLLC { // gopacket's name for a length in place of Type
		h.Type = eth.Length
	}
	switch eth.EthernetType {
	case layers.EthernetTypeDot1Q, layers.EthernetTypeQinQ:
		if tag.DecodeFromBytes(payload, gopacket.NilDecodeFeedback) != nil || tag.VLANIdentifier == 4095 {
			return h, -1, BadTag
		}
	}
	switch eth.EthernetType {
	case layers.EthernetTypeQinQ:
		h.PCP, h.DEI, problem = tag.Priority, tag.DropEligible, STagged
	case layers.EthernetTypeDot1Q:
		h.VID, h.PCP, h.DEI, h.Tagged = tag.VLANIdentifier, tag.Priority, tag.DropEligible, true
		h.Type = uint16(tag.Type)
		h.Payload += uint8(len(tag.Contents))
		payload = tag.Payload
	}
	return h, oracleDSCP(h.Type, payload), problem
}

func oracleDSCP(etherType uint16, payload []byte) int {
	var ip4 layers.IPv4
	var ip6 layers.IPv6
	switch {
	case etherType == TypeIPv4 && ip4.DecodeFromBytes(payload, gopacket.NilDecodeFeedback) == nil && ip4.Version == 4:
		return int(ip4.TOS >> 2)
	case etherType == TypeIPv6 && ip6.DecodeFromBytes(payload, gopacket.NilDecodeFeedback) == nil && ip6.Version == 6:
		return int(ip6.TrafficClass >> 2)
	}
	return -1
}

// FuzzParse checks that no frame makes Parse or DSCP panic, and that gopacket reads the same.
func FuzzParse(f *testing.F) {
	zeros := strings.Repeat("00", 38)
	for _, s := range []string{
		"", addresses, addresses + "8808 0101", addresses + "8100 7064 8906", addresses + "8100 0fff 0800",
		addresses + "88a8 7064 8100 0001 0800", addresses + "88a8 0fff 0800", addresses + "88a8 00",
		addresses + "0003 424203", addresses + "0000", addresses + "8100 0001 0002 4242",
		addresses + "0800 4560 0014" + zeros[:32], addresses + "8100 6001 86dd 6fb0" + zeros + zeros[:4],
	} {
		f.Add(bytesOf(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		problem := Parse(b, &h)
		want, wantDSCP, wantProblem := oracle(b)
		if problem != wantProblem {
			t.Fatalf("% x: %v, gopacket says %v", b, problem, wantProblem)
		}
		if problem != OK && problem != STagged {
			return
		}
		if h != want {
			t.Fatalf("% x: %+v, gopacket %+v", b, h, want)
		}
		dscp, ok := DSCP(b, &h)
		if wantDSCP >= 0 && (!ok || int(dscp) != wantDSCP) {
			t.Fatalf("% x: DSCP %d %v, gopacket %d", b, dscp, ok, wantDSCP)
		}
		if ok && h.Type != TypeIPv4 && h.Type != TypeIPv6 {
			t.Fatalf("% x: DSCP %d of type %04x", b, dscp, h.Type)
		}
		roundTrip(t, b, &h)
	})
}

// roundTrip checks that PutHeader writes what Parse read; PutHeader can't write a DEI.
func roundTrip(t *testing.T, b []byte, h *Header) {
	again := make([]byte, 18)
	n := PutHeader(again, h.Dst, h.Src, h.VID, h.PCP, h.Tagged, h.Type)
	if h.DEI && h.Tagged {
		again[14] |= 0x10
	}
	if string(again[:n]) != string(b[:n]) {
		t.Fatalf("% x written again: % x", b[:n], again[:n])
	}
}

func TestProblemNames(t *testing.T) {
	for p, want := range map[Problem]string{OK: "ok", Runt: "runt", BadTag: "bad_tag", STagged: "s_tag"} {
		if p.String() != want {
			t.Errorf("%d: %q, want %q", p, p, want)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	b := make([]byte, 64)
	var h Header
	if allocs := testing.AllocsPerRun(100, func() {
		PutHeader(b, Broadcast, src, 100, 3, true, TypeIPv4)
		Parse(b, &h)
		DSCP(b, &h)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkParse(b *testing.B) {
	for name, etherType := range map[string]uint16{"untagged": TypeFCoE, "S-tagged": TypeSTag, "tagged": TypeFCoE} {
		b.Run(name, func(b *testing.B) {
			f := make([]byte, 64)
			PutHeader(f, dst, src, 100, 3, name == "tagged", etherType)
			var h Header
			for b.Loop() {
				Parse(f, &h)
			}
		})
	}
}

func BenchmarkDSCP(b *testing.B) {
	f := make([]byte, 64)
	n := PutHeader(f, dst, src, 100, 3, true, TypeIPv4)
	f[n], f[n+1] = 0x45, 0xb8
	var h Header
	Parse(f, &h)
	for b.Loop() {
		DSCP(f, &h)
	}
}

func BenchmarkPutHeader(b *testing.B) {
	f := make([]byte, 64)
	for b.Loop() {
		PutHeader(f, dst, src, 100, 3, true, TypeFCoE)
	}
}
