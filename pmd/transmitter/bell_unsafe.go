package transmitter

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

	"sluice/pmd/xdprun"
)

// A bell lets a program wake a thread that waits for it. It is a BPF ring buffer
// (Documentation/bpf/ringbuf.rst) whose contents do not matter: a write to it sends an interrupt to
// the program's own CPU, which wakes the thread.
type bell struct {
	buffer             *ebpf.Map
	pages              [2][]byte
	consumer, producer *uint64 // bytes
	wakeUp             unix.PollFd
}

// The pages of a ring buffer that a process maps in front of its data (kernel/bpf/ringbuf.c).
const (
	consumerPage = 0 // written by the process
	producerPage = 1 // read by the process
)

// newBell returns a bell that has not rung.
func newBell(name string) (b *bell, err error) {
	size := os.Getpagesize()
	b = &bell{}
	if b.buffer,
		err = ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.RingBuf, MaxEntries: uint32(size)}); err != nil {
		return nil, fmt.Errorf("create BPF map %s: %w", name, err)
	}
	b.wakeUp = unix.PollFd{Fd: int32(b.buffer.FD()), Events: unix.POLLIN}
	may := [...]int{consumerPage: unix.PROT_READ | unix.PROT_WRITE, producerPage: unix.PROT_READ}
	var words [len(may)]*uint64
	for i := range may {
		if b.pages[i], err = unix.Mmap(b.buffer.FD(), int64(i*size), size, may[i], unix.MAP_SHARED); err != nil {
			return nil, errors.Join(fmt.Errorf("mmap BPF map %s: %w", name, err), b.close())
		}
		words[i] = (*uint64)(unsafe.Pointer(unsafe.SliceData(b.pages[i])))
	}
	b.consumer, b.producer = words[consumerPage], words[producerPage]
	return b, nil
}

// The words of the record that ring takes, shared with the program.
const (
	bellWaits = iota // written by the thread: its number of waits
	bellRang         // written by the program: the last wait that it ended
	bellWords
)

// ring returns the code with which a program wakes the thread:
//
//	if record.waits == record.rang: goto otherwise      // it does not wait, or was woken
//	record.rang = record.waits
//	write to the ring buffer
//
// The record has bellWords words. R0 to R5 are lost.
func (b *bell) ring(record asm.Register, otherwise string) asm.Instructions {
	const forceWakeup = 1 << 1 // BPF_RB_FORCE_WAKEUP, linux/bpf.h
	return asm.Instructions{
		xdprun.Load(asm.R1, record, bellWaits),
		xdprun.Load(asm.R2, record, bellRang),
		asm.JEq.Reg(asm.R1, asm.R2, otherwise),
		xdprun.Store(record, bellRang, asm.R1),
		asm.LoadMapPtr(asm.R1, b.buffer.FD()),
		asm.Mov.Reg(asm.R2, record), // any bytes will do
		asm.Mov.Imm(asm.R3, xdprun.WordSize),
		asm.Mov.Imm(asm.R4, forceWakeup),
		asm.FnRingbufOutput.Call(),
	}
}

// await waits until the program rings or the time is over, and reports whether it rang. A signal,
// with which the Go runtime asks the thread to come back, may end the wait early. Only one thread
// may call it; the thread keeps its P meanwhile. The record is that of ring.
func (b *bell) await(record []uint64, most time.Duration) bool {
	atomic.StoreUint64(b.consumer, atomic.LoadUint64(b.producer)) // discard earlier rings
	this := atomic.AddUint64(&record[bellWaits], 1)
	limit := unix.NsecToTimespec(int64(most))
	_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&b.wakeUp)), 1, uintptr(unsafe.Pointer(&limit)),
		0, 0, 0)
	return atomic.LoadUint64(&record[bellRang]) == this
}

// close frees the memory. Close programs that use the bell first; otherwise they keep it.
func (b *bell) close() error {
	var errs []error
	for _, p := range b.pages {
		if p != nil {
			errs = append(errs, unix.Munmap(p))
		}
	}
	return errors.Join(append(errs, b.buffer.Close())...)
}
