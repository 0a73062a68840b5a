package dataplane

import (
	"sync"
	"testing"
	"time"

	"sluice/pmd/mem"
)

// TestSnapshotsOfRunningWorkers has several readers take snapshots of workers that run on their own
// threads and forward nothing. Under the race detector, it shows that readers do not touch the
// frame path.
func TestSnapshotsOfRunningWorkers(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	var running, reading sync.WaitGroup
	for _, w := range r.s.Workers {
		running.Go(func() {
			if err := w.Run(0, nil); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		reading.Go(func() {
			for range 5 {
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
	if err := r.s.Workers[0].Run(1<<9, nil); err == nil {
		t.Error("a worker runs on a CPU that does not exist")
	}
}

// TestWorkersCrossConcurrently runs two workers on goroutines of their own, with all frames
// crossing, while ports go and come back. It is for the race detector, and checks conservation at
// the end.
func TestWorkersCrossConcurrently(t *testing.T) {
	const ports, ring = 4, 128
	r := newRig(t, ports, 2, nil)
	drivers := func(i int) *mem.Null {
		d := mem.NewNull(r.params.Memory.Bytes(), ring, 60, data(i, (i+1)%ports, lossless, 60, 0),
			data(i, (i+1)%ports, 0, 60, 0))
		d.Fill(r.s.Parked(i))
		return d
	}
	publish := func(change func(i int) Link) {
		plan := &Plan{}
		for i := range ports {
			plan.Links = append(plan.Links, change(i))
		}
		r.s.Publish(plan)
		for !r.s.Adopted(plan) {
			time.Sleep(100 * time.Microsecond)
		}
	}
	absent := func(int) Link { return Link{} }
	closed := func(int) Link { return Link{Closed: true} }
	var running sync.WaitGroup
	for _, w := range r.s.Workers {
		running.Go(func() {
			if err := w.Run(0, nil); err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		publish(absent)
		publish(closed)
		publish(func(i int) Link { return Link{Driver: drivers(i), Up: true, TXRing: ring} })
		time.Sleep(10 * time.Millisecond)
	}
	publish(absent)
	publish(closed)
	time.Sleep(20 * time.Millisecond) // until the last buffers have come home
	for _, w := range r.s.Workers {
		w.Stop()
	}
	running.Wait()
	if err := r.s.Check(); err != nil {
		t.Error(err)
	}
	for i := range ports {
		if p := r.port(i); p.TXFrames == 0 {
			t.Errorf("port %d sent nothing", i)
		}
	}
}

// TestWorkOfFrames checks that iterations count if they moved frames and not if they were idle, and
// that bursts count as received.
func TestWorkOfFrames(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	r.run(100_000)
	before, idle := r.s.Workers[0].Look(r.now), r.port(0).RXBursts
	r.run(100_000)
	if after := r.s.Workers[0].Look(r.now); after.Work != before.Work {
		t.Errorf("%+v while nothing moved, from %+v", after.Work, before.Work)
	}
	for i := range 10 {
		r.send(0, data(0, 1, 1, 64, i))
		r.run(10_000)
	}
	after := r.s.Workers[0].Look(r.now)
	n, ns := after.Work.Iterations-before.Work.Iterations, after.Work.NS-before.Work.NS
	if n < 10 || n > 100 || ns != int64(n)*100 {
		t.Errorf("%d iterations and %d ns for 10 frames, each of 100 ns", n, ns)
	}
	if bursts := r.port(0).RXBursts - idle; bursts != 10 {
		t.Errorf("%d bursts for 10 frames that came one by one", bursts)
	}
}
