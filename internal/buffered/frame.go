// Package buffered describes the frames that lie in buffers: a Frame in one word, and in Parts the
// further buffers of those that are too long for one.
package buffered

import "sluice/pmd"

// Frame describes the frame in a buffer in one word, so that one store writes it and one comparison
// matches two kinds. It has four fields of 16 bits, from bit 0 on: the frame's length in bytes,
// Lossless and Several; the cells charged to its ingress group, and to its egress queue while it
// waits there; its kind; and its offset in the buffer.
type Frame uint64

const (
	// Several is set if the frame has several parts: the buffer is its head, and Parts knows the
	// others. A loop over frames finds out with one OR each whether any of them has.
	Several = 1 << 15
	// Lossless is set if the frame came in as lossless: it may not be dropped for lack of room,
	// whatever its class is at the egress port, or in a generation that another worker runs.
	Lossless = 1 << 14
	// MaxLength is the longest frame that a Frame can describe, in bytes.
	MaxLength = 1<<14 - 1
)

// Kind encodes a frame's ingress port, priority and egress queue. The queue is that of the
// priority, unless the frame is flooded.
type Kind uint16

// Priorities is the number of priorities, and of queues, of a port.
const Priorities = 8

// MaxPorts bounds the number of ports so that a Kind fits in 16 bits.
const MaxPorts = 1 << 16 / Priorities / Priorities

// KindOf returns the kind of frames from a group (port number * Priorities + priority) for a queue.
func KindOf(group uint16, queue uint8) Kind { return Kind(group*Priorities + uint16(queue)) }

// In returns the number of the ingress port.
func (k Kind) In() int { return int(k / Priorities / Priorities) }

// Priority returns the priority.
func (k Kind) Priority() uint8 { return uint8(k / Priorities % Priorities) }

// Queue returns the egress queue.
func (k Kind) Queue() uint8 { return uint8(k % Priorities) }

// New describes a frame of one part.
func New(offset uint16, length, cells int, k Kind) Frame {
	return Frame(uint64(offset)<<48 | uint64(k)<<32 | uint64(cells)<<16 | uint64(length))
}

// Of describes the frame of a descriptor, in buffers with this address mask.
func Of(d *pmd.Desc, mask uint16, cells int, k Kind) Frame {
	return New(uint16(d.Addr)&mask, int(d.Len), cells, k) | Frame(d.Options)*Several
}

// Length returns the length of the frame, of all its parts, in bytes.
func (f Frame) Length() int { return int(f & MaxLength) }

// Cells returns the cells that the frame costs.
func (f Frame) Cells() int { return int(uint16(f >> 16)) }

// Kind returns the frame's kind.
func (f Frame) Kind() Kind { return Kind(f >> 32) }

// Offset returns the place of the frame's first byte in its buffer.
func (f Frame) Offset() uint64 { return uint64(f >> 48) }

// In returns the number of the ingress port.
func (f Frame) In() int { return f.Kind().In() }

// Priority returns the priority.
func (f Frame) Priority() uint8 { return f.Kind().Priority() }

// Queue returns the egress queue.
func (f Frame) Queue() uint8 { return f.Kind().Queue() }

// At returns the frame at another place in its buffer.
func (f Frame) At(offset uint16) Frame { return f&(1<<48-1) | Frame(offset)<<48 }

// Moved returns the frame with its start moved by a number of bytes, and shortened by as many.
func (f Frame) Moved(bytes int) Frame {
	return New(uint16(int(f.Offset())+bytes), f.Length()-bytes, f.Cells(), f.Kind()) | f&(Several|Lossless)
}
