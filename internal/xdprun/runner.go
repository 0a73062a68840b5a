// Package xdprun keeps an XDP program running in the kernel, on frames that the kernel makes
// (BPF_PROG_RUN with live frames, Documentation/bpf/bpf_prog_run.rst), for as long as wanted: the
// program turns a frame into whatever it has to send and redirects it to a device, or drops it,
// whereupon its page is used again. No socket buffer is ever made.
//
// It needs CAP_BPF and CAP_NET_ADMIN (Permitted), to do it well CAP_SYS_ADMIN (see hold), and a
// kernel of 6.0 or later.
package xdprun

import (
	"errors"
	"math"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/thread"
)

// Params says what a Runner runs.
type Params struct {
	Program *ebpf.Program
	Frame   []byte // what a frame is like when the program first sees it; later, as the program left it
	CPU     int    // that it runs on, and needs all of, or shares

	// Repeat is how many frames a call makes before it ends, whole batches; default: as many as 32
	// bits can say, which takes minutes.
	Repeat uint32
	// Shared says that somebody has the CPU as well who sleeps whenever the program has something
	// to do, until it wakes him (package transmitter). He is to be thread.First; where that is not
	// allowed the program is last, and gives way to everybody else, too. There is no beat, which he
	// is himself.
	Shared bool
	// Beat is how often the kernel is made to choose anew who has the CPU; default 5 ms. On a CPU
	// that others need as well, each has it for that long, or else for ticks of milliseconds, while
	// the others wait.
	//
	// On one that nobody else needs it is for the sake of RCU, whose grace periods wait until every
	// CPU has switched to another thread or been idle. Without a beat they took 36 to 209 ms beside
	// a call, with one of 5 ms 5 to 16.
	Beat time.Duration
}

// Batch is how many times the program runs before what it has redirected goes out. The kernel's
// default is 64; but a frame waits for its batch to end, though nothing else in it is sent. 16
// costs a tenth more a frame, and is how many frames a device is given at once at the most
// (DEV_MAP_BULK_SIZE).
const Batch = 16

const defaultBeat = 5 * time.Millisecond

// Runner keeps a program running. One system call can't do that for ever: it ends when it has made
// all its frames, or with a signal, and is called again at once. In between nothing runs for some
// 50 µs, in which the kernel frees the pages of the one call and makes those of the next; whatever
// the program has redirected before is with the devices.
type Runner struct {
	Params
	hold hold
	call *call
	stop chan struct{}
}

// Start runs the program once, to see whether the kernel takes it, and then for ever.
func Start(p Params) (*Runner, error) {
	if p.Repeat == 0 {
		p.Repeat = math.MaxUint32 / Batch * Batch
	}
	if p.Beat == 0 {
		p.Beat = defaultBeat
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

// mayBeFirst tells whether threads of this process may.
func (r *Runner) mayBeFirst() (may bool) {
	thread.Own(func() { may = thread.First() })
	return may
}

// beat sleeps on the CPU, again and again. Whenever it has woken up and sleeps once more the kernel
// has to choose somebody else for the CPU, and chooses whoever had least of it
// (Documentation/scheduler/sched-eevdf.rst).
func (r *Runner) beat() {
	if err := pin(r.CPU); err != nil {
		return // as it was possible for the calls, it is here
	}
	// Woken as an equal, it would find the CPU taken until the next tick one time in a hundred:
	// turns of up to 4 ms.
	thread.First()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // else it sleeps 50 µs longer
	interval := unix.NsecToTimespec(int64(r.Beat))
	for {
		select {
		case <-r.stop:
			return
		default:
			_ = unix.Nanosleep(&interval, nil)
		}
	}
}

// HandOver has one call end and the next one begin, and returns when that has. It may not be called
// beside Stop.
func (r *Runner) HandOver() { r.call.again() }

// Stop ends the running and waits until it has ended, some 10 ms. It fails if it had ended before.
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

// Ended is closed when the program runs no more, and Stop says why.
func (r *Runner) Ended() <-chan struct{} { return r.call.ended }

// Thread returns the number of the OS thread that runs the program.
func (r *Runner) Thread() int { return r.call.thread }

// hold is a program attached to a device that nobody uses: the loopback device of a network
// namespace that nobody is in. The kernel calls XDP programs directly that are attached somewhere
// or run for long, and patches its code for that (kernel/bpf/dispatcher.c) when the first use of a
// program begins and the last one ends. That takes 10 ms and more each time, at the beginning and
// the end of every call; but not while the program is held.
//
// A namespace takes CAP_SYS_ADMIN. Where it can't be had, the program stands still for that time
// when a call begins anew.
type hold struct {
	namespace *os.File
	link      link.Link
}

// Pauses tells whether the program stands still for 10 ms and more when a call begins anew, for it
// could not be held.
func (r *Runner) Pauses() bool { return r.hold.link == nil }

// holdProgram returns a hold, which is empty if there can be none.
func holdProgram(p *ebpf.Program) (h hold) {
	const loopback = 1 // the index of a namespace's first device
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
