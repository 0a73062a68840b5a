package dataplane

import (
	"sync"
	"testing"
	"time"
)

// TestSnapshotsOfRunningWorkers has readers ask workers that run on threads of their own, forwarding nothing; under the
// race detector it shows that reading takes no part in the frame path.
func TestSnapshotsOfRunningWorkers(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	var running, reading sync.WaitGroup
	for _, w := range r.s.Workers {
		running.Go(func() {
			if err := w.Run(0); err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		reading.Go(func() {
			for range 20 {
				for i, w := range r.s.Workers {
					s, err := w.Snapshot(10 * time.Second)
					if err != nil {
						t.Error(err)
						return
					}
					p := s.Ports[0]
					if s.Worker != i || p.Number != i || s.Free+p.Buffers.Filled+p.Buffers.Spare != s.Buffers {
						t.Errorf("worker %d: %d free, %+v, of %d buffers", s.Worker, s.Free, p.Buffers, s.Buffers)
					}
				}
			}
		})
	}
	reading.Wait()
	for _, w := range r.s.Workers {
		w.Stop()
	}
	running.Wait()
	if _, err := r.s.Workers[0].Snapshot(time.Millisecond); err == nil {
		t.Error("a worker that does not run answers")
	}
	if err := r.s.Workers[0].Run(1 << 9); err == nil {
		t.Error("a worker runs on a CPU that does not exist")
	}
}
