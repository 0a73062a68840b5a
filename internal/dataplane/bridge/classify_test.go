package bridge

import (
	"encoding/binary"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// sample describes a frame. gopacket, an independent codec, builds and decodes it.
type sample struct {
	tagged   bool
	vid      uint16
	pcp      uint8
	ip       int // version; 0: another protocol
	class    uint8
	src, dst frame.MAC
	payload  []byte
}

func drawSample(t *rapid.T) sample {
	return sample{
		src: alice, dst: bob,
		tagged: rapid.Bool().Draw(t, "tagged"), vid: rapid.Uint16Range(0, 4094).Draw(t, "vid"),
		pcp: rapid.Uint8Range(0, 7).Draw(t, "pcp"),
		ip:  rapid.SampledFrom([]int{0, 4, 6}).Draw(t, "ip"), class: rapid.Uint8().Draw(t, "class"),
		payload: rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(t, "payload"),
	}
}

// bytes returns the frame, padded to Ethernet's 60 bytes.
func (s sample) bytes() []byte {
	src, dst := s.src.Bytes(), s.dst.Bytes()
	eth := &layers.Ethernet{SrcMAC: src[:], DstMAC: dst[:]}
	inner := layers.EthernetType(frame.TypeFCoE)
	var stack []gopacket.SerializableLayer
	switch s.ip {
	case 4:
		inner = layers.EthernetTypeIPv4
		stack = append(stack, &layers.IPv4{
			Version: 4, TOS: s.class, TTL: 9, Protocol: layers.IPProtocolUDP, SrcIP: []byte{10, 0, 0, 1},
			DstIP: []byte{10, 0, 0, 2},
		})
	case 6:
		inner = layers.EthernetTypeIPv6
		stack = append(stack, &layers.IPv6{
			Version: 6, TrafficClass: s.class, FlowLabel: 0x12345, HopLimit: 9, NextHeader: layers.IPProtocolUDP,
			SrcIP: make([]byte, 16), DstIP: make([]byte, 16),
		})
	}
	eth.EthernetType = inner
	if s.tagged {
		eth.EthernetType = layers.EthernetTypeDot1Q
		tag := &layers.Dot1Q{VLANIdentifier: s.vid, Priority: s.pcp, Type: inner}
		stack = append([]gopacket.SerializableLayer{tag}, stack...)
	}
	stack = append([]gopacket.SerializableLayer{eth}, append(stack, gopacket.Payload(s.payload))...)
	b := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, options, stack...); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func header(b []byte) *frame.Header {
	var h frame.Header
	if p := frame.Parse(b, &h); p != frame.OK {
		panic(p.String())
	}
	return &h
}

func drawClassifier(t *rapid.T) Classifier {
	c := Classifier{
		Trust:   rapid.SampledFrom([]Trust{TrustPCP, TrustDSCP, TrustNothing}).Draw(t, "trust"),
		Default: rapid.Uint8Range(0, 7).Draw(t, "default"),
	}
	copy(c.PCP[:], rapid.SliceOfN(rapid.Uint8Range(0, 7), 8, 8).Draw(t, "PCP map"))
	copy(c.DSCP[:], rapid.SliceOfN(rapid.Uint8Range(0, 7), 64, 64).Draw(t, "DSCP map"))
	return c
}

func TestCoS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := drawSample(t), drawClassifier(t)
		want := c.Default
		switch {
		case c.Trust == TrustNothing:
		case c.Trust == TrustDSCP && s.ip != 0:
			want = c.DSCP[s.class/4]
		case s.tagged:
			want = c.PCP[s.pcp]
		}
		b := s.bytes()
		if got := c.CoS(b, header(b)); got != want {
			t.Fatalf("%+v of %+v: class %d, want %d", c, s, got, want)
		}
	})
}

func TestPlainClassifier(t *testing.T) {
	c := *mustNew(t, Params{Ports: make([]PortParams, 1)}).Classifier(0) // the zero value stands for it
	if c != PlainClassifier() {
		t.Errorf("%+v", c)
	}
	for pcp := range uint8(8) {
		b := sample{tagged: true, pcp: pcp, ip: 4, class: 0xff}.bytes()
		if got := c.CoS(b, header(b)); got != pcp {
			t.Errorf("PCP %d: class %d", pcp, got)
		}
	}
	if b := (sample{ip: 4, class: 0xff}).bytes(); c.CoS(b, header(b)) != 0 {
		t.Error("an untagged frame isn't of class 0")
	}
	c.Trust = TrustDSCP
	for dscp, want := range map[uint8]uint8{0: 0, 8: 1, 26: 3, 24: 3, 46: 5, 48: 6, 63: 7} { // CS1, AF31, CS3, EF, CS6
		b := sample{ip: 6, class: dscp << 2}.bytes()
		if got := c.CoS(b, header(b)); got != want {
			t.Errorf("DSCP %d: class %d, want %d", dscp, got, want)
		}
	}
}

// TestSTagCoS: the PCP of the S-tag counts, whatever follows it. Only some ports take such frames.
func TestSTagCoS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := drawSample(t), drawClassifier(t)
		pcp := rapid.Uint8Range(0, 7).Draw(t, "PCP of the S-tag")
		c.STags = rapid.Bool().Draw(t, "takes S-tags")
		b := append(make([]byte, frame.TagLength), s.bytes()...)
		frame.Push(b, 100, pcp)
		binary.BigEndian.PutUint16(b[12:], frame.TypeSTag)
		want := c.PCP[pcp]
		if c.Trust == TrustNothing {
			want = c.Default
		}
		var h frame.Header
		if p := frame.Parse(b, &h); p != frame.STagged || c.Takes(p) != c.STags {
			t.Fatalf("% x: %v, taken: %t", b, p, c.Takes(p))
		}
		if !c.Takes(frame.OK) || c.Takes(frame.Runt) {
			t.Fatal("takes a runt, or nothing")
		}
		if got := c.Class(b, &h); got != want {
			t.Fatalf("%+v of %+v with an S-tag of PCP %d: class %d, want %d", c, s, pcp, got, want)
		}
	})
}

// TestFloodQueues compares with table 10-10 of the vendor's guide, row by row.
func TestFloodQueues(t *testing.T) {
	flood := FloodQueues()
	for queue, classes := range map[uint8][]int{0: {0}, 1: {1, 2, 3}, 2: {4, 5}, 6: {6, 7}} {
		for _, cos := range classes {
			if flood[cos] != queue {
				t.Errorf("class %d: queue %d, want %d", cos, flood[cos], queue)
			}
		}
	}
	for cos, queue := range UnicastQueues() {
		if int(queue) != cos {
			t.Errorf("unicast of class %d: queue %d", cos, queue)
		}
	}
}

func FuzzCoS(f *testing.F) {
	f.Add(sample{tagged: true, ip: 4, class: 0xb8}.bytes(), uint8(TrustDSCP))
	f.Add(sample{ip: 6, class: 0x68}.bytes(), uint8(TrustDSCP))
	f.Add(sample{tagged: true, pcp: 5}.bytes()[:18], uint8(TrustPCP))
	f.Fuzz(func(t *testing.T, b []byte, trust uint8) {
		var h frame.Header
		if frame.Parse(b, &h) != frame.OK {
			return
		}
		c := PlainClassifier()
		c.Trust, c.Default = Trust(trust%3), 4
		if cos := c.CoS(b, &h); cos > 7 || c.Trust == TrustNothing && cos != 4 {
			t.Fatalf("% x: class %d", b, cos)
		}
	})
}

func BenchmarkCoS(b *testing.B) {
	for name, c := range map[string]Classifier{"PCP": {}, "untagged": {}, "DSCP": {Trust: TrustDSCP}} {
		b.Run(name, func(b *testing.B) {
			f := sample{tagged: name != "untagged", ip: 4, class: 0xb8}.bytes()
			h := header(f)
			for b.Loop() {
				c.CoS(f, h)
			}
		})
	}
}
