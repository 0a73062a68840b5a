package xdprun

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES: the program's verdicts apply to real frames

// runAttributes is the part of union bpf_attr (linux/bpf.h) for BPF_PROG_RUN.
type runAttributes struct {
	program, verdict      uint32
	sizeIn, sizeOut       uint32
	dataIn, dataOut       uint64
	repeat, duration      uint32
	ctxSizeIn, ctxSizeOut uint32
	ctxIn, ctxOut         uint64
	flags, cpu, batchSize uint32
	_                     uint32
}

// Run runs an XDP program on repeat copies of a frame. It returns EINTR if a signal ended it early,
// whereas ebpf.Program.Run would start again.
func Run(program int, frame []byte, repeat uint32) error {
	a := runAttributes{
		program: uint32(program), repeat: repeat, flags: liveFrames, batchSize: Batch,
		dataIn: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(frame)))), sizeIn: uint32(len(frame)),
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
	runtime.KeepAlive(frame)
	if errno != 0 {
		return errno
	}
	return nil
}
