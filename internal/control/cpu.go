package control

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
)

// workerCPUs returns the CPU of each worker: those of the configuration, or the last one that the process may use and the
// transmitter has not, since the first ones are where interrupts and everyone else gather.
func workerCPUs(c *config.Config) ([]int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("control: reading the CPUs allowed: %w", err)
	}
	for i, cpu := range c.Workers {
		if !allowed.IsSet(cpu) {
			return nil, c.Problem(&c.Workers, fmt.Sprintf("worker %d can't have CPU %d", i, cpu), "choose among those that `nproc` counts and taskset allows")
		}
	}
	if len(c.Workers) > 0 {
		return c.Workers, nil
	}
	for cpu := len(allowed)*64 - 1; ; cpu-- {
		if allowed.IsSet(cpu) && (cpu != c.Transmitter.CPU || allowed.Count() == 1) {
			return []int{cpu}, nil
		}
	}
}

// spareCPU returns the first CPU allowed that no worker has, or -1.
func spareCPU(workers []int) int {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &allowed); err != nil {
		return -1
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) && !slices.Contains(workers, cpu) {
			return cpu
		}
	}
	return -1
}
