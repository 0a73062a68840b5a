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
	// dumpRoom is how many entries a worker hands over at once. There is room for all that
	// dumpSlots may hold.
	dumpRoom = 4 * dumpSlots
)

// fdbExchange hands a worker's FDB entries to readers, piece by piece: in an iteration the worker
// looks at dumpSlots slots, and when its batch could not take as many entries more it waits for the
// reader to fetch it. So the worker allocates nothing, and no iteration is longer for a large
// table.
type fdbExchange struct {
	readers sync.Mutex  // one reader at a time; the worker never takes it
	wanted  atomic.Bool // set by the reader, cleared by the worker once batch is to be fetched
	// The worker's while wanted is set, the reader's otherwise.
	next  int               // slot at which to go on; back at 0, that was all
	batch []bridge.FDBEntry // with room for dumpRoom
}

// serve looks at the next piece of the table, if there is a reader. Each worker knows all entries,
// but learned only those of its own ports from frames: it returns no others.
func (x *fdbExchange) serve(w *Worker, now int64) {
	if !x.wanted.Load() {
		return
	}
	kept := len(x.batch)
	x.batch, x.next = w.bridge.Dump(now, x.next, dumpSlots, x.batch)
	for _, s := range x.batch[kept:] {
		if p := w.ports[s.Port]; p.worker == w.index {
			s.Port = p.id // a number may be another port's when the reader looks
			x.batch[kept] = s
			kept++
		}
	}
	x.batch = x.batch[:kept]
	if x.next == 0 || kept+dumpSlots > dumpRoom {
		x.wanted.Store(false)
	}
}

// FDB returns the entries for the ports of a running worker, to any goroutine; see
// bridge.Bridge.Dump. Their Port is a port id (Switch.Names). It fails when the worker does not
// answer in time, or ctx is done.
func (w *Worker) FDB(ctx context.Context, timeout time.Duration) (all []bridge.FDBEntry, err error) {
	x := &w.fdb
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
