package dataplane

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/thread"
)

// Run steps the worker on one CPU, and on an OS thread of its own, until Stop. It polls without
// rest: the CPU is the worker's. It takes no priority over others all the same: it waits for them
// itself, for the kernel's softirq thread, which empties veth's rings, and for the threads of the
// runtime when that stops the world.
//
// With a partner, if it is not nil, the worker shares the CPU, and sleeps while that has frames to
// send. Then it does take priority, if it may, so as to have the CPU as soon as its partner wakes
// it.
func (w *Worker) Run(cpu int, partner Partner) error {
	err := thread.OnCPU(cpu, func() { w.loop(partner) })
	if err != nil {
		return fmt.Errorf("dataplane: worker %d: %w", w.index, err)
	}
	return nil
}

func (w *Worker) loop(partner Partner) {
	if partner != nil && thread.First() { // else the partner comes last
		defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0) }()
	}
	start := time.Now()
	w.started.Store(&start)
	w.turns.partner = partner
	w.UseClock(func() int64 { return int64(time.Since(start)) })
	for !w.stopped.Load() {
		now := int64(time.Since(start))
		if w.turns.take(now, w.Step(now) == 0) {
			w.gap.moved = true
		}
	}
}

// UseClock gives the worker the clock that Step's times are of, in ns, for what can't wait for the
// next iteration to be dated. Without one an iteration takes no time.
func (w *Worker) UseClock(now func() int64) { w.clock = now }

// Started returns when the worker's clock was 0; nil before Run.
func (w *Worker) Started() *time.Time { return w.started.Load() }

// Stop ends Run after its iteration. It does not drain; see Drain.
func (w *Worker) Stop() { w.stopped.Store(true) }

// Snapshot returns the state of a running worker, to any goroutine. It fails when the worker does
// not answer in time.
func (w *Worker) Snapshot(timeout time.Duration) (Snapshot, error) {
	x := &w.snapshot
	x.readers.Lock()
	defer x.readers.Unlock()
	x.wanted.Store(true)
	if err := w.await(&x.wanted, timeout); err != nil {
		return Snapshot{}, err
	}
	s := x.state
	s.Ports, s.Pools, s.Egress = slices.Clone(s.Ports), slices.Clone(s.Pools), slices.Clone(s.Egress)
	return s, nil
}

// await waits until the worker has lowered a flag.
func (w *Worker) await(wanted *atomic.Bool, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); wanted.Load(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf(
				"dataplane: worker %d has not answered for %v: it is not running, or its CPU is not its own", w.index,
				timeout)
		}
	}
	return nil
}
