package dataplane

import (
	"sync"
	"sync/atomic"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/gaps"
)

// Snapshot is the state of one worker between two iterations, so its sums hold exactly.
type Snapshot struct {
	Worker     int
	Now        int64 // ns, time of the iteration
	Ports      []PortSnapshot
	Free       int // buffers in the pool
	Buffers    int // buffers that have their home here
	CellsInUse int
	CellSize   int               // bytes
	Pools      []cells.PoolUsage // ingress
	Egress     []cells.PoolUsage
	Bridge     bridge.Stats
	Stations   int // FDB entries of the bridge
	Gap        gaps.Histogram
	Departed   uint64 // frames, LosslessDrops of ports that have left
	Failed     uint64 // frames, lossless ones that these ports have lost otherwise
	Work       gaps.Work
}

// Look returns the state of a worker to the goroutine that steps it. All others call Snapshot.
func (w *Worker) Look(now int64) Snapshot {
	s := w.newSnapshot()
	w.look(&s, now)
	return s
}

// newSnapshot returns a snapshot with room for what look stores.
func (w *Worker) newSnapshot() Snapshot {
	return Snapshot{
		Ports: make([]PortSnapshot, len(w.own)),
		Pools: make([]cells.PoolUsage, w.accounts.Pools()), Egress: make([]cells.PoolUsage, w.accounts.EgressPools()),
	}
}

// look fills in a snapshot from newSnapshot.
func (w *Worker) look(s *Snapshot, now int64) {
	s.Worker, s.Now = w.index, now
	s.Free, s.Buffers, s.CellsInUse = w.pool.Free(), w.pool.Size(), w.accounts.InUse()
	s.CellSize, s.Gap, s.Work = w.cellSize, w.gap.At(now), w.gap.Work
	s.Departed, s.Failed = w.departed.Lost, w.departed.Failed
	s.Bridge, s.Stations = w.bridge.Stats(), w.bridge.Len()
	for i := range s.Pools {
		s.Pools[i] = w.accounts.Pool(i)
	}
	for i := range s.Egress {
		s.Egress[i] = w.accounts.EgressPool(i)
	}
	for i, p := range w.own {
		p.look(&s.Ports[i], w.accounts, now)
		s.Ports[i].Sources = w.bridge.PortStats(p.number)
	}
}

func (p *port) look(s *PortSnapshot, accounts *cells.Manager, now int64) {
	*s = PortSnapshot{} // its flow control may be that of an earlier generation
	s.Number, s.Name, s.Vacant, s.Up = p.number, p.Name, p.Vacant, p.up
	s.Reads = p.reads
	s.PortCounters = p.count
	s.Lossless = p.flow.lossless
	p.flow.look(s, now)
	s.Paused = p.flow.paused(now)
	if p.flow.on() {
		s.PausedPeer = p.flow.generator.Paused()
	}
	if p.flow.watchdog != nil {
		s.Guard = p.PortParams.Watchdog
	}
	s.Buffers = PortBuffers{Ring: p.Buffers, Filled: p.filled, Sending: p.sending + p.returned,
		Queued: p.queued() + p.later,
		Spare:  p.flow.spare.N + p.injection.spare.N, InFlight: p.inFlight}
	for i := range Priorities {
		s.Groups[i], s.Queues[i] = accounts.Group(p.number, i), accounts.Queue(p.number, i)
		s.Limits[i] = accounts.Limits(p.number, i)
	}
}

// snapshotInterval is the least time between two snapshots of a worker, in ns. It bounds what
// monitoring costs.
const snapshotInterval = 1_000_000

// snapshotExchange hands snapshots from a worker to readers. The worker copies its counters only
// when a reader has asked, and only between two iterations. So a snapshot is consistent, and costs
// nothing while there are no readers.
type snapshotExchange struct {
	readers sync.Mutex  // one reader at a time; the worker never takes it
	wanted  atomic.Bool // set by the reader, cleared by the worker once state is written
	state   Snapshot    // the worker's while wanted is set, the reader's otherwise
	last    int64       // worker: time of its last snapshot, ns
}

// serve answers a reader, if one waits and the last snapshot is at least snapshotInterval ago.
func (x *snapshotExchange) serve(w *Worker, now int64) {
	if !x.wanted.Load() || now-x.last < snapshotInterval {
		return
	}
	x.last = now
	if s := &x.state; len(s.Ports) != len(w.own) || len(s.Pools) != w.accounts.Pools() ||
		len(s.Egress) != w.accounts.EgressPools() {
		x.state = w.newSnapshot() // ports have come or gone since the last one
	}
	w.look(&x.state, now)
	x.wanted.Store(false)
}
