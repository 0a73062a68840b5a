package transmitter

import (
	"sync/atomic"
	"unsafe"
)

// index returns an index of a ring in the slot: the first four bytes of a word.
func (p *Port) index(word int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&p.slot[word]))
}
