package afxdp

import (
	"sync/atomic"
	"unsafe"
)

// What a slot holds beside its ring, by offset; other threads or the program write at the same time.

func (p *residentPort) load(offset int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&p.slot[offset])))
}

func (p *residentPort) store(offset int, v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&p.slot[offset])), v)
}

func (p *residentPort) load32(offset int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&p.slot[offset])))
}

func (p *residentPort) store32(offset int, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&p.slot[offset])), v)
}
