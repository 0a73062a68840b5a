package ethtool

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl passes the request in memory to the kernel.
func (s *Socket) ioctl(device string) error {
	var r struct { // ifreq
		name   [unix.IFNAMSIZ]byte
		memory unsafe.Pointer
		_      [24 - unsafe.Sizeof(uintptr(0))]byte
	}
	if len(device) >= len(r.name) {
		return unix.ENODEV
	}
	copy(r.name[:], device)
	r.memory = unsafe.Pointer(unsafe.SliceData(s.memory))
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&r))); errno != 0 {
		return errno
	}
	return nil
}
