package afxdp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Reasons why a device can't be a port, for callers that distinguish them. The errors that wrap
// them name the device and suggest a fix.
var (
	ErrUnsupported  = errors.New("the kernel has no AF_XDP sockets")
	ErrPermission   = errors.New("permission denied")
	ErrMemlock      = errors.New("the memory can't be locked")
	ErrNoDevice     = errors.New("no such device")
	ErrDown         = errors.New("the device is down")
	ErrMTU          = errors.New("the MTU is too large for the buffers")
	ErrParts        = errors.New("frames have more parts than the port can receive")
	ErrQueues       = errors.New("the receive queues do not fit")
	ErrProgram      = errors.New("the device has an XDP program already")
	ErrDetached     = errors.New("its XDP program was detached, so no frames arrive")
	ErrNative       = errors.New("the device refuses native XDP")
	ErrRedirect     = errors.New("native XDP of the device loses redirected frames")
	ErrZeroCopy     = errors.New("the device refuses zero-copy mode")
	ErrRoom         = errors.New("buffers are too small for zero-copy mode")
	ErrReplay       = errors.New("the driver damages frames in zero-copy mode when it runs short of buffers")
	ErrDirect       = errors.New("the driver loses frames in zero-copy mode without indirect descriptors")
	ErrHeld         = errors.New("the kernel may still use the buffers of the closed port")
	ErrBusy         = errors.New("the device is in use")
	ErrTagsStripped = errors.New("the device strips VLAN tags")
)

// ErrFiltered means that a filter refuses bpf(2) whatever the capabilities.
var ErrFiltered = errors.New("a system call filter (seccomp) forbids bpf(2), as the default profiles of Docker and " +
	"podman do in older versions and without CAP_BPF or CAP_SYS_ADMIN: start the container with --security-opt " +
	"seccomp=PROFILE, with a profile that allows bpf, or with seccomp=unconfined (systemd: SystemCallFilter=bpf)")

// Filtered reports whether a system call filter refuses bpf(2) to the calling thread. The kernel
// itself says of an unknown command that it is invalid, whatever the privileges.
func Filtered() bool {
	_, _, errno := unix.Syscall(unix.SYS_BPF, ^uintptr(0), 0, 0)
	return errno != unix.EINVAL
}

// step is a step of Prepare or Open that the kernel can refuse.
type step string

const (
	changeSettings step = "change the settings"
	createSocket   step = "create the socket"
	registerMemory step = "register the memory"
	createRing     step = "create the rings"
	loadProgram    step = "load the XDP program"
	attachProgram  step = "attach the XDP program"
	bindSocket     step = "bind the socket"
	setOption      step = "set a socket option"
)

// refused explains the kernel's error in a step.
func refused(s step, err error) error {
	say := func(kind error, advice string) error {
		return fmt.Errorf("%s: %w (%w): %s", s, kind, err, advice)
	}
	if s == loadProgram && errors.Is(err, unix.EPERM) { // the library adds advice that is wrong since Linux 5.11
		if err = unix.EPERM; Filtered() {
			return fmt.Errorf("%s: %w (%w): %w", s, ErrPermission, err, ErrFiltered)
		}
	}
	switch {
	case errors.Is(err, unix.EAFNOSUPPORT):
		return say(ErrUnsupported, "boot a kernel that was built with CONFIG_XDP_SOCKETS=y")
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return say(ErrPermission, "run as root, or with CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK")
	case errors.Is(err, unix.ENODEV):
		return say(ErrNoDevice, "it has just disappeared: try again when it is back")
	case errors.Is(err, unix.ENETDOWN):
		return say(ErrDown, "set it up first")
	case s == registerMemory && (errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM)):
		return say(ErrMemlock, "grant CAP_IPC_LOCK, or raise the limit (ulimit -l, LimitMEMLOCK=) to the size of the "+
			"memory times the number of ports")
	case s == registerMemory && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s: %w: buffers larger than a page need hugepages, "+
			"and a kernel that accepts such buffers (6.18 does not): "+
			"choose at most 4096 bytes", s, err)
	case s == attachProgram && (errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST)):
		return say(ErrProgram, "another program has just attached one: stop that program")
	case s == loadProgram && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s: %w: kernels before 5.18 load no programs for frames in several fragments", s, err)
	case s == bindSocket && errors.Is(err, unix.EBUSY):
		return say(ErrBusy, "another AF_XDP socket uses this queue: stop the program that holds it")
	case s == bindSocket && errors.Is(err, unix.EINVAL):
		return say(ErrQueues, "the queue has just disappeared: see `ethtool -l`")
	}
	return fmt.Errorf("%s: %w", s, err)
}
