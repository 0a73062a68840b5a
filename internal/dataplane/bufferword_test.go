package dataplane

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestFrame checks that all fields can be read back, up to their largest values.
func TestFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := func(name string, least, most int) int {
			return rapid.OneOf(rapid.IntRange(least, most), rapid.SampledFrom([]int{least, most})).Draw(t, name)
		}
		offset, length, cells := word("offset", 4, math.MaxUint16-4), word("length", 4, maxWordLength-4),
			word("cells", 0, math.MaxUint16)
		port, priority, queue := word("port", 0, maxPorts-1), word("priority", 0, Priorities-1),
			word("queue", 0, Priorities-1)
		flags := bufferWord(word("several", 0, 1))*severalParts | bufferWord(word("lossless", 0, 1))*cameLossless
		f := newWord(uint16(offset), length, cells, kindOf(uint16(port*Priorities+priority), uint8(queue))) | flags
		moved := word("moved", -4, 4)
		for _, by := range []int{0, moved} {
			g := f.Moved(by)
			if int(g.Offset()) != offset+by || g.Length() != length-by || g.Cells() != cells || g.In() != port ||
				int(g.Priority()) != priority ||
				int(g.Queue()) != queue || g.Kind() != f.Kind() || g&(severalParts|cameLossless) != flags ||
				g.At(uint16(offset)) != f.Moved(by).At(uint16(offset)) ||
				int(g.At(4).Offset()) != 4 {
				t.Fatalf("%d bytes at %d, %d cells, port %d, priority %d, queue %d, moved by %d: %#x", length, offset,
					cells, port, priority, queue, by, g)
			}
		}
	})
}
