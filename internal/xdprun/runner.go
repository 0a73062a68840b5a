// Package xdprun keeps an XDP program running in the kernel, on frames that the kernel makes (BPF_PROG_RUN with live
// frames, Documentation/bpf/bpf_prog_run.rst), for as long as wanted: the program turns a frame into whatever it has to
// send and redirects it to a device, or drops it, whereupon its page is used again. No socket buffer is ever made.
//
// It needs CAP_BPF and CAP_NET_ADMIN, and a kernel of 6.0 or later.
package xdprun

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/thread"
)

// Params says what a Runner runs.
type Params struct {
	Program *ebpf.Program
	Frame   []byte // what a frame is like when the program first sees it; later, as the program left it
	CPU     int    // that it runs on, and needs all of, or shares

	// Repeat is how many frames a call makes before it ends, whole batches; default: as many as 32 bits can say, which takes minutes.
	Repeat uint32
	// Period is how long a call lasts before another one takes over; default 20 s, in which none makes all its frames.
	Period time.Duration
	// Shared says that somebody has the CPU as well who sleeps whenever the program has something to do, until it wakes him (Bell).
	// The program gives way to him, as to everybody else; and there is no beat, which he is himself.
	Shared bool
	// Beat is how often the kernel is made to choose anew who has the CPU; default 5 ms. On a CPU that others need as well,
	// each has it for that long, or else for ticks of milliseconds, while the others wait.
	//
	// On one that nobody else needs it is for the sake of RCU, whose grace periods wait until every CPU has switched to another
	// thread or been idle. Without a beat they took 36 to 209 ms beside a call, with one of 5 ms 5 to 16.
	Beat time.Duration
}

// Batch is how many times the program runs before what it has redirected goes out. The kernel's default is 64; but a frame
// waits for its batch to end, though nothing else in it is sent. 16 costs a tenth more a frame, and is how many frames a
// device is given at once at the most (DEV_MAP_BULK_SIZE).
const Batch = 16

const (
	defaultPeriod = 20 * time.Second
	defaultBeat   = 5 * time.Millisecond
)

// Runner keeps a program running. One system call can't do that for ever, and between two calls nothing would run for some
// 50 µs: the kernel frees the pages of the one and makes those of the other. So before a call ends, another thread begins
// the next one, and for some moments both run in turns. That changes nothing for the program: both are on one CPU, which
// neither leaves in the middle of a batch (local_bh_disable), and what a batch has redirected is gone when it ends. Onto
// another CPU the threads could be moved from outside only: a program that must not run twice at once asks where it runs.
//
// That calls overlap has another use. The kernel calls XDP programs directly that run for long, and patches its code for that
// (kernel/bpf/dispatcher.c) when the first use of a program begins and when the last one ends, which takes 10 ms and more.
type Runner struct {
	Params

	mu    sync.Mutex // of the rest
	now   *call
	spent Times // by the calls before
	stop  chan struct{}
	done  chan struct{} // the hand-overs have ended
	err   error         // of the last hand-over that failed

	ended chan struct{} // see Ended
	end   func()        // closes it
}

// Start runs the program once, to see whether the kernel takes it, and then for ever.
func Start(p Params) (*Runner, error) {
	if p.Repeat == 0 {
		p.Repeat = math.MaxUint32 / Batch * Batch
	}
	if p.Period == 0 {
		p.Period = defaultPeriod
	}
	if p.Beat == 0 {
		p.Beat = defaultBeat
	}
	r := &Runner{Params: p, stop: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.ended) })
	var err error
	if r.now, err = r.begin(); err != nil {
		return nil, err
	}
	if !r.Shared {
		go thread.Own(r.beat)
	}
	go r.handOverOften()
	return r, nil
}

// beat sleeps on the CPU, again and again. Whenever it has woken up and sleeps once more the kernel has to choose somebody else
// for the CPU, and chooses whoever had least of it (Documentation/scheduler/sched-eevdf.rst).
func (r *Runner) beat() {
	if err := pin(r.CPU); err != nil {
		return // as it was possible for the calls, it is here
	}
	// Woken as an equal, it would find the CPU taken until the next tick one time in a hundred: turns of up to 4 ms.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
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

// handOverOften hands over once a period until Stop.
func (r *Runner) handOverOften() {
	defer close(r.done)
	tick := time.NewTicker(r.Period)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
			if err := r.HandOver(); err != nil {
				r.mu.Lock()
				r.err = err // the call that runs goes on, and begins anew by itself
				r.mu.Unlock()
			}
		}
	}
}

// HandOver begins a call on another thread and then ends the one that runs.
func (r *Runner) HandOver() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.begin()
	if err != nil {
		return err
	}
	next.settleIn()
	old := r.now
	r.now = next
	t, err := old.end()
	r.spent.Ran += t.Ran
	r.spent.Waited += t.Waited
	return err
}

// Stop ends the running and waits until it has ended, some 10 ms.
func (r *Runner) Stop() error {
	close(r.stop)
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.now.end()
	r.end()
	return errors.Join(r.err, err)
}

// Times is how threads have spent their time.
type Times struct {
	Ran    time.Duration
	Waited time.Duration // ready to run, without a CPU
}

// Times returns how the threads that ran the program have spent their time since Start.
func (r *Runner) Times() (Times, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.now.times()
	return Times{Ran: t.Ran + r.spent.Ran, Waited: t.Waited + r.spent.Waited}, err
}

// Ended is closed when the program runs no more, and Stop says why.
func (r *Runner) Ended() <-chan struct{} { return r.ended }

// Thread returns the number of the OS thread that runs the program now.
func (r *Runner) Thread() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.thread
}
