package dataplane

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/tap"
)

const (
	// dumpSlots is how many slots of its table a worker reads per iteration for a reader.
	dumpSlots = 256
	// dumpRoom is the most entries that a worker hands over at a time. It is more than dumpSlots,
	// so the entries of one piece always fit.
	dumpRoom = 4 * dumpSlots
)

// fdbExchange hands a worker's FDB entries to readers piece by piece. In each iteration the worker
// reads dumpSlots slots. When its batch has no room for that many more entries, it waits until the
// reader has fetched the batch. So the worker allocates nothing, and a large table makes no
// iteration longer.
type fdbExchange struct {
	readers sync.Mutex  // one reader at a time; the worker never takes it
	wanted  atomic.Bool // set by the reader, cleared by the worker when batch is ready
	// The worker's while wanted is set, the reader's otherwise.
	next  int               // slot to continue at; 0 again: the end
	batch []bridge.FDBEntry // with room for dumpRoom
}

// serve reads the next piece of the table, if there is a reader. Each worker knows all entries, but
// only those of its own ports come from frames that it received: it returns only these.
func (x *fdbExchange) serve(w *Worker, now int64) {
	if !x.wanted.Load() {
		return
	}
	kept := len(x.batch)
	x.batch, x.next = w.bridge.Dump(now, x.next, dumpSlots, x.batch)
	for _, s := range x.batch[kept:] {
		if p := w.ports[s.Port]; p.worker == w.index {
			s.Port = int(p.id) // the number may belong to another port by the time it is read
			x.batch[kept] = s
			kept++
		}
	}
	x.batch = x.batch[:kept]
	if x.next == 0 || kept+dumpSlots > dumpRoom {
		x.wanted.Store(false)
	}
}

// FDB returns the entries for the ports of a running worker; see bridge.Bridge.Dump. Their Port is
// a port id. It fails if the worker does not answer in time, or ctx is done. Any
// goroutine may call it.
func (w *Worker) FDB(ctx context.Context, timeout time.Duration) (all []bridge.FDBEntry, err error) {
	x := &w.fdb
	x.readers.Lock()
	defer x.readers.Unlock()
	if err := w.await(&x.wanted, timeout); err != nil { // a reader before may have given up
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

// NoPort is in place of a port where there is none.
const NoPort = tap.NoPort

// Flush makes the workers forget learned addresses.
type Flush struct {
	Serial   uint64
	Port     int    // number; NoPort: all
	VLAN     uint16 // 0: all
	Announce bool   // instead: announce each address to the other workers when it is next seen
}

func (w *Worker) flush(f *Flush, now int64) {
	if f.Announce {
		w.bridge.Announce(now)
		return
	}
	w.ignoreAnnouncements()
	port := f.Port
	if port == NoPort {
		port = bridge.AnyPort
	}
	w.bridge.Flush(now, port, f.VLAN)
}
