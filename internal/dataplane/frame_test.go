package dataplane

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestBufferedFrame checks that all fields can be read back, up to their largest values.
func TestBufferedFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := func(name string, least, most int) int {
			return rapid.OneOf(rapid.IntRange(least, most), rapid.SampledFrom([]int{least, most})).Draw(t, name)
		}
		offset, length, cells := word("offset", 4, math.MaxUint16-4), word("length", 4, math.MaxUint16-4),
			word("cells", 0, math.MaxUint16)
		port, priority, queue := word("port", 0, maxPorts-1), word("priority", 0, Priorities-1),
			word("queue", 0, Priorities-1)
		f := newFrame(uint16(offset), length, cells, kindOf(uint16(port*Priorities+priority), uint8(queue)))
		moved := word("moved", -4, 4)
		for _, by := range []int{0, moved} {
			g := f.moved(by)
			if int(g.offset()) != offset+by || g.length() != length-by || g.cells() != cells || g.in() != port ||
				int(g.priority()) != priority ||
				int(g.queue()) != queue || g.kind() != f.kind() {
				t.Fatalf("%d bytes at %d, %d cells, port %d, priority %d, queue %d, moved by %d: %#x", length, offset,
					cells, port, priority, queue, by, g)
			}
		}
	})
}

func TestTooManyPorts(t *testing.T) {
	p := Params{Workers: 1, Ports: make([]PortParams, maxPorts+1)}
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "1025 ports: at most 1024 are possible") {
		t.Errorf("%v", err)
	}
}
