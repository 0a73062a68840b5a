package ring

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// Layout gives the offsets of the parts of a ring in mapped memory, in bytes. For AF_XDP they are
// producer, consumer and desc of struct xdp_ring_offset (linux/if_xdp.h), as XDP_MMAP_OFFSETS
// reports them.
type Layout struct {
	Producer uint64 // uint32 index of the next slot to fill
	Consumer uint64 // uint32 index of the next slot to empty
	Slots    uint64 // size values of type T
}

// Over returns a ring of size slots in mem. Its other end may be outside the program, such as the
// kernel, or a second Over in the same memory. It starts from the indices in mem. size is a power
// of two from 1 to 2^31, and T holds no Go pointers. The ring must not be used after mem was
// unmapped.
//
// Over fails if a part is misaligned, is outside of mem or overlaps another part, or if the indices
// are further apart than size.
func Over[T any](mem []byte, at Layout, size int) (*Ring[T], error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	slot := reflect.TypeFor[T]()
	if slot.Size() == 0 || hasPointers(slot) {
		return nil, fmt.Errorf("ring: values of type %v can't lie in mapped memory: use a plain value without pointers",
			slot)
	}
	const index = uint64(unsafe.Sizeof(uint32(0)))
	parts := []part{
		{"producer index", at.Producer, index, index},
		{"consumer index", at.Consumer, index, index},
		{"slots", at.Slots, uint64(size) * uint64(slot.Size()), uint64(slot.Align())},
	}
	if err := checkParts(mem, parts); err != nil {
		return nil, err
	}
	base := unsafe.Pointer(unsafe.SliceData(mem))
	producer := (*atomic.Uint32)(unsafe.Add(base, at.Producer))
	consumer := (*atomic.Uint32)(unsafe.Add(base, at.Consumer))
	if used := producer.Load() - consumer.Load(); uint64(used) > uint64(size) {
		return nil, fmt.Errorf("ring: indices %d and %d are further apart than %d slots: this is not the ring's memory",
			producer.Load(), consumer.Load(), size)
	}
	r := build(unsafe.Slice((*T)(unsafe.Add(base, at.Slots)), size), producer, consumer)
	r.producer.fenced = true
	return r, nil
}

// part is one region of a ring's memory, in bytes.
type part struct {
	name              string
	at, length, align uint64
}

func checkParts(mem []byte, parts []part) error {
	base := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	for i, p := range parts {
		if p.length > uint64(len(mem)) || p.at > uint64(len(mem))-p.length {
			return fmt.Errorf("ring: %s (%d bytes at offset %d) ends outside of the %d mapped bytes: map more",
				p.name, p.length, p.at, len(mem))
		}
		if (base+p.at)%p.align != 0 {
			return fmt.Errorf("ring: %s at offset %d is not aligned to %d bytes", p.name, p.at, p.align)
		}
		for _, q := range parts[:i] {
			if p.at < q.at+q.length && q.at < p.at+p.length {
				return fmt.Errorf("ring: %s at offset %d overlaps the %s at offset %d", p.name, p.at, q.name, q.at)
			}
		}
	}
	return nil
}

// hasPointers reports whether a value of type t refers to Go memory. The garbage collector does not
// scan mapped memory, so such a reference would not keep its target alive.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	default:
		return t.Kind() > reflect.Complex128 // every kind up to here is a plain number
	}
}
