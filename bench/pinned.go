package bench

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// onCPU calls f on a locked thread that may run on one CPU only, as a worker's thread does.
func onCPU(cpu int, f func()) error {
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
