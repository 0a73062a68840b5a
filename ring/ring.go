// Package ring is the one ring of Sluice: single producer, single consumer, of values.
//
// It lies over heap memory (New: between two workers) or over memory that something else maps
// (Over: the fill, RX, TX and completion rings of AF_XDP, whose other end is the kernel). Indices
// run freely over uint32 and are reduced to a slot only when one is touched, so that a full ring
// and an empty one look different without a spare slot, and the difference of two indices is right
// across the wrap at 2^32.
//
// Each end works in two steps that leave nothing to undo: look at slots (Reserve, Peek), as often
// as it likes, then hand over as many as it used (Submit, Release). Only the second step is seen by
// the other end.
package ring

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// maxSize keeps every index difference, 0 to size, within uint32.
const maxSize = 1 << 31

// apart separates what different cores write: two cache lines, because processors fetch them in
// pairs.
const apart = 128

// Ring carries values of type T from one producer to one consumer. Reserve, Submit, Push and Free
// belong to the producer's goroutine, Peek, Release and Pop to the consumer's; Len and Cap may be
// called from anywhere.
//
// A released slot keeps its value until it is overwritten: what a T points to stays reachable that
// long.
type Ring[T any] struct {
	slots    []T // the header never changes; each slot belongs to one end at a time
	_        [apart]byte
	producer end // written by the producer only
	_        [apart]byte
	consumer end // written by the consumer only
	_        [apart]byte
}

// end is what one end of a ring knows: the slots next to limit-1 are open to it.
type end struct {
	next  uint32 // the first slot that this end has not handed over
	limit uint32 // the other end's index plus lead, as last read
	lead  uint32 // how far this end may run ahead of the other's index: the producer a full ring, the consumer 0
	size  uint32 // slots of the ring

	own   *atomic.Uint32 // next, published for the other end
	other *atomic.Uint32 // the other end's index: written by the other end only

	// fenced: what follows a publish must not be read before it. So the producer of a ring whose
	// consumer is a kernel that may sleep; it asks for a wake-up in a flag.
	fenced bool
}

// New returns an empty ring of size slots on the heap. size is a power of two from 1 to 2^31.
func New[T any](size int) (*Ring[T], error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	var indices struct {
		producer atomic.Uint32
		_        [apart]byte
		consumer atomic.Uint32
		_        [apart]byte
	}
	return build(make([]T, size), &indices.producer, &indices.consumer), nil
}

// build starts both ends from the indices as they are.
func build[T any](slots []T, producer, consumer *atomic.Uint32) *Ring[T] {
	p, c, size := producer.Load(), consumer.Load(), uint32(len(slots))
	return &Ring[T]{
		slots:    slots,
		producer: end{next: p, limit: c + size, lead: size, size: size, own: producer, other: consumer},
		consumer: end{next: c, limit: p, lead: 0, size: size, own: consumer, other: producer},
	}
}

func checkSize(size int) error {
	if size < 1 || uint64(size) > maxSize || bits.OnesCount64(uint64(size)) != 1 {
		return fmt.Errorf("ring: size %d: choose a power of two from 1 to 2^31", size)
	}
	return nil
}

// Reserve returns up to n free slots in order, first a, then b; b is non-empty only where the ring
// wraps. It changes nothing: until Submit, reserving again returns the same slots.
func (r *Ring[T]) Reserve(n int) (a, b []T) {
	return window(r.slots, r.producer.next, r.producer.open(n))
}

// Submit hands the first n reserved slots to the consumer. It panics if fewer were reserved.
//
// When it returns on a ring of Over, the new index is ordered before every load that follows (see
// end.advance): an AF_XDP producer may look at the ring's need-wakeup flag next.
func (r *Ring[T]) Submit(n int) {
	r.producer.publish(n)
}

// Push copies as many of src as fit into the ring, from the first on, and returns how many.
func (r *Ring[T]) Push(src []T) int {
	n := r.producer.open(len(src))
	first := int(r.producer.next) & (len(r.slots) - 1)
	src = src[:n]
	if k := copy(r.slots[first:], src); k < len(src) {
		copy(r.slots, src[k:])
	}
	r.producer.advance(n)
	return n
}

// Peek returns up to n of the oldest values in order, first a, then b; b is non-empty only where
// the ring wraps. It changes nothing: until Release, peeking again returns the same values.
func (r *Ring[T]) Peek(n int) (a, b []T) {
	return window(r.slots, r.consumer.next, r.consumer.open(n))
}

// Release gives the slots of the n oldest values back to the producer. It panics if fewer were
// peeked.
func (r *Ring[T]) Release(n int) {
	r.consumer.publish(n)
}

// Pop moves as many values as there are, at most len(dst), to dst and returns how many.
func (r *Ring[T]) Pop(dst []T) int {
	n := r.consumer.open(len(dst))
	first := int(r.consumer.next) & (len(r.slots) - 1)
	dst = dst[:n]
	if k := copy(dst, r.slots[first:]); k < len(dst) {
		copy(dst[k:], r.slots)
	}
	r.consumer.advance(n)
	return n
}

// Len returns how many values are published and not released: exact at that moment for either end,
// an estimate from 0 to Cap for anybody else.
func (r *Ring[T]) Len() int {
	// The consumer's index first: it only grows and never passes the producer's, so the difference
	// can't be negative. A third party may be late with the second load; that is what the bound is
	// for.
	c := r.consumer.own.Load()
	return min(int(r.producer.own.Load()-c), len(r.slots))
}

// Free returns how many slots the producer could reserve now.
func (r *Ring[T]) Free() int {
	return r.producer.open(len(r.slots))
}

// Cap returns the number of slots.
func (r *Ring[T]) Cap() int {
	return len(r.slots)
}

// open returns how many slots are open to this end, at most n. It reads the other end's index, a
// cache line that the other core keeps writing, only when what it knew before falls short of n.
func (e *end) open(n int) int {
	known := int(e.limit - e.next)
	if known < n {
		known = e.refresh()
	}
	return max(0, min(n, known))
}

func (e *end) refresh() int {
	// This load pairs with the store in the other end's advance: what the other end did to the
	// slots before that store is visible after this load.
	e.limit = e.other.Load() + e.lead
	if e.limit-e.next > e.size {
		panic("ring: the other end's index is out of range")
	}
	return int(e.limit - e.next)
}

// publish moves this end's index on by n: one store a burst.
func (e *end) publish(n int) {
	if n == 0 {
		return
	}
	if uint64(n) > uint64(e.limit-e.next) { // a negative n is huge here
		panic("ring: more slots handed over than were open")
	}
	e.advance(n)
}

// advance is publish where n is known to be open.
func (e *end) advance(n int) {
	e.next += uint32(n)
	// This store pairs with the load in the other end's refresh: every use of the slots is visible
	// before the index is. With a fence it is also the one that need-wakeup requires between
	// publishing the producer index and reading the flag, whose partner is the kernel's fence
	// between setting the flag and looking at the ring once more: Go's atomics are sequentially
	// consistent, and on amd64 such a store is an XCHG.
	if e.fenced {
		e.own.Store(e.next)
	} else {
		storeRelease(e.own, e.next)
	}
}

// window returns n slots from index first on, in two parts where the ring wraps. A burst costs two
// slicings here; the values are then reached without arithmetic.
func window[T any](slots []T, first uint32, n int) (a, b []T) {
	i := int(first) & (len(slots) - 1)
	if room := len(slots) - i; n > room {
		return slots[i:], slots[: n-room : n-room]
	}
	return slots[i : i+n : i+n], nil
}
