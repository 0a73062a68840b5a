package dataplane

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/dataplane/turns"
	"sluice/internal/linux/thread"
)

// Run steps the worker on one CPU, on an OS thread of its own, until Stop. It polls without rest,
// so the CPU should be the worker's alone. Its thread nevertheless has ordinary priority, because
// the worker depends on other threads: the kernel's softirq thread, which empties the rings of
// veth, and the threads of the Go runtime when it stops the world.
//
// If partner is not nil, the worker shares the CPU with it, and sleeps while the partner has frames
// to send. Then its thread takes priority, if permitted, to have the CPU as soon as the partner
// wakes it.
func (w *Worker) Run(cpu int, partner turns.Partner) error {
	err := thread.OnCPU(cpu, func() { w.loop(partner) })
	if err != nil {
		return fmt.Errorf("dataplane: worker %d: %w", w.index, err)
	}
	return nil
}

func (w *Worker) loop(partner turns.Partner) {
	if partner != nil && thread.First() { // without permission, the partner takes the lowest priority instead
		defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0) }()
	}
	start := w.origin()
	w.started.Store(&start)
	w.turns.Partner = partner
	w.UseClock(func() int64 { return int64(time.Since(start)) })
	for !w.stopped.Load() {
		now := int64(time.Since(start))
		if w.turns.Take(now, w.Step(now) == 0) {
			w.gap.Moved = true
		}
	}
}

// newOrigin returns the time at which the clocks of all workers are 0: when the first one runs.
// They date what they announce to each other.
func newOrigin() func() time.Time { return sync.OnceValue(time.Now) }

// UseClock gives the worker the clock of Step's times, in ns, for events that must be dated within
// an iteration. Without one, no time passes during an iteration.
func (w *Worker) UseClock(now func() int64) { w.clock = now }

// Started returns the time at which the worker's clock was 0, or nil before Run.
func (w *Worker) Started() *time.Time { return w.started.Load() }

// Stop makes Run return after the current iteration. It does not drain; see Drain.
func (w *Worker) Stop() { w.stopped.Store(true) }

// Snapshot returns the state of a running worker. It fails if the worker does not answer in time.
// Any goroutine may call it.
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

// await waits until the worker has cleared a flag.
func (w *Worker) await(wanted *atomic.Bool, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); wanted.Load(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf(
				"dataplane: worker %d has not answered for %v: it is not running, or others use its CPU", w.index,
				timeout)
		}
	}
	return nil
}
