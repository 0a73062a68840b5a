package dataplane

import (
	"math/bits"

	"sluice/internal/linux/umem"
	"sluice/pmd"
)

// leastHead is the fewest bytes that a head may have: more than all headers that the switch reads
// or changes.
const leastHead = 128

// partTable describes the frames of a memory that are too long for one buffer. Such a frame has
// several parts, each in a buffer of its own. It goes by the id of its first buffer, the head,
// which holds all headers. A descriptor of the frame has the place of the head, the length of the
// whole frame, and the option pmd.Continued. An entry belongs to the worker that holds the frame.
type partTable struct {
	memory *umem.Memory
	shift  uint
	mask   uint64
	links  []partLink // by buffer id
}

// partLink is one buffer of a frame.
type partLink struct {
	head   uint32 // buffer of the first part
	next   uint32 // that of the next part, unless this is the last
	length uint32 // bytes of a later part; in the head: of all later parts
	offset uint16 // of a later part in its buffer
	count  uint8  // in the head: buffers
	sent   uint8  // in the head: parts that the driver has not completed
}

// newPartTable returns a table for all buffers of a memory.
func newPartTable(m *umem.Memory) *partTable {
	shift := uint(bits.TrailingZeros(uint(m.BufferSize())))
	return &partTable{memory: m, shift: shift, mask: 1<<shift - 1, links: make([]partLink, m.Buffers())}
}

func (p *partTable) id(addr uint64) uint32 { return uint32(addr >> (p.shift & 63)) }

// Link makes one frame of descs, and returns its descriptor. valid says whether the frame can be
// forwarded: it is complete, has no more than pmd.MaxParts parts, none of them is empty or exceeds
// its buffer, and its headers lie in the head. A frame that is not valid must still be freed like
// others. All buffers must be different, and there may be at most 255.
func (p *partTable) Link(descs []pmd.Desc) (frame pmd.Desc, valid bool) {
	n := len(descs)
	frame = pmd.Desc{Addr: descs[0].Addr, Options: pmd.Continued}
	valid = n > 1 && n <= pmd.MaxParts && descs[0].Len >= leastHead && descs[n-1].Options == 0
	head := &p.links[p.id(frame.Addr)]
	var last *partLink
	for i := range descs {
		d := &descs[i]
		length := min(d.Len, uint32(p.mask+1-d.Addr&p.mask))
		valid = valid && d.Len == length && length > 0
		frame.Len += length
		id := p.id(d.Addr)
		if last != nil {
			last.next = id
		}
		last = &p.links[id]
		*last = partLink{head: p.id(frame.Addr), length: length, offset: uint16(d.Addr & p.mask)}
	}
	head.length, head.count = frame.Len-head.length, uint8(n)
	return frame, valid
}

// Head returns the head of the frame that a buffer belongs to.
func (p *partTable) Head(id uint32) uint32 { return p.links[id].head }

// Buffers returns how many buffers the frame with a head has. It is not inlined, so that callers
// for which such frames are the exception stay small.
//
//go:noinline
func (p *partTable) Buffers(head uint32) int { return int(p.links[head].count) }

// Later appends the buffers of a frame behind its head to ids.
func (p *partTable) Later(head uint32, ids []uint32) []uint32 {
	id := head
	for range p.links[head].count - 1 {
		id = p.links[id].next
		ids = append(ids, id)
	}
	return ids
}

// Bytes returns the bytes of a frame that lie in its head.
func (p *partTable) Bytes(frame *pmd.Desc) []byte {
	return p.memory.Frame(frame.Addr, frame.Len-p.links[p.id(frame.Addr)].length)
}

// Gather copies as many bytes of a frame to b as fit, and returns their number.
func (p *partTable) Gather(b []byte, frame *pmd.Desc) int {
	n, id := copy(b, p.Bytes(frame)), p.id(frame.Addr)
	for range p.links[id].count - 1 {
		id = p.links[id].next
		n += copy(b[n:], p.part(id))
	}
	return n
}

// part returns the bytes of a later part.
func (p *partTable) part(id uint32) []byte {
	l := &p.links[id]
	return p.memory.Frame(uint64(id)<<(p.shift&63)+uint64(l.offset), l.length)
}

// Copy copies a frame, part by part, to the buffers in ids, as many as the frame has. It returns
// the descriptor of the copy.
func (p *partTable) Copy(ids []uint32, frame *pmd.Desc) pmd.Desc {
	var descs [pmd.MaxParts]pmd.Desc
	parts := p.Descriptors(descs[:0], *frame)
	for i := range parts {
		to := uint64(ids[i])<<(p.shift&63) | parts[i].Addr&p.mask
		copy(p.memory.Frame(to, parts[i].Len), p.memory.Frame(parts[i].Addr, parts[i].Len))
		parts[i].Addr = to
	}
	c, _ := p.Link(parts)
	return c
}

// Descriptors appends a descriptor for each part of a frame that is not empty.
func (p *partTable) Descriptors(to []pmd.Desc, frame pmd.Desc) []pmd.Desc {
	id := p.id(frame.Addr)
	head := &p.links[id]
	to = append(to, pmd.Desc{Addr: frame.Addr, Len: frame.Len - head.length, Options: pmd.Continued})
	for range head.count - 1 {
		id = p.links[id].next
		if l := &p.links[id]; l.length > 0 {
			addr := uint64(id)<<(p.shift&63) + uint64(l.offset)
			to = append(to, pmd.Desc{Addr: addr, Len: l.length, Options: pmd.Continued})
		}
	}
	to[len(to)-1].Options = 0
	return to
}

// Pack moves the bytes of a frame so that they fill as few of its buffers as possible. The frame
// keeps the others as empty parts. It returns the new descriptor of the frame, which begins at the
// start of the head's buffer.
func (p *partTable) Pack(frame pmd.Desc) pmd.Desc {
	head := p.id(frame.Addr)
	b := p.Bytes(&frame)
	into, room := head, p.memory.Buffer(head)
	// The bytes move forwards only: a buffer is filled after its own bytes have been moved, or is
	// moved within.
	for id, left := head, p.links[head].count; ; left-- {
		for len(b) > 0 {
			if len(room) == 0 {
				into = p.links[into].next
				room = p.memory.Buffer(into)
			}
			n := copy(room, b)
			room, b = room[n:], b[n:]
		}
		if left == 1 {
			break
		}
		id = p.links[id].next
		b = p.part(id)
	}
	rest := frame.Len - min(frame.Len, uint32(p.mask+1))
	p.links[head].length = rest
	for id, left := head, p.links[head].count; left > 1; left-- {
		id = p.links[id].next
		l := &p.links[id]
		l.offset, l.length = 0, min(rest, uint32(p.mask+1))
		rest -= l.length
	}
	frame.Addr = uint64(head) << (p.shift & 63)
	return frame
}

// Send notes that a driver has got so many parts of a frame.
func (p *partTable) Send(head uint32, parts int) { p.links[head].sent = uint8(parts) }

// Sending returns how many parts of a frame its driver has not completed.
func (p *partTable) Sending(head uint32) int { return int(p.links[head].sent) }

// Complete notes that the driver has completed a part, and returns the head of its frame. last
// reports whether it was the last part.
func (p *partTable) Complete(id uint32) (head uint32, last bool) {
	head = p.links[id].head
	l := &p.links[head]
	l.sent--
	return head, l.sent == 0
}
