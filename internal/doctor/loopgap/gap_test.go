package loopgap

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMeasure(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	gap, err := Measure(t.Context(), cpu, time.Second) // long enough to get the CPU for a while
	if err != nil {
		t.Fatal(err)
	}
	if n := gap.Iterations(); n < 100 || gap.Max < gap.Quantile(.5) || gap.Max <= 0 {
		t.Errorf("%d iterations, worst gap %d ns, median %d ns", n, gap.Max, gap.Quantile(.5))
	}
	// A context that is done ends the measurement early.
	done, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if _, err := Measure(done, cpu, time.Hour); err != nil || time.Since(began) > time.Minute {
		t.Errorf("took %v after the end: %v", time.Since(began), err)
	}
	if _, err := Measure(t.Context(), 1<<20, time.Second); err == nil {
		t.Error("measured on a CPU that does not exist")
	}
}
