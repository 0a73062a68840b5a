package thread

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LastCPU returns the last CPU that this process may use: the first ones are where interrupts and everyone else gather.
func LastCPU() (last int, err error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return 0, fmt.Errorf("reading the CPUs allowed: %w", err)
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			last = cpu
		}
	}
	return last, nil
}
