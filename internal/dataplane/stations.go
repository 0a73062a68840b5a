package dataplane

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/bridge"
)

const (
	// dumpSlots is how much of its table a worker looks at in one iteration, for a reader.
	dumpSlots = 256
	// dumpRoom is how many stations a worker hands over at once. There is room for all that dumpSlots may hold.
	dumpRoom = 4 * dumpSlots
)

// stationExchange hands the stations in a worker's table to readers, by and by: in an iteration the worker looks at
// dumpSlots slots, and when its batch could not take as many stations more it waits for the reader to fetch it. So nothing
// is allocated by the worker, and no iteration is longer for a large table than for a small one.
type stationExchange struct {
	readers sync.Mutex  // one reader at a time; the worker never takes it
	wanted  atomic.Bool // set by the reader, cleared by the worker once batch is to be fetched
	// The worker's while wanted is set, the reader's otherwise.
	next  int              // slot at which to go on; back at 0, that was all
	batch []bridge.Station // with room for dumpRoom
}

// serve looks at the next piece of the table, if there is a reader. Each worker knows the stations of all, but only those at
// its own ports from their frames: of others it is silent.
func (x *stationExchange) serve(w *Worker, now int64) {
	if !x.wanted.Load() {
		return
	}
	kept := len(x.batch)
	x.batch, x.next = w.bridge.Dump(now, x.next, dumpSlots, x.batch)
	for _, s := range x.batch[kept:] {
		if p := w.ports[s.Port]; p.worker == w.index {
			s.Port = p.label // a number may be another port's when the reader looks
			x.batch[kept] = s
			kept++
		}
	}
	x.batch = x.batch[:kept]
	if x.next == 0 || kept+dumpSlots > dumpRoom {
		x.wanted.Store(false)
	}
}

// Stations returns the stations at the ports of a running worker, to any goroutine; see bridge.Bridge.Dump. Their Port is a label
// (Switch.Names). It fails when the worker does not answer in time, or ctx is done.
func (w *Worker) Stations(ctx context.Context, timeout time.Duration) (all []bridge.Station, err error) {
	x := &w.stations
	x.readers.Lock()
	defer x.readers.Unlock()
	if err := w.await(&x.wanted, timeout); err != nil { // for a reader that has given up
		return nil, err
	}
	x.next = 0
	for {
		x.batch = slices.Grow(x.batch[:0], dumpRoom)
		x.wanted.Store(true)
		if err := w.await(&x.wanted, timeout); err != nil {
			return nil, err
		}
		all = append(all, x.batch...)
		if x.next == 0 {
			return all, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}
