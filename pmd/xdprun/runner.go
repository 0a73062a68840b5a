// Package xdprun keeps an XDP program running in the kernel on frames that the kernel makes
// (BPF_PROG_RUN with live frames, Documentation/bpf/bpf_prog_run.rst). The program turns a frame
// into one to send and redirects it to a device, or drops it, and its page is reused. No socket
// buffers are made.
//
// It needs Linux 6.0 or later, CAP_BPF and CAP_NET_ADMIN (Permitted), and CAP_SYS_ADMIN to run
// without pauses (see hold).
package xdprun

import (
	"errors"
	"math"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/thread"
)

// Params holds the parameters of a Runner.
type Params struct {
	Program *ebpf.Program
	Frame   []byte // a frame's contents when the program first sees it; later, what the program left in it
	CPU     int    // the CPU on which it runs; it needs all of it or shares it

	// Repeat is the number of frames that a call makes before it ends, in whole batches; default:
	// the maximum of 32 bits, which takes minutes.
	Repeat uint32
	// Shared means that another thread uses the CPU, too. It sleeps whenever the program has work,
	// until the program wakes it (package transmitter). It should be thread.First; where that is
	// not permitted, the program's thread is last, and gives way to all other threads as well.
	// There is no beat, because the other thread has the same effect.
	Shared bool
}

// Batch is the number of program runs before redirected frames leave. A frame waits for the end of
// its batch, even if the rest of the batch sends nothing. The kernel's default is 64. 16 costs a
// tenth more per frame, and is the maximum number of frames given to a device at once
// (DEV_MAP_BULK_SIZE).
const Batch = 16

// beatInterval is the time after which the kernel is made to choose a thread for the CPU again. If
// others need the CPU, each has it for that long while the others wait; without a beat, for ticks
// of milliseconds.
//
// If no other thread needs the CPU, the beat serves RCU, whose grace periods wait until every CPU
// has switched threads or been idle. Beside a call, grace periods took 36 to 209 ms without a beat,
// and 5 to 16 ms with one of 5 ms.
const beatInterval = 5 * time.Millisecond

// Runner keeps a program running. A system call ends when it has made all its frames or gets a
// signal, so it is repeated at once. In between, nothing runs for about 50 µs, in which the kernel
// frees the pages of one call and makes those of the next. Frames redirected before are already
// with the devices.
type Runner struct {
	Params
	hold hold
	call *call
	stop chan struct{}
}

// Start runs the program once to see whether the kernel accepts it, and then keeps it running.
func Start(p Params) (*Runner, error) {
	if p.Repeat == 0 {
		p.Repeat = math.MaxUint32 / Batch * Batch
	}
	r := &Runner{Params: p, stop: make(chan struct{})}
	r.hold = holdProgram(p.Program)
	var err error
	if r.call, err = r.begin(); err != nil {
		return nil, errors.Join(err, r.hold.release())
	}
	if !r.Shared {
		go thread.Own(r.beat)
	}
	return r, nil
}

// mayBeFirst reports whether threads of this process may be thread.First.
func (r *Runner) mayBeFirst() (may bool) {
	thread.Own(func() { may = thread.First() })
	return may
}

// beat repeatedly sleeps on the CPU. Each time it wakes up and sleeps again, the kernel has to
// choose another thread for the CPU, and chooses the one that had the least of it
// (Documentation/scheduler/sched-eevdf.rst).
func (r *Runner) beat() {
	if err := pin(r.CPU); err != nil {
		return // can't fail: it worked for the calls
	}
	// At equal priority, one wake-up in a hundred would find the CPU taken until the next tick:
	// turns of up to 4 ms.
	thread.First()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // otherwise it sleeps 50 µs longer
	pause := unix.NsecToTimespec(int64(beatInterval))
	for {
		select {
		case <-r.stop:
			return
		default:
			_ = unix.Nanosleep(&pause, nil)
		}
	}
}

// HandOver ends one call and returns when the next one has begun. It must not be called
// concurrently with Stop.
func (r *Runner) HandOver() { r.call.again() }

// Stop ends the run and waits until it has ended, some 10 ms. It returns an error if the run had
// failed before.
func (r *Runner) Stop() error {
	close(r.stop)
	return errors.Join(r.call.end(), r.hold.release())
}

// Times is how a thread has spent its time.
type Times struct {
	Ran    time.Duration
	Waited time.Duration // ready to run, without a CPU
}

// Times returns how the thread that runs the program has spent its time since Start.
func (r *Runner) Times() (Times, error) { return r.call.times() }

// Ended returns a channel that is closed when the program no longer runs; Stop then returns the
// reason.
func (r *Runner) Ended() <-chan struct{} { return r.call.ended }

// Thread returns the ID of the OS thread that runs the program.
func (r *Runner) Thread() int { return r.call.thread }

// hold is a program attached to an unused device: the loopback device of an empty network
// namespace. The kernel calls XDP programs directly if they are attached to a device or run for
// long. It patches its code for that (kernel/bpf/dispatcher.c) when the first use of a program
// begins and when the last one ends, which takes 10 ms and more at the beginning and end of every
// call, unless the program is held.
//
// Creating a namespace requires CAP_SYS_ADMIN. Without it, the program stops for that time between
// two calls.
type hold struct {
	namespace *os.File
	link      link.Link
}

// Pauses reports whether the program stops for 10 ms and more between two calls because it could
// not be held.
func (r *Runner) Pauses() bool { return r.hold.link == nil }

// holdProgram returns a hold, which is empty if it could not be created.
func holdProgram(p *ebpf.Program) (h hold) {
	const loopback = 1 // index of a namespace's first device
	thread.Own(func() {
		if unix.Unshare(unix.CLONE_NEWNET) != nil {
			return
		}
		namespace, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return
		}
		attached, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: loopback, Flags: link.XDPGenericMode})
		if err != nil {
			namespace.Close()
			return
		}
		h = hold{namespace, attached}
	})
	return h
}

func (h *hold) release() error {
	if h.link == nil {
		return nil
	}
	return errors.Join(h.link.Close(), h.namespace.Close())
}
