package bridge

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/frame"
)

// TestLikeness: frames belong to one train if their addresses, VID, DEI and type are the same, and
// get the class of their own PCP.
func TestLikeness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Classifier{Default: rapid.Uint8Range(0, 7).Draw(t, "default")}
		for pcp := range c.PCP {
			c.PCP[pcp] = rapid.Uint8Range(0, 7).Draw(t, "class")
		}
		first := drawSample(t).bytes()
		for len(first) < TrainHeader {
			first = append(first, 0)
		}
		f := Frame{Header: *header(first)}
		like := LikenessOf(&c, &f, first)
		next := append([]byte(nil), first...)
		bit := rapid.OneOf(rapid.IntRange(0, 8*TrainHeader), rapid.IntRange(8*14, 8*15)).Draw(t, "another bit, or none")
		pcp := f.Header.Tagged && bit>>3 == 14 && bit&7 > 4
		if bit < 8*TrainHeader {
			next[bit>>3] ^= 1 << (bit & 7)
		}
		third := binary.LittleEndian.Uint64(next[10:])
		got := binary.LittleEndian.Uint64(next) == like.First &&
			binary.LittleEndian.Uint16(next[8:]) == like.Second && (third^like.Third)&like.Mask == 0
		if want := bit == 8*TrainHeader || pcp || int(f.Header.Payload) <= bit>>3; got != want {
			t.Fatalf("% x and % x: alike %v", first, next[:TrainHeader], got)
		}
		if !got {
			return
		}
		var h frame.Header
		frame.Parse(next, &h)
		if class := like.ByPCP[third>>PCPPlace&7]; class != c.CoS(next, &h) {
			t.Errorf("% x: class %d, want %d", next[:TrainHeader], class, c.CoS(next, &h))
		}
	})
}
