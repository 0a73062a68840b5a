//go:build amd64 && !race

package ring

import (
	"sync/atomic"
	"unsafe"
)

// storeRelease stores an index with release ordering: an end that loads it sees all earlier
// accesses.
//
// Go has no such store: atomic.Uint32.Store also waits until all earlier stores are in the cache.
// If the cache line has to come from another core, that takes half the time of a burst of 8. On
// amd64 every store is a release: the processor lets none overtake earlier loads and stores (AMD64
// Architecture Programmer's Manual, volume 2, 7.2). Nor does the compiler here, since it moves no
// memory access across the call of a function that it can't see into.
//
//go:noinline
func storeRelease(index *atomic.Uint32, v uint32) {
	*(*uint32)(unsafe.Pointer(index)) = v
}
