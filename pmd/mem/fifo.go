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

// drop removes the first n values.
func (f *fifo[T]) drop(n int) { f.head += uint32(n) }

// add appends the n values that were written to back(n).
func (f *fifo[T]) add(n int) { f.tail += uint32(n) }

// front returns the first n values, in two parts if the slots wrap.
func (f *fifo[T]) front(n int) (first, rest []T) { return f.part(f.head, n) }

// back returns the n free slots behind the last value; there must be room.
func (f *fifo[T]) back(n int) (first, rest []T) { return f.part(f.tail, n) }

func (f *fifo[T]) part(from uint32, n int) (first, rest []T) {
	first = f.slots[int(from)&(len(f.slots)-1):]
	if len(first) >= n {
		return first[:n], nil
	}
	return first, f.slots[:n-len(first)]
}

// pushFrom appends as many values of src as there is room for, and returns their number.
func (f *fifo[T]) pushFrom(src []T) int {
	n := min(len(src), f.free())
	first, rest := f.back(n)
	copy(rest, src[copy(first, src):])
	f.add(n)
	return n
}

// popInto moves as many values to dst as there are and fit, and returns their number.
func (f *fifo[T]) popInto(dst []T) int {
	n := min(len(dst), f.len())
	first, rest := f.front(n)
	copy(dst[copy(dst, first):], rest)
	f.drop(n)
	return n
}
