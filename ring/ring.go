// Package ring is the only ring type of Sluice: single producer, single consumer, of values.
//
// A ring uses heap memory (New: between two workers) or memory mapped by something else (Over: the
// fill, RX, TX and completion rings of AF_XDP, with the kernel at the other end). Indices run
// freely over uint32 and are reduced to a slot only on access. So a full ring differs from an empty
// one without a spare slot, and index differences are correct across the wrap at 2^32.
//
// Each end works in two steps, so nothing has to be undone: it looks at slots (Reserve, Peek), as
// often as it likes, and then hands over those that it used (Submit, Release). Only the second step
// is visible to the other end.
package ring

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// maxSize keeps every index difference, 0 to size, within uint32.
const maxSize = 1 << 31

// apart separates memory that different cores write: two cache lines, since processors fetch them
// in pairs.
const apart = 128

// Ring carries values of type T from one producer to one consumer. Reserve, Submit, Push and Free
// belong to the producer's goroutine, Peek, Release and Pop to the consumer's. Any goroutine may
// call Len and Cap.
//
// A released slot keeps its value until it is overwritten, so what a T points to stays reachable
// until then.
type Ring[T any] struct {
	slots    []T // the header never changes; each slot belongs to one end at a time
	_        [apart]byte
	producer end // written by the producer only
	_        [apart]byte
	consumer end // written by the consumer only
	_        [apart]byte
}

// end is the state of one end of a ring: it may use the slots from next to limit-1.
type end struct {
	next  uint32 // the first slot that this end has not handed over
	limit uint32 // the other end's index plus lead, as last read
	lead  uint32 // how far this end may be ahead of the other's index: a full ring for the producer, 0 for the consumer
	size  uint32 // slots of the ring

	own   *atomic.Uint32 // next, published for the other end
	other *atomic.Uint32 // the other end's index: written by the other end only

	// fenced: loads after a publish must not move before it. This is for a producer whose consumer
	// is a kernel that may sleep and asks for a wake-up with a flag.
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

// build starts both ends from the current indices.
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

// Reserve returns up to n free slots in order, first a, then b; b is non-empty only if the ring
// wraps. It changes nothing: until Submit, another Reserve returns the same slots.
func (r *Ring[T]) Reserve(n int) (a, b []T) {
	return window(r.slots, r.producer.next, r.producer.open(n))
}

// Submit hands the first n reserved slots to the consumer. It panics if fewer were reserved.
//
// In a ring from Over, the new index is ordered before all loads that follow Submit (see
// end.advance), so an AF_XDP producer may read the ring's need-wakeup flag next.
func (r *Ring[T]) Submit(n int) {
	r.producer.publish(n)
}

// Push copies the first values of src, as many as fit, into the ring and returns their number.
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

// Peek returns up to n of the oldest values in order, first a, then b; b is non-empty only if the
// ring wraps. It changes nothing: until Release, another Peek returns the same values.
func (r *Ring[T]) Peek(n int) (a, b []T) {
	return window(r.slots, r.consumer.next, r.consumer.open(n))
}

// Release returns the slots of the n oldest values to the producer. It panics if fewer were peeked.
func (r *Ring[T]) Release(n int) {
	r.consumer.publish(n)
}

// Pop moves the available values, at most len(dst), to dst and returns their number.
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

// Len returns how many values are published and not released: exact for either end, an estimate
// from 0 to Cap for anyone else.
func (r *Ring[T]) Len() int {
	// Load the consumer's index first: it only grows and never passes the producer's, so the
	// difference can't be negative. A third goroutine may load the second index late, which is why
	// the result is bounded.
	c := r.consumer.own.Load()
	return min(int(r.producer.own.Load()-c), len(r.slots))
}

// Produced returns how many values the producer has handed over, modulo 2^32, counted from an
// arbitrary number. It belongs to the producer's goroutine.
func (r *Ring[T]) Produced() uint32 { return r.producer.next }

// Free returns how many slots the producer could reserve now.
func (r *Ring[T]) Free() int {
	return r.producer.open(len(r.slots))
}

// Cap returns the number of slots.
func (r *Ring[T]) Cap() int {
	return len(r.slots)
}

// open returns how many slots are open to this end, at most n. It reads the other end's index, a
// cache line that the other core keeps writing, only if the slots it knows of are fewer than n.
func (e *end) open(n int) int {
	known := int(e.limit - e.next)
	if known < n {
		known = e.refresh()
	}
	return max(0, min(n, known))
}

func (e *end) refresh() int {
	// This load pairs with the store in the other end's advance: all accesses of the other end to
	// the slots before that store are visible after this load.
	e.limit = e.other.Load() + e.lead
	if e.limit-e.next > e.size {
		panic("ring: the other end's index is out of range")
	}
	return int(e.limit - e.next)
}

// publish advances this end's index by n, with one store per burst.
func (e *end) publish(n int) {
	if n == 0 {
		return
	}
	if uint64(n) > uint64(e.limit-e.next) { // a negative n is huge here
		panic("ring: more slots handed over than were open")
	}
	e.advance(n)
}

// advance is publish for an n known to be open.
func (e *end) advance(n int) {
	e.next += uint32(n)
	// This store pairs with the load in the other end's refresh: every access to the slots is
	// visible before the index. With a fence it is also the barrier that need-wakeup requires
	// between publishing the producer index and reading the flag; its partner is the kernel's
	// barrier between setting the flag and checking the ring again. Go's atomics are sequentially
	// consistent, and on amd64 such a store is an XCHG.
	if e.fenced {
		e.own.Store(e.next)
	} else {
		storeRelease(e.own, e.next)
	}
}

// window returns n slots from index first on, in two parts if the ring wraps. It costs a burst two
// slicings; the values need no index arithmetic.
func window[T any](slots []T, first uint32, n int) (a, b []T) {
	i := int(first) & (len(slots) - 1)
	if room := len(slots) - i; n > room {
		return slots[i:], slots[: n-room : n-room]
	}
	return slots[i : i+n : i+n], nil
}
