package mem

import "math/bits"

// fifo is a bounded queue of values for one goroutine.
type fifo[T any] struct {
	slots      []T // length a power of two
	head, tail uint32
}

func newFIFO[T any](capacity int) fifo[T] {
	return fifo[T]{slots: make([]T, 1<<bits.Len(uint(max(capacity, 1)-1)))}
}

func (f *fifo[T]) len() int    { return int(f.tail - f.head) }
func (f *fifo[T]) free() int   { return len(f.slots) - f.len() }
func (f *fifo[T]) at(i int) *T { return &f.slots[int(f.head+uint32(i))&(len(f.slots)-1)] }

func (f *fifo[T]) push(v T) {
	*f.at(f.len()) = v
	f.tail++
}

func (f *fifo[T]) pop() T {
	v := *f.at(0)
	f.head++
	return v
}

func (f *fifo[T]) popInto(dst []T) int {
	n := min(len(dst), f.len())
	for i := range dst[:n] {
		dst[i] = f.pop()
	}
	return n
}
