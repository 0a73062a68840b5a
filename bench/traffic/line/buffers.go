// Package line has what all hosts of the lab share: test frames and their order, buffers for a
// pmd.Port, and time on the line without rounding errors. Its types belong to one goroutine.
package line

import (
	"fmt"

	"sluice/pmd"
)

// Buffers tracks a host's buffers: free, in the port's fill ring, or taken for sending. A received
// frame is sunk at once, so its buffer is free again before the caller of pmd.Port.Receive
// continues.
type Buffers struct {
	Memory []byte   // the port's
	mask   uint64   // BufferSize-1
	shift  uint     // log2 BufferSize
	first  uint64   // id of the first buffer
	length []uint32 // of what a buffer taken for sending holds, by id-first; 0: not taken

	Free             []uint64 // stack of buffer addresses with capacity for all of them
	InFill, InTX     int      // in the fill ring or received and not sunk; taken for sending
	fillMost, txMost int      // bounds that add up to all buffers, so neither side starves the other
}

// NewBuffers returns n free buffers of size bytes, a power of two, from the first-th of memory on.
// At most half of them are in the fill ring, and at most half are taken for sending.
func NewBuffers(memory []byte, size, first, n int) Buffers {
	b := Buffers{
		Memory: memory,
		mask:   uint64(size) - 1,
		first:  uint64(first),
		length: make([]uint32, n),
		Free:   make([]uint64, 0, n),

		fillMost: n / 2,
		txMost:   n - n/2,
	}
	for 1<<b.shift < size {
		b.shift++
	}
	for id := first + n - 1; id >= first; id-- {
		b.Free = append(b.Free, uint64(id)<<b.shift)
	}
	return b
}

// Absent returns the part of the stack for buffers that are in TX. pmd.Port.Complete
// may store their addresses there.
func (b *Buffers) Absent() []uint64 {
	return b.Free[len(b.Free) : len(b.Free)+b.InTX]
}

// Completed takes back the first n buffers that pmd.Port.Complete stored in Absent. It returns the
// bytes of their frames, and the number of buffers that were back already: some kernels complete a
// buffer twice.
func (b *Buffers) Completed(n int) (bytes, twice int) {
	for _, addr := range b.Absent()[:n] {
		length := &b.length[addr>>b.shift-b.first]
		if *length == 0 {
			twice++
			continue
		}
		bytes += int(*length)
		*length = 0
		b.Free = append(b.Free, addr&^b.mask)
	}
	b.InTX -= n - twice
	return bytes, twice
}

// Wanted returns the top of the stack: the buffers that should go to the fill ring now.
func (b *Buffers) Wanted() []uint64 {
	n := b.fillMost - b.InFill
	return b.Free[len(b.Free)-n:]
}

// Filled removes the first n of the want buffers on top of the stack, which the fill ring has
// taken.
func (b *Buffers) Filled(want, n int) {
	top := b.Free[len(b.Free)-want:]
	copy(top, top[n:])
	b.Free = b.Free[:len(b.Free)-n]
	b.InFill += n
}

// Received takes back a buffer whose contents have been sunk.
func (b *Buffers) Received(addr uint64) {
	if b.InFill == 0 {
		panic(fmt.Sprintf("line: received a frame at %#x, but no buffer was in the fill ring", addr))
	}
	b.InFill--
	b.Free = append(b.Free, addr&^b.mask)
}

// Sendable returns how many more buffers may be used for sending.
func (b *Buffers) Sendable() int {
	return b.txMost - b.InTX
}

// Parts returns how many buffers a frame of length bytes takes to send.
func (b *Buffers) Parts(length int) int { return (length + int(b.mask)) >> b.shift }

// Put copies a frame into as many buffers as it takes, and stores their descriptors in burst.
func (b *Buffers) Put(burst []pmd.Desc, frame []byte) (parts int) {
	for {
		part := frame[:min(len(frame), int(b.mask)+1)]
		addr, room := b.Take(len(part))
		copy(room, part)
		burst[parts] = pmd.Desc{Addr: addr, Len: uint32(len(part))}
		parts++
		if frame = frame[len(part):]; len(frame) == 0 {
			return parts
		}
		burst[parts-1].Options = pmd.Continued
	}
}

// Take returns the address and memory of a free buffer for sending length bytes, at most those of a
// buffer.
func (b *Buffers) Take(length int) (uint64, []byte) {
	addr := b.Free[len(b.Free)-1]
	b.Free = b.Free[:len(b.Free)-1]
	b.InTX++
	b.length[addr>>b.shift-b.first] = uint32(length)
	return addr, b.Memory[addr : addr+uint64(length)]
}

// PutBack undoes Take.
func (b *Buffers) PutBack(addr uint64) {
	b.InTX--
	b.length[addr>>b.shift-b.first] = 0
	b.Free = append(b.Free, addr)
}
