package dataplane

import "sluice/pmd"

// bufferWord describes the frame in a buffer in one word, so that one store writes it and one
// comparison matches two kinds. It has four fields of 16 bits, from bit 0 on: the frame's length in
// bytes, cameLossless and severalParts; the cells charged to its ingress group, and to its egress
// queue while it waits there; its kind; and its offset in the buffer.
type bufferWord uint64

const (
	// severalParts is set if the frame has several: the buffer is its head, and partTable knows the
	// others. A loop over frames finds out with one OR each whether any of them has.
	severalParts = 1 << 15
	// cameLossless is set if the frame came in as lossless: it may not be dropped for lack of room,
	// whatever its class is at the egress port, or in a generation that another worker runs.
	cameLossless = 1 << 14
	// maxWordLength is the longest frame that a bufferWord can describe, in bytes.
	maxWordLength = 1<<14 - 1
)

// frameKind encodes a frame's ingress port, priority and egress queue. The queue is that of the
// priority, unless the frame is flooded.
type frameKind uint16

// maxPorts bounds the number of ports so that a frameKind fits in 16 bits.
const maxPorts = 1 << 16 / Priorities / Priorities

// kindOf returns the kind of frames from a group (port number * Priorities + priority) for a queue.
func kindOf(group uint16, queue uint8) frameKind { return frameKind(group*Priorities + uint16(queue)) }

// In returns the number of the ingress port.
func (k frameKind) In() int { return int(k / Priorities / Priorities) }

// Priority returns the priority.
func (k frameKind) Priority() uint8 { return uint8(k / Priorities % Priorities) }

// Queue returns the egress queue.
func (k frameKind) Queue() uint8 { return uint8(k % Priorities) }

// newWord describes a frame of one part.
func newWord(offset uint16, length, cells int, k frameKind) bufferWord {
	return bufferWord(uint64(offset)<<48 | uint64(k)<<32 | uint64(cells)<<16 | uint64(length))
}

// wordOf describes the frame of a descriptor, in buffers with this address mask.
func wordOf(d *pmd.Desc, mask uint16, cells int, k frameKind) bufferWord {
	return newWord(uint16(d.Addr)&mask, int(d.Len), cells, k) | bufferWord(d.Options)*severalParts
}

// Length returns the length of the frame, of all its parts, in bytes.
func (f bufferWord) Length() int { return int(f & maxWordLength) }

// Cells returns the cells that the frame costs.
func (f bufferWord) Cells() int { return int(uint16(f >> 16)) }

// Kind returns the frame's kind.
func (f bufferWord) Kind() frameKind { return frameKind(f >> 32) }

// Offset returns the place of the frame's first byte in its buffer.
func (f bufferWord) Offset() uint64 { return uint64(f >> 48) }

// In returns the number of the ingress port.
func (f bufferWord) In() int { return f.Kind().In() }

// Priority returns the priority.
func (f bufferWord) Priority() uint8 { return f.Kind().Priority() }

// Queue returns the egress queue.
func (f bufferWord) Queue() uint8 { return f.Kind().Queue() }

// At returns the frame at another place in its buffer.
func (f bufferWord) At(offset uint16) bufferWord { return f&(1<<48-1) | bufferWord(offset)<<48 }

// Moved returns the frame with its start moved by a number of bytes, and shortened by as many.
func (f bufferWord) Moved(bytes int) bufferWord {
	return newWord(uint16(int(f.Offset())+bytes), f.Length()-bytes, f.Cells(), f.Kind()) | f&(severalParts|cameLossless)
}
