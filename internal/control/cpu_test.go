package control

import (
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
)

// TestWorkerLeavesTheTransmitterItsCPU: the default CPU of a worker is not the transmitter's, if
// there is another.
func TestWorkerLeavesTheTransmitterItsCPU(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	chosen := func(transmitter int) int {
		cpus, err := workerCPUs(&config.Config{Transmitter: config.Transmitter{CPU: transmitter}})
		if err != nil || len(cpus) != 1 || !allowed.IsSet(cpus[0]) {
			t.Fatal(cpus, err)
		}
		return cpus[0]
	}
	alone := chosen(-1)
	if got := chosen(alone); (got == alone) != (allowed.Count() == 1) {
		t.Errorf("with the transmitter on CPU %d of %d the worker has CPU %d", alone, allowed.Count(), got)
	}
}
