package afxdp

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pmd"
)

// Bursts can be copied to and from the kernel's rings only if pmd.Desc has the kernel's layout.
var (
	_ [unsafe.Sizeof(pmd.Desc{}) - unsafe.Sizeof(unix.XDPDesc{})]byte
	_ [unsafe.Sizeof(unix.XDPDesc{}) - unsafe.Sizeof(pmd.Desc{})]byte
)

// kick calls sendto or recvfrom without data, which makes the kernel look at the rings. The call
// never blocks, so it bypasses the Go scheduler, which might otherwise take the worker's P away.
func kick(trap uintptr, fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(trap, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

func getsockopt[T any](fd, level, option int) (value T, err error) {
	size := uint32(unsafe.Sizeof(value))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return value, errno
	}
	return value, nil
}

func setsockopt[T any](fd, level, option int, value *T) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(value)), unsafe.Sizeof(*value), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// address returns the address of mapped memory as a number. The caller must keep it mapped.
func address(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

func sizeOf[T any]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// flagsAt returns the flags word of a ring in its mapping.
func flagsAt(mem []byte, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&mem[offset : offset+4][0]))
}
