package live

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/lab"
)

// runner keeps an XDP program running on frames that the kernel makes, on an OS thread and a CPU of its own. A program
// that has nothing to send returns XDP_DROP, whereupon its frame is used again.
//
// One system call can't run it for ever: it makes as many frames as a number of 32 bits can say, which takes minutes.
// Between two calls nothing runs, for some 50 µs: the kernel frees the pages of the one and makes those of the other.
type runner struct {
	program *ebpf.Program
	frame   []byte // what a frame is like when the program first sees it; later, as the program left it
	repeat  uint32 // frames a call
	thread  int    // the number of the OS thread

	stopping atomic.Bool
	ended    chan struct{}
	err      error // written before ended is closed
}

// stopSignal interrupts a call. The Go runtime handles it and expects it at any time.
const stopSignal = unix.SIGURG

// startRunner runs the program once, to see whether the kernel takes it, and then for ever.
func startRunner(program *ebpf.Program, frame []byte, repeat uint32, cpu int) (*runner, error) {
	r := &runner{program: program, frame: frame, repeat: repeat, ended: make(chan struct{})}
	started := make(chan error)
	go lab.OwnThread(func() { // which takes its CPU, its signals and its namespace with it
		r.thread = unix.Gettid()
		held, err := r.settle(cpu)
		started <- err
		if err == nil {
			r.err = errors.Join(r.run(), held.Close())
			close(r.ended)
		}
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// settle makes the calling thread fit to run the program. What it returns is to be closed in the end.
func (r *runner) settle(cpu int) (held io.Closer, err error) {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("CPU %d: %w (choose a CPU that this process may use)", cpu, err)
	}
	if err := blockSignals(); err != nil {
		return nil, err
	}
	if held, err = r.hold(); err != nil {
		return nil, err
	}
	if err := runLive(r.program.FD(), r.frame, 1); err != nil && !errors.Is(err, unix.EINTR) {
		err = fmt.Errorf("run a program on frames of %d bytes: %w (it needs root and a kernel of 6.0 or later)", len(r.frame), err)
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// hold attaches the program to a device that nobody uses: the loopback device of a network namespace that only the
// calling thread has. The kernel calls XDP programs directly that are attached somewhere or run for long, and patches its
// code for that (kernel/bpf/dispatcher.c) when the first use of a program begins and the last one ends. That takes 10 ms
// and more each time, at the beginning and the end of every call; but not while the program is held.
func (r *runner) hold() (io.Closer, error) {
	const loopback = 1 // the index of a namespace's first device
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("network namespace: %w (it needs root)", err)
	}
	held, err := link.AttachXDP(link.XDPOptions{Program: r.program, Interface: loopback, Flags: link.XDPGenericMode})
	if err != nil {
		return nil, fmt.Errorf("hold a program: %w", err)
	}
	return held, nil
}

// blockSignals leaves only stopSignal to the calling thread, and those that it can only cause itself: any other would
// end a call, though it is meant for the process and any thread can handle it.
func blockSignals() error {
	var set unix.Sigset_t
	for i := range set.Val {
		set.Val[i] = math.MaxUint64
	}
	for _, s := range []unix.Signal{stopSignal, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP} {
		set.Val[0] &^= 1 << (s - 1)
	}
	return unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil)
}

func (r *runner) run() error {
	for !r.stopping.Load() {
		if err := runLive(r.program.FD(), r.frame, r.repeat); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("live: run a program: %w", err)
		}
	}
	return nil
}

// stop ends the running and waits until it has ended.
func (r *runner) stop() error {
	r.stopping.Store(true)
	again := time.NewTicker(time.Millisecond) // a signal that comes just before a call begins does not interrupt it
	defer again.Stop()
	for {
		unix.Tgkill(os.Getpid(), r.thread, stopSignal) // fails if the thread has ended
		select {
		case <-r.ended:
			return r.err
		case <-again.C:
		}
	}
}

// Thread is how a thread has spent its time since it began.
type Thread struct {
	Ran    time.Duration
	Waited time.Duration // ready to run, without a CPU
}

// times reads the thread's schedstat file: both times in ns, and something else (Documentation/scheduler/sched-stats.rst).
func (r *runner) times() (t Thread, err error) {
	path := fmt.Sprintf("/proc/self/task/%d/schedstat", r.thread)
	text, err := os.ReadFile(path)
	if err != nil {
		return t, fmt.Errorf("live: %w", err)
	}
	if _, err := fmt.Sscan(string(text), &t.Ran, &t.Waited); err != nil {
		return t, fmt.Errorf("live: %s: %w", path, err)
	}
	return t, nil
}
