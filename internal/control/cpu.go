package control

import (
	"fmt"
	"slices"

	"sluice/internal/config"
	"sluice/internal/thread"
)

// workerCPUs returns the CPU of each worker: those of the configuration, or the last one that the process may use and the
// transmitter has not, since the first ones are where interrupts and everyone else gather.
func workerCPUs(c *config.Config) ([]int, error) {
	allowed, err := thread.AllowedCPUs()
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	for i, cpu := range c.Workers {
		if !slices.Contains(allowed, cpu) {
			return nil, c.Problem(&c.Workers, fmt.Sprintf("worker %d can't have CPU %d", i, cpu), "choose among those that `nproc` counts and taskset allows")
		}
	}
	if len(c.Workers) > 0 {
		return c.Workers, nil
	}
	last := len(allowed) - 1
	if allowed[last] == c.Transmitter.CPU && last > 0 {
		last--
	}
	return allowed[last : last+1], nil
}

// spareCPU returns the first CPU allowed that no worker has, or -1.
func spareCPU(workers []int) int {
	allowed, _ := thread.AllowedCPUs() // none if they can't be read
	for _, cpu := range allowed {
		if !slices.Contains(workers, cpu) {
			return cpu
		}
	}
	return -1
}
