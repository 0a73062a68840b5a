package xdprun

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Bell is what a program wakes a thread with that waits for it. It is a BPF ring buffer (Documentation/bpf/ringbuf.rst) of which
// nothing matters but that something has been written: an interrupt that the CPU sends itself wakes who waits for that.
type Bell struct {
	ring               *ebpf.Map
	pages              [2][]byte
	consumer, producer *uint64 // bytes
	wakeUp             unix.PollFd
}

// The pages of a ring buffer that a process maps before its data (kernel/bpf/ringbuf.c).
const (
	consumerPage = 0 // which it writes
	producerPage = 1 // which it reads
)

// NewBell returns one that is silent.
func NewBell(name string) (b *Bell, err error) {
	size := os.Getpagesize()
	b = &Bell{}
	if b.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.RingBuf, MaxEntries: uint32(size)}); err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	b.wakeUp = unix.PollFd{Fd: int32(b.ring.FD()), Events: unix.POLLIN}
	may := [...]int{consumerPage: unix.PROT_READ | unix.PROT_WRITE, producerPage: unix.PROT_READ}
	var words [len(may)]*uint64
	for i := range may {
		if b.pages[i], err = unix.Mmap(b.ring.FD(), int64(i*size), size, may[i], unix.MAP_SHARED); err != nil {
			return nil, errors.Join(fmt.Errorf("map %s: %w", name, err), b.Close())
		}
		words[i] = (*uint64)(unsafe.Pointer(unsafe.SliceData(b.pages[i])))
	}
	b.consumer, b.producer = words[consumerPage], words[producerPage]
	return b, nil
}

// What is shared with the program, in words of the record that Ring is told of.
const (
	BellWaits = iota // written by the thread: how often it has waited
	BellRang         // written by the program: the last wait that it has ended
	BellWords
)

// Ring is what a program does to wake the thread, unless that does not wait. R9 is the address of a record of BellWords; all but
// R6 to R9 is lost. A program that has not rung goes on at the block named.
func (b *Bell) Ring(otherwise string) asm.Instructions {
	const forceWakeup = 1 << 1 // BPF_RB_FORCE_WAKEUP, linux/bpf.h
	return asm.Instructions{
		Load(asm.R1, asm.R9, BellWaits),
		Load(asm.R2, asm.R9, BellRang),
		asm.JEq.Reg(asm.R1, asm.R2, otherwise),
		Store(asm.R9, BellRang, asm.R1),
		asm.LoadMapPtr(asm.R1, b.ring.FD()),
		asm.Mov.Reg(asm.R2, asm.R9),
		asm.Mov.Imm(asm.R3, WordSize),
		asm.Mov.Imm(asm.R4, forceWakeup),
		asm.FnRingbufOutput.Call(),
	}
}

// Await waits until the program rings, for at most a time, and tells whether it has; a signal may end the waiting before, by which the Go
// runtime asks the thread to come back. One thread may call it; it keeps its place in that runtime meanwhile. The record is that of Ring.
func (b *Bell) Await(record []uint64, most time.Duration) bool {
	atomic.StoreUint64(b.consumer, atomic.LoadUint64(b.producer)) // whatever rang before
	this := atomic.AddUint64(&record[BellWaits], 1)
	limit := unix.NsecToTimespec(int64(most))
	_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&b.wakeUp)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	return atomic.LoadUint64(&record[BellRang]) == this
}

// Close gives the memory back. Programs that know the bell must be closed first, or keep it.
func (b *Bell) Close() error {
	var errs []error
	for _, p := range b.pages {
		if p != nil {
			errs = append(errs, unix.Munmap(p))
		}
	}
	return errors.Join(append(errs, b.ring.Close())...)
}
