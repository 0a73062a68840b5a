package mem

import "math/bits"

// fifo is a bounded queue of values for one goroutine.
type fifo[T any] struct {
	slots      []T // length a power of two
	capacity   int
	head, tail uint32
}

func newFIFO[T any](capacity int) fifo[T] {
	return fifo[T]{slots: make([]T, 1<<bits.Len(uint(max(capacity, 1)-1))), capacity: capacity}
}

func (f *fifo[T]) len() int    { return int(f.tail - f.head) }
func (f *fifo[T]) free() int   { return f.capacity - f.len() }
func (f *fifo[T]) at(i int) *T { return &f.slots[int(f.head+uint32(i))&(len(f.slots)-1)] }

func (f *fifo[T]) push(v T) {
	f.slots[int(f.tail)&(len(f.slots)-1)] = v
	f.tail++
}

func (f *fifo[T]) pop() T {
	v := *f.at(0)
	f.head++
	return v
}

// drop takes the first n values off.
func (f *fifo[T]) drop(n int) { f.head += uint32(n) }

// pushFrom adds as many of src as there is room for, from the first on, and returns how many.
func (f *fifo[T]) pushFrom(src []T) int {
	src = src[:min(len(src), f.free())]
	n := copy(f.slots[int(f.tail)&(len(f.slots)-1):], src)
	copy(f.slots, src[n:])
	f.tail += uint32(len(src))
	return len(src)
}

// popInto moves values to dst, as many as there are and fit, and returns how many.
func (f *fifo[T]) popInto(dst []T) int {
	dst = dst[:min(len(dst), f.len())]
	n := copy(dst, f.slots[int(f.head)&(len(f.slots)-1):])
	copy(dst[n:], f.slots)
	f.head += uint32(len(dst))
	return len(dst)
}
