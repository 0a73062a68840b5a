package thread

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// AllowedCPUs returns the numbers of the CPUs that the calling thread may use, at least one, in
// order. They are those of the process, unless the thread is bound (OnCPU).
func AllowedCPUs() (cpus []int, err error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("read which CPUs this process may use: %w", err)
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// LastCPU returns the last CPU that this process may use. Interrupts and other threads gather on
// the first ones.
func LastCPU() (int, error) {
	cpus, err := AllowedCPUs()
	if err != nil {
		return 0, err
	}
	return cpus[len(cpus)-1], nil
}

// OnCPU calls f on a locked thread that may run on one CPU only. Afterwards the thread may run
// where it could before.
func OnCPU(cpu int, f func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read which CPUs this process may use: %w", err)
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("CPU %d: %w: choose a CPU that this process may use", cpu, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }() // the thread will serve other goroutines
	f()
	return nil
}
