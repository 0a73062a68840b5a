package dataplane

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
)

// TestStationsOfRunningWorkers has several readers ask workers for far more FDB entries than one
// batch holds. All workers know all addresses. Each worker returns the entries of its own ports,
// and all of these, to every reader.
func TestStationsOfRunningWorkers(t *testing.T) {
	const static = 5 * dumpRoom
	r := newRig(t, 2, 2, func(p *Params) {
		p.Bridge.Capacity = 2 * static
		for i := range static {
			p.Bridge.Static = append(p.Bridge.Static, bridge.StaticEntry{MAC: 0x0400_0000_0000 + frame.MAC(i), VID: 1,
				Port: i % 2})
		}
	})
	r.introduce()
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
			for i, w := range r.s.Workers {
				all, err := w.FDB(t.Context(), 10*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				known := map[frame.MAC]bool{}
				for _, s := range all {
					known[s.MAC] = true
					if s.Port != i || s.Static != (s.MAC>>40 == 4) {
						t.Errorf("worker %d: %+v", i, s)
					}
				}
				if len(all) != static/2+1 || len(known) != len(all) || !known[station0(i)] {
					t.Errorf("worker %d: %d stations, %d different ones, its own: %t", i, len(all), len(known),
						known[station0(i)])
				}
			}
		})
	}
	reading.Wait()
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := r.s.Workers[0].FDB(over, 10*time.Second); err != context.Canceled {
		t.Errorf("a reader who has gone: %v", err)
	}
	for _, w := range r.s.Workers {
		w.Stop()
	}
	running.Wait()
	if _, err := r.s.Workers[0].FDB(t.Context(), time.Millisecond); err == nil {
		t.Error("a worker that does not run answers")
	}
}

// TestStationsCostLittle checks that an iteration reads at most dumpSlots slots of the table for a
// reader, and allocates nothing.
func TestStationsCostLittle(t *testing.T) {
	r := newRig(t, 2, 1, func(p *Params) { p.Bridge.Capacity = 10 * dumpSlots })
	r.introduce()
	w := r.s.Workers[0]
	x := &w.fdb
	x.batch = slices.Grow(x.batch, dumpRoom)
	ask := func() {
		x.next, x.batch = 0, x.batch[:0]
		x.wanted.Store(true)
	}
	ask()
	pieces := 0
	for ; x.wanted.Load(); pieces++ {
		x.serve(w, r.now)
		if x.next != 0 && x.next != (pieces+1)*dumpSlots {
			t.Fatalf("after %d pieces at slot %d", pieces+1, x.next)
		}
	}
	if pieces < 10*4 || len(x.batch) != 2 {
		t.Errorf("%d pieces, %d stations", pieces, len(x.batch))
	}
	if n := testing.AllocsPerRun(100, func() {
		ask()
		for x.wanted.Load() {
			x.serve(w, r.now)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
