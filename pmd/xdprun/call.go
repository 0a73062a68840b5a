package xdprun

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/linux/thread"
)

// call is a thread that sits in a system call and repeats it when it ends.
type call struct {
	runner *Runner
	thread int // its ID

	begun    atomic.Uint64 // calls
	stopping atomic.Bool
	ended    chan struct{}
	spent    Times // final value; like err, written before ended is closed
	err      error
}

// stopSignal interrupts a call. The Go runtime handles it and expects it at any time.
const stopSignal = unix.SIGURG

// begin starts a call.
func (r *Runner) begin() (*call, error) {
	c := &call{runner: r, ended: make(chan struct{})}
	started := make(chan error)
	go thread.Own(func() { // its affinity and signal mask end with the thread
		c.thread = unix.Gettid()
		err := c.settle()
		started <- err
		if err == nil {
			c.err = c.run()
			c.spent, _ = c.times()
			close(c.ended)
		}
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// settle prepares the calling thread to run the program.
func (c *call) settle() error {
	r := c.runner
	if err := pin(r.CPU); err != nil {
		return err
	}
	if err := blockSignals(); err != nil {
		return err
	}
	// At equal priority, it would sometimes keep the CPU for milliseconds from the thread that it
	// wakes.
	if r.Shared && !r.mayBeFirst() {
		if err := thread.Last(); err != nil {
			return err
		}
	}
	if err := Run(r.Program.FD(), r.Frame, Batch); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("run the program on frames of %d bytes: %w: BPF_PROG_RUN with live frames needs "+
			"Linux 6.0 or "+
			"later, and frames from 14 bytes to the size that fits into a page", len(r.Frame), err)
	}
	return nil
}

// pin binds the calling thread to a CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w: choose a CPU that this process may use", cpu, err)
	}
	return nil
}

// perThread is the signal with which the Go runtime changes all threads of a process, one by one
// (runtime/os_linux.go, sigPerThreadSyscall). In programs with C, libpsx uses SIGSYS.
const perThread = unix.Signal(33)

// blockSignals blocks all signals of the calling thread except stopSignal, those that only the
// thread itself can cause, and those that ask every thread for something. Any other signal would
// end a call although it is meant for the process, and any thread can handle it.
func blockSignals() error {
	var set unix.Sigset_t
	for i := range set.Val {
		set.Val[i] = math.MaxUint64
	}
	for _, s := range []unix.Signal{stopSignal, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP,
		unix.SIGSYS, perThread} {
		set.Val[0] &^= 1 << (s - 1)
	}
	return unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil)
}

func (c *call) run() error {
	r := c.runner
	for !c.stopping.Load() {
		c.begun.Add(1)
		switch err := Run(r.Program.FD(), r.Frame, r.Repeat); {
		case err == nil, errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOMEM): // no page is free now, nor would there be one for a socket buffer
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		default:
			return fmt.Errorf("xdprun: run the program: %w", err)
		}
	}
	return nil
}

// again ends a call and waits until the next one begins.
func (c *call) again() {
	before := c.begun.Load()
	c.interrupt(func() bool { return c.begun.Load() != before })
}

// interrupt sends signals until done returns true or the thread has ended: a signal that arrives
// just before a call begins does not interrupt it.
func (c *call) interrupt(done func() bool) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !done() {
		_ = unix.Tgkill(os.Getpid(), c.thread, stopSignal) // fails if the thread has ended
		select {
		case <-c.ended:
			return
		case <-again.C:
		}
	}
}

// end stops the thread and waits until it has ended.
func (c *call) end() error {
	c.stopping.Store(true)
	c.interrupt(func() bool { return false })
	return c.err
}

// times returns the thread's times.
func (c *call) times() (t Times, err error) {
	select {
	case <-c.ended:
		return c.spent, nil
	default:
	}
	if t.Ran, t.Waited, err = thread.Spent(fmt.Sprintf("/proc/self/task/%d", c.thread)); err != nil {
		return t, fmt.Errorf("xdprun: %w", err)
	}
	return t, nil
}
