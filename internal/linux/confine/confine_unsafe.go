package confine

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// onAllThreads makes every thread of the process do a system call that affects only its caller. New
// threads inherit the effect. Package psx also works in programs with C code, unlike
// syscall.AllThreadsSyscall.
func onAllThreads(call, a, b, c uintptr) error {
	// prctl requires that unused arguments are 0, so all six are passed.
	if _, _, errno := psx.Syscall6(call, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// permitted returns the permitted capabilities of the process.
func permitted() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, err
	}
	return uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted), nil
}

// setCapabilities sets the permitted and effective sets, and empties the inheritable set.
func setCapabilities(set uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		part := uint32(set >> (32 * i))
		data[i] = unix.CapUserData{Permitted: part, Effective: part}
	}
	err := onAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&data)
	return err
}

// installFilter installs a seccomp filter; the kernel applies it to all threads. It turns off the
// mitigation of speculation (SPEC_ALLOW), which would slow down every system call of a worker
// (Linux, Documentation/userspace-api/spec_ctrl.rst).
func installFilter(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(&program)
	if errno != 0 {
		return errno
	}
	if thread != 0 {
		return unix.ESRCH // that thread has another program's filter
	}
	return nil
}
