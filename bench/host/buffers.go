package host

import "fmt"

// injectReserve is how many of the send buffers are reserved for injected PFC frames.
const injectReserve = 1

// buffers tracks the host's buffers: free, in the port's fill ring, or handed over for sending. A
// received frame is sunk at once, so its buffer is free again before the caller of Receive
// continues.
type buffers struct {
	memory []byte
	mask   uint64   // BufferSize-1
	shift  uint     // log2 BufferSize
	first  uint64   // id of the first buffer
	length []uint32 // of the frame in a buffer handed over for sending, by id-first; 0: not handed over

	free             []uint64 // stack of buffer addresses with capacity for all of them
	inFill, inTX     int
	fillMost, txMost int // bounds that add up to all buffers, so neither side starves the other
}

func newBuffers(memory []byte, size, first, n int) buffers {
	b := buffers{
		memory: memory,
		mask:   uint64(size) - 1,
		first:  uint64(first),
		length: make([]uint32, n),
		free:   make([]uint64, 0, n),

		fillMost: n / 2,
		txMost:   n - n/2,
	}
	for 1<<b.shift < size {
		b.shift++
	}
	for id := first + n - 1; id >= first; id-- {
		b.free = append(b.free, uint64(id)<<b.shift)
	}
	return b
}

// absent returns the part of the stack for buffers that are in TX. Complete may store their
// addresses there.
func (b *buffers) absent() []uint64 {
	return b.free[len(b.free) : len(b.free)+b.inTX]
}

// completed takes back the first n buffers that Complete stored in absent. It returns the bytes of
// their frames, and the number of buffers that were back already: some kernels complete a buffer
// twice.
func (b *buffers) completed(n int) (bytes, twice int) {
	for _, addr := range b.absent()[:n] {
		length := &b.length[addr>>b.shift-b.first]
		if *length == 0 {
			twice++
			continue
		}
		bytes += int(*length)
		*length = 0
		b.free = append(b.free, addr&^b.mask)
	}
	b.inTX -= n - twice
	return bytes, twice
}

// wanted returns the top of the stack: the buffers that should go to the fill ring now.
func (b *buffers) wanted() []uint64 {
	n := b.fillMost - b.inFill
	return b.free[len(b.free)-n:]
}

// filled removes the first n of the want buffers on top of the stack, which the fill ring has
// taken.
func (b *buffers) filled(want, n int) {
	top := b.free[len(b.free)-want:]
	copy(top, top[n:])
	b.free = b.free[:len(b.free)-n]
	b.inFill += n
}

// received takes back a buffer whose received frame has been sunk.
func (b *buffers) received(addr uint64) {
	if b.inFill == 0 {
		panic(fmt.Sprintf("host: received a frame at %#x, but no buffer was in the fill ring", addr))
	}
	b.inFill--
	b.free = append(b.free, addr&^b.mask)
}

// sendable returns how many more buffers may be used for sending.
func (b *buffers) sendable() int {
	return b.txMost - b.inTX
}

// take returns the address and memory of a free buffer for sending a frame of length bytes.
func (b *buffers) take(length int) (uint64, []byte) {
	addr := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	b.inTX++
	b.length[addr>>b.shift-b.first] = uint32(length)
	return addr, b.memory[addr : addr+uint64(length)]
}

// putBack undoes take.
func (b *buffers) putBack(addr uint64) {
	b.inTX--
	b.length[addr>>b.shift-b.first] = 0
	b.free = append(b.free, addr)
}
