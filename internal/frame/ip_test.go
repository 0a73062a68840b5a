package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"
)

// packet is an IP packet in a frame, written by gopacket.
type packet struct {
	version int
	class   uint8 // DSCP and ECN
	options int   // IPv4: words of options
	tagged  bool
	payload []byte
}

func drawPacket(t *rapid.T) packet {
	return packet{
		version: rapid.SampledFrom([]int{4, 6}).Draw(t, "version"),
		class:   rapid.Uint8().Draw(t, "class"),
		options: rapid.IntRange(0, 10).Draw(t, "options"),
		tagged:  rapid.Bool().Draw(t, "tagged"),
		payload: rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "payload"),
	}
}

// bytes returns the frame, with its checksum.
func (p packet) bytes(t interface{ Fatal(...any) }) []byte {
	eth := &layers.Ethernet{DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}}
	etherType := layers.EthernetTypeIPv4
	var ip gopacket.SerializableLayer = &layers.IPv4{
		Version: 4, TOS: p.class, TTL: 64, Id: binary.BigEndian.Uint16(append(p.payload, 7, 9)),
		Protocol: layers.IPProtocolUDP,
		SrcIP:    net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}, Options: p.ipOptions(),
	}
	if p.version == 6 {
		etherType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{
			Version: 6, TrafficClass: p.class, FlowLabel: 0xfaced, HopLimit: 64, NextHeader: layers.IPProtocolUDP,
			SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2"),
		}
	}
	stack := []gopacket.SerializableLayer{eth}
	eth.EthernetType = etherType
	if p.tagged {
		eth.EthernetType = layers.EthernetTypeDot1Q
		stack = append(stack, &layers.Dot1Q{VLANIdentifier: 2094, Priority: 3, Type: etherType})
	}
	out := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(out, options, append(stack, ip, gopacket.Payload(p.payload))...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(out.Bytes())
}

// ipOptions returns words of "no operation" (RFC 791).
func (p packet) ipOptions() (o []layers.IPv4Option) {
	for range 4 * p.options {
		o = append(o, layers.IPv4Option{OptionType: 1, OptionLength: 1})
	}
	return o
}

// classOf returns the traffic class that gopacket reads.
func classOf(b []byte) (class uint8, ok bool) {
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	if ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok {
		return ip.TOS, true
	}
	if ip, ok := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6); ok {
		return ip.TrafficClass, true
	}
	return 0, false
}

// sumOf returns the checksum field of an IPv4 header and the result of a full computation (RFC 791,
// 1071).
func sumOf(b []byte) (field, want uint16) {
	var h Header
	Parse(b, &h)
	header := b[h.Payload:][:4*int(b[h.Payload]&15)]
	sum := 0
	for i := 0; i < len(header); i += 2 {
		if i != 10 {
			sum += int(header[i])<<8 + int(header[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return binary.BigEndian.Uint16(header[10:]), ^uint16(sum)
}

// change changes the traffic class of a frame; want returns the class that it should then have.
type change struct {
	name  string
	apply func(b []byte) bool
	want  func(class uint8) (uint8, bool)
}

func drawChange(t *rapid.T) change {
	dscp := rapid.Uint8().Draw(t, "dscp")
	return rapid.SampledFrom([]change{
		{fmt.Sprintf("SetDSCP(%d)", dscp), func(b []byte) bool { return SetDSCP(b, dscp) },
			func(class uint8) (uint8, bool) { return dscp&63<<2 | class&3, true }},
		{"MarkCE", MarkCE, func(class uint8) (uint8, bool) {
			if class&3 == 0 {
				return class, false
			}
			return class | 3, true
		}},
	}).Draw(t, "change")
}

// TestTrafficClass: the class changes as requested, gopacket reads it, IPv4's checksum equals a
// full computation, and nothing else in the frame changes.
func TestTrafficClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawPacket(t), drawChange(t)
		b := p.bytes(t)
		class, ok := c.want(p.class)
		if got := c.apply(b); got != ok {
			t.Fatalf("%s of class %02x: %v", c.name, p.class, got)
		}
		if got, ok := classOf(b); !ok || got != class {
			t.Fatalf("%s of class %02x: %02x, want %02x", c.name, p.class, got, class)
		}
		p.class = class
		if want := p.bytes(t); !bytes.Equal(b, want) {
			t.Fatalf("%s:\n% x, want\n% x", c.name, b, want)
		}
		if p.version == 4 {
			if field, want := sumOf(b); field != want {
				t.Fatalf("%s: checksum %04x, computed in full %04x", c.name, field, want)
			}
		}
	})
}

// TestWrongChecksumStaysWrong: a checksum stays wrong by the same amount, so that damage done
// upstream is still detected.
func TestWrongChecksumStaysWrong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawPacket(t), drawChange(t)
		p.version = 4
		b := p.bytes(t)
		at := 24
		if p.tagged {
			at += TagLength
		}
		wrong := rapid.Uint16Range(1, 0xfffe).Draw(t, "wrong by")
		binary.BigEndian.PutUint16(b[at:], binary.BigEndian.Uint16(b[at:])+wrong)
		before, should := sumOf(b)
		c.apply(b)
		after, shouldNow := sumOf(b)
		distance := func(a, b uint16) int { return (int(a) - int(b) + 2*0xffff) % 0xffff }
		if distance(before, should) != distance(after, shouldNow) {
			t.Fatalf("%s: %04x for %04x became %04x for %04x", c.name, before, should, after, shouldNow)
		}
	})
}

func TestMarkCE(t *testing.T) {
	for _, version := range []int{4, 6} {
		for _, tagged := range []bool{false, true} {
			for ecn, marked := range map[uint8]bool{notECT: false, 1: true, 2: true, ce: true} {
				p := packet{version: version, class: 26<<2 | ecn, tagged: tagged}
				b := p.bytes(t)
				got := MarkCE(b)
				want := p.class
				if marked {
					want = 26<<2 | ce
				}
				if class, _ := classOf(b); got != marked || class != want {
					t.Errorf("IPv%d, tagged %v, ECN %d: %v, class %02x; want %v, %02x", version, tagged, ecn, got,
						class, marked, want)
				}
			}
		}
	}
	for _, s := range []string{"", addresses + "8906 45ff", addresses + "8100 0001 8100 0002 0800" + "4501"} {
		b := append(bytesOf(s), make([]byte, 60)...)
		if MarkCE(b) || SetDSCP(b, 1) {
			t.Errorf("%s: marked", s)
		}
	}
}

// FuzzTrafficClass passes arbitrary bytes to the functions that change the traffic class. None
// panics, frames that are IP to gopacket get the requested class, and only the class and IPv4's
// checksum change.
func FuzzTrafficClass(f *testing.F) {
	for _, p := range []packet{
		{version: 4, class: 1}, {version: 6, class: 0xb9, tagged: true},
		{version: 4, options: 3, class: 2, tagged: true},
	} {
		f.Add(p.bytes(f), uint8(46))
	}
	f.Add(bytesOf(addresses+"0800"), uint8(0))
	f.Add(bytesOf(addresses+"8100"), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, dscp uint8) {
		before := bytes.Clone(b)
		_, oracleDSCP, _ := oracle(b)
		marked, set := MarkCE(b), SetDSCP(b, dscp)
		if !set && (oracleDSCP >= 0 || marked || !bytes.Equal(b, before)) {
			t.Fatalf("% x, DSCP %d to gopacket, became % x", before, oracleDSCP, b)
		}
		if !set {
			return
		}
		var h Header
		Parse(before, &h)
		if got, ok := DSCP(b, &h); !ok || got != dscp&63 {
			t.Fatalf("% x: DSCP %d %v, want %d", b, got, ok, dscp&63)
		}
		ip := int(h.Payload)
		masked := []int{ip, ip + 1}
		if h.Type == TypeIPv4 {
			masked = []int{ip + 1, ip + 10, ip + 11}
		}
		if h.Type == TypeIPv6 && ((b[ip]^before[ip])&0xf0 != 0 || (b[ip+1]^before[ip+1])&0x0f != 0) {
			t.Fatal("version or flow label changed")
		}
		for _, i := range masked {
			b[i], before[i] = 0, 0
		}
		if !bytes.Equal(b, before) {
			t.Fatalf("% x became % x", before, b)
		}
	})
}

func TestRewritingAllocatesNothing(t *testing.T) {
	p := packet{version: 4, class: 1}
	b := append(make([]byte, TagLength), p.bytes(t)...)
	if allocs := testing.AllocsPerRun(100, func() {
		Push(b, 100, 3)
		SetVID(b, 5)
		SetPCP(b, 1)
		SetDSCP(b, 46)
		MarkCE(b)
		if Pop(b) == 0 { // it was short: the content has moved, so move it back
			copy(b[TagLength:], b)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkMarkCE(b *testing.B) {
	f := packet{version: 4, class: 2, tagged: true}.bytes(b)
	for b.Loop() {
		if !MarkCE(f) {
			b.Fatal("not marked")
		}
	}
}

func BenchmarkPushPop(b *testing.B) {
	f := make([]byte, 100)
	for b.Loop() {
		Push(f, 2094, 3)
		Pop(f)
	}
}
