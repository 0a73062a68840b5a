package thread

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLastCPUIsAllowed checks that the result is in the thread's mask.
func TestLastCPUIsAllowed(t *testing.T) {
	Own(func() {
		var only unix.CPUSet
		only.Set(0)
		if err := unix.SchedSetaffinity(0, &only); err != nil {
			t.Error(err)
		}
		if cpu, err := LastCPU(); err != nil || cpu != 0 {
			t.Errorf("CPU %d, %v", cpu, err)
		}
	})
}
