package bed

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Waited returns for how long the calling thread, which must be locked, has been ready to run without a CPU so far; 0 where
// the kernel does not count it. What waits in a trial is not the subject's cost, and says how quiet the machine was.
func Waited() time.Duration {
	t, err := ReadThread("/proc/thread-self/schedstat")
	if err != nil {
		return 0
	}
	return t.Waited
}

// OnCPU calls f on a locked thread that may run on one CPU only, as a worker's thread does.
func OnCPU(cpu int, f func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("bench: reading the CPUs allowed: %w", err)
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("bench: CPU %d: %w (choose one that this process may use)", cpu, err)
	}
	defer unix.SchedSetaffinity(0, &before) // the thread serves other goroutines afterwards
	f()
	return nil
}
