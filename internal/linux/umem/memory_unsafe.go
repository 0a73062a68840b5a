package umem

import (
	"math"
	"unsafe"
)

// Frame returns length bytes of the memory, from byte offset addr on. It panics unless all of them
// are inside. It is Bytes()[addr:][:length] without the checks that the compiler adds for slices of
// unknown length, which are a third of the cost of reading a header.
func (m *Memory) Frame(addr uint64, length uint32) []byte {
	if end := addr + uint64(length); end > uint64(len(m.bytes)) || end < addr {
		panic("umem: a frame beyond the end of the memory")
	}
	return (*[math.MaxInt32]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.bytes)), addr))[:length:length]
}

// fromHugepage returns b from the first address on at which a hugepage may begin. b is at least one
// hugepage long.
func fromHugepage(b []byte) []byte {
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%hugepageSize:]
}
