package bed

import (
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/linux/thread"
)

// TestWaitedGrows: two threads that share a CPU wait for each other.
func TestWaitedGrows(t *testing.T) {
	cpu, err := thread.LastCPU()
	if err != nil {
		t.Fatal(err)
	}
	var waited time.Duration
	var done atomic.Bool
	other := make(chan error, 1)
	go func() {
		other <- thread.OnCPU(cpu, func() {
			for !done.Load() {
			}
		})
	}()
	err = thread.OnCPU(cpu, func() {
		for end := time.Now().Add(10 * time.Second); waited == 0 && time.Now().Before(end); {
			waited = Waited()
		}
	})
	done.Store(true)
	if err != nil || <-other != nil || waited == 0 {
		t.Errorf("%v, waited %v", err, waited)
	}
}
