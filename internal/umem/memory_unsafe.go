package umem

import (
	"math"
	"unsafe"
)

// Frame returns length bytes of the memory from an address on, an offset. It panics when they are
// not all inside. It is Bytes()[addr:][:length] without what the compiler adds for slices whose
// ends it doesn't know: a third of the cost of reading a header.
func (m *Memory) Frame(addr uint64, length uint32) []byte {
	if end := addr + uint64(length); end > uint64(len(m.bytes)) || end < addr {
		panic("umem: a frame beyond the end of the memory")
	}
	return (*[math.MaxInt32]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.bytes)), addr))[:length:length]
}

// fromHugepage returns b from the first place on where a hugepage may begin. b is at least as long
// as one.
func fromHugepage(b []byte) []byte {
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%hugepageSize:]
}
