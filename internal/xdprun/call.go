package xdprun

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/thread"
)

// call is a thread that sits in a system call, and calls again when that has ended.
type call struct {
	runner *Runner
	thread int // its number

	begun    atomic.Uint64 // calls
	stopping atomic.Bool
	ended    chan struct{}
	spent    Times // in the end; like err written before ended is closed
	err      error
}

// stopSignal interrupts a call. The Go runtime handles it and expects it at any time.
const stopSignal = unix.SIGURG

// begin starts a call.
func (r *Runner) begin() (*call, error) {
	c := &call{runner: r, ended: make(chan struct{})}
	started := make(chan error)
	go thread.Own(func() { // which takes its CPU and its signals with it
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

// settle makes the calling thread fit to run the program.
func (c *call) settle() error {
	r := c.runner
	if err := pin(r.CPU); err != nil {
		return err
	}
	if err := blockSignals(); err != nil {
		return err
	}
	// as an equal it would now and then keep the CPU from whoever it wakes, for milliseconds
	if r.Shared && !r.mayBeFirst() {
		if err := thread.Last(); err != nil {
			return err
		}
	}
	if err := Run(r.Program.FD(), r.Frame, Batch); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("run a program on frames of %d bytes: %w (BPF_PROG_RUN with live frames takes Linux 6.0 "+
			"or later, and frames from 14 bytes to what a page holds)", len(r.Frame), err)
	}
	return nil
}

// pin binds the calling thread to a CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w (choose a CPU that this process may use)", cpu, err)
	}
	return nil
}

// perThread is the signal by which the Go runtime changes all threads of a process, one by one
// (runtime/os_linux.go, sigPerThreadSyscall); where C has part in it, libpsx takes SIGSYS.
const perThread = unix.Signal(33)

// blockSignals leaves only stopSignal to the calling thread, those that it can only cause itself,
// and those that ask every thread for something: any other would end a call, though it is meant for
// the process and any thread can handle it.
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
		case errors.Is(err, unix.ENOMEM): // just now there was no page, nor would there be one for a socket buffer
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		default:
			return fmt.Errorf("xdprun: run a program: %w", err)
		}
	}
	return nil
}

// again has a call end, and waits until the next one begins.
func (c *call) again() {
	before := c.begun.Load()
	c.interrupt(func() bool { return c.begun.Load() != before })
}

// interrupt interrupts a call until that has led to something, or the thread has ended: a signal
// that comes just before a call begins does not interrupt it.
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

// end ends the calling, and waits until it has ended.
func (c *call) end() error {
	c.stopping.Store(true)
	c.interrupt(func() bool { return false })
	return c.err
}

// times returns what the thread has spent.
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
