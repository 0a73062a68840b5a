package frame

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"
)

// tagOf decodes the tag of a frame with gopacket; nil if it has none.
func tagOf(b []byte) *layers.Dot1Q {
	packet := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	tag, _ := packet.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q)
	return tag
}

// drawFrame draws a frame of 14 to 100 bytes whose type is not that of a tag.
func drawFrame(t *rapid.T) []byte {
	b := rapid.SliceOfN(rapid.Byte(), headerLength, 100).Draw(t, "frame")
	if b[12] == TypeVLAN>>8 {
		b[12] = TypeIPv4 >> 8
	}
	return b
}

func TestPushThenPop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := drawFrame(t)
		vid, pcp := rapid.Uint16Range(0, 4094).Draw(t, "vid"), rapid.Uint8Range(0, 7).Draw(t, "pcp")
		b := append(make([]byte, TagLength), plain...)
		Push(b, vid, pcp)
		want := slices.Concat(plain[:12], []byte{0x81, 0, pcp<<5 | byte(vid>>8), byte(vid)}, plain[12:])
		if !bytes.Equal(b, want) {
			t.Fatalf("pushed: % x\nwant:   % x", b, want)
		}
		// Pop leaves the frame, with zeros behind it if it would be too short for Ethernet.
		if len(plain) < minLength {
			plain = append(plain, 0, 0, 0, 0)
		}
		if got := b[Pop(b):]; !bytes.Equal(got, plain) {
			t.Fatalf("popped: % x\nwant:   % x", got, plain)
		}
	})
}

// TestPopKeepsFramesLongEnough: no frame gets shorter than 60 bytes without FCS, the shortest that
// may be sent.
func TestPopKeepsFramesLongEnough(t *testing.T) {
	for length := headerLength + TagLength; length <= 80; length++ {
		b := make([]byte, length, length+8)
		PutHeader(b, dst, src, 9, 1, true, TypeFCoE)
		copy(b[length:cap(b)], "what came") // left by an earlier frame in the buffer: must not be sent
		for i := 18; i < length; i++ {
			b[i] = byte(i)
		}
		start := Pop(b)
		got := b[start:]
		want := length
		if length-TagLength >= minLength {
			want -= TagLength
		}
		if len(got) != want {
			t.Errorf("%d bytes: %d after Pop, want %d", length, len(got), want)
		}
		var h Header
		if Parse(got, &h); h.Dst != dst || h.Src != src || h.Type != TypeFCoE || h.Tagged {
			t.Errorf("%d bytes: %+v", length, h)
		}
		content := append([]byte(nil), got[14:]...)
		for i := range content {
			want := byte(i + 18)
			if i+18 >= length {
				want = 0
			}
			if content[i] != want {
				t.Fatalf("%d bytes: content % x", length, content)
			}
		}
	}
}

func TestPushCutsOff(t *testing.T) {
	b := make([]byte, 20)
	Push(b, 0xf064, 0xfb)
	if tag := tagOf(b); tag == nil || tag.VLANIdentifier != 100 || tag.Priority != 3 || tag.DropEligible {
		t.Errorf("%+v", tag)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic without room for a header and a tag")
		}
	}()
	Push(b[:17], 1, 1)
}

// TestChangesInTheTag: each setter changes only its own bits.
func TestChangesInTheTag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := append(make([]byte, TagLength), drawFrame(t)...)
		Push(b, rapid.Uint16().Draw(t, "old vid"), rapid.Uint8().Draw(t, "old pcp"))
		b[14] ^= rapid.SampledFrom([]byte{0, 0x10}).Draw(t, "DEI")
		before := *tagOf(b)
		rest := slices.Concat(b[:14], b[16:])
		vid, pcp := rapid.Uint16().Draw(t, "vid"), rapid.Uint8().Draw(t, "pcp")
		SetVID(b, vid)
		check := func(vid uint16, pcp uint8) {
			tag := tagOf(b)
			if tag.VLANIdentifier != vid&0xfff || tag.Priority != pcp&7 || tag.DropEligible != before.DropEligible {
				t.Fatalf("VID %d, PCP %d: %+v, before %+v", vid, pcp, tag, before)
			}
		}
		check(vid, before.Priority)
		SetPCP(b, pcp)
		check(vid, pcp)
		if !bytes.Equal(slices.Concat(b[:14], b[16:]), rest) {
			t.Fatal("more than the tag changed")
		}
	})
}

// FuzzTag passes arbitrary bytes to the functions that change tags. None panics, a new tag changes
// nothing else, frames without a tag stay as they are, and gopacket reads the same behind a tag
// before and after its removal.
func FuzzTag(f *testing.F) {
	for _, s := range []string{
		"", addresses, addresses + "8100 7064", addresses + "8100 7064 8906", addresses + "8100 6fff 8100 0001 0800",
		addresses + "0800 4500",
	} {
		f.Add(bytesOf(s), uint16(5), uint8(3))
		f.Add(append(bytesOf(s), make([]byte, 60)...), uint16(5), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, vid uint16, pcp uint8) {
		before := bytes.Clone(b)
		if len(b) >= headerLength {
			pushed := append(make([]byte, TagLength), b...)
			Push(pushed, vid, pcp)
			if !Tagged(pushed) || !bytes.Equal(slices.Concat(pushed[:12], pushed[16:]), b) {
				t.Fatalf("% x with a tag: % x", b, pushed)
			}
		}
		tagged := Tagged(b)
		if want := len(b) >= 18 && b[12] == 0x81 && b[13] == 0; tagged != want {
			t.Fatalf("% x: tagged %v", b, tagged)
		}
		SetVID(b, vid)
		SetPCP(b, pcp)
		if !tagged {
			if Pop(b) != 0 || !bytes.Equal(b, before) {
				t.Fatalf("% x without a tag became % x", before, b)
			}
			return
		}
		if tag := tagOf(b); tag == nil || tag.VLANIdentifier != vid&0xfff || tag.Priority != pcp&7 {
			t.Fatalf("% x: %+v, want VLAN %d, PCP %d", b, tag, vid&0xfff, pcp&7)
		}
		got := b[Pop(b):]
		if want := slices.Concat(before[:12], before[16:]); !bytes.HasPrefix(got, want) {
			t.Fatalf("% x popped: % x", before, got)
		}
	})
}

func TestInnermost(t *testing.T) {
	tags := func(n int) string { return strings.Repeat("8100 000a ", n) }
	for _, c := range []struct {
		name, frame string
		want        uint16
		ok          bool
	}{
		{"untagged", addresses + "8906 00", TypeFCoE, true},
		{"C-tag", addresses + "8100 7064 8906 00", TypeFCoE, true},
		{"two C-tags", addresses + "8100 7064 8100 000a 8914 00", TypeFIP, true},
		{"C-tag, S-tag, 9100", addresses + "8100 7064 88a8 000a 9100 000b 8906", TypeFCoE, true},
		{"S-tag first", addresses + "88a8 0001 8100 000a 8906", TypeFCoE, true},
		{"9100 first", addresses + "9100 0001 0800", TypeIPv4, true},
		{"cut off in the second tag", addresses + "8100 7064 8100 00", 0, true},
		{"cut off behind a tag", addresses + "8100 7064 8100 000a", 0, true},
		{"eight behind the first", addresses + tags(9) + "8906", TypeFCoE, true},
		{"nine behind the first", addresses + tags(10) + "8906", 0, false},
		{"nine from the first, of type 9100", addresses + "9100 0001 " + tags(8) + "8906", 0, false},
	} {
		b := bytesOf(c.frame)
		var h Header
		if p := Parse(b, &h); p != OK && p != STagged {
			t.Fatalf("%s: %v", c.name, p)
		}
		if got, ok := Innermost(b, &h); got != c.want || ok != c.ok {
			t.Errorf("%s: %04x %v, want %04x %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
