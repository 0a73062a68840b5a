package main

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseSockets makes the kernel refuse sockets of a family to all threads from now on. The seccomp
// filter (seccomp(2)) checks the number and first argument of each system call.
func refuseSockets(family uint32) error {
	const number, argument0 = 0, 16 // offsets in struct seccomp_data; lower half of the argument in little endian
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
	}
	answer := func(with uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with} }
	filter := []unix.SockFilter{
		load(number), unless(unix.SYS_SOCKET, 3),
		load(argument0), unless(family, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(&program)
	if errno != 0 {
		return errno
	}
	return nil
}
