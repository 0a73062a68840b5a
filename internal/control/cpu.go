package control

import (
	"fmt"
	"slices"

	"sluice/internal/config"
	"sluice/internal/linux/thread"
)

// workerCPUs returns the CPU of each worker: those of the configuration or, by default, the last
// CPU that the process may use and the transmitter does not. Interrupts and other processes gather
// on the first CPUs. An unavailable CPU is no error of the file: it may come online, or be allowed,
// later.
func workerCPUs(c *config.Config) ([]int, error) {
	allowed, err := thread.AllowedCPUs()
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	for i, cpu := range c.Workers {
		if !slices.Contains(allowed, cpu) {
			at := c.Problem(&c.Workers, "", "")
			return nil, fmt.Errorf(
				"control: workers (%s:%d:%d): worker %d can't use CPU %d: this process may use CPUs %v only: "+
					"set the CPU online and allow it (cpuset, taskset), or choose one of those", at.File, at.Line,
				at.Column, i, cpu, allowed)
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

// spareCPU returns the first allowed CPU that no worker has, or -1.
func spareCPU(workers []int) int {
	allowed, _ := thread.AllowedCPUs() // empty if they can't be read
	for _, cpu := range allowed {
		if !slices.Contains(workers, cpu) {
			return cpu
		}
	}
	return -1
}
