package dataplane

import (
	"sync"
	"sync/atomic"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/pfc"
)

// PortCounters are what a worker counts on one port, in frames unless said otherwise. They only grow.
type PortCounters struct {
	RXFrames, RXBytes uint64 // all frames taken from the driver
	RXBursts          uint64 // in which they were taken
	TXFrames, TXBytes uint64 // forwarded frames given to the driver
	RX, TX            [Priorities]uint64
	Drops             [DropReasons][Priorities]uint64 // ingress reasons at the ingress port, egress reasons at the egress port
	FloodCopies       uint64                          // further copies of flooded frames that came in here, those dropped included

	Control          uint64 // MAC control frames, all of them; none is forwarded
	ControlShort     uint64 // MAC control frames without their padding, obeyed all the same
	ControlMalformed uint64 // cut off, ignored
	ControlUnknown   uint64 // opcode unknown, ignored
	ControlIgnored   uint64 // PFC or PAUSE that this port does not do

	Marked         [Priorities]uint64 // sent on with congestion experienced (ECN)
	StormForwarded [Priorities]uint64 // sent during a storm whose pauses are not honoured; dropped ones are in Drops

	DuplicateCompletions uint64 // buffers that the kernel completed twice
}

// PortSnapshot is the state of one port between two iterations of its worker.
type PortSnapshot struct {
	Number int
	Name   string
	Up     bool
	PortCounters
	Lossless uint8 // priorities
	Sent     pfc.GeneratorStats
	Heard    pfc.ReceiverStats
	Watchdog pfc.WatchdogStats
	Guard    pfc.WatchdogParams // of priorities 0: no watchdog
	Groups   [Priorities]cells.GroupUsage
	Queues   [Priorities]cells.QueueUsage
	Limits   [Priorities]cells.Limits
	Buffers  PortBuffers

	PausedPeer uint8 // priorities that the peer was told to pause
	Paused     uint8 // priorities that the peer has paused
}

// PortBuffers says where a port's buffers are.
type PortBuffers struct {
	Filled   int // with the driver, to receive into
	Queued   int // in egress queues
	Sending  int // with the driver, to send
	Spare    int // kept for PFC frames
	InFlight int // bytes with the driver, to send
}

// Dropped returns all frames dropped, whatever the reason.
func (c *PortCounters) Dropped() uint64 {
	n := uint64(0)
	for why := range c.Drops {
		for _, d := range c.Drops[why] {
			n += d
		}
	}
	return n
}

// LosslessDrops returns the frames of lossless priorities that were dropped for want of room: the number that must stay 0.
func (p *PortSnapshot) LosslessDrops() uint64 {
	n := uint64(0)
	p.EachLosslessDrop(func(_ Drop, _ int, frames uint64) { n += frames })
	return n
}

// EachLosslessDrop calls a function with what LosslessDrops sums up, one reason and priority after the other.
func (p *PortSnapshot) EachLosslessDrop(do func(why Drop, priority int, frames uint64)) {
	for why := range p.Drops {
		for priority, frames := range p.Drops[why] {
			if frames > 0 && p.Lossless>>priority&1 == 1 && Drop(why).congestion() {
				do(Drop(why), priority, frames)
			}
		}
	}
}

// congestion tells whether a reason means want of room, as against a bad frame, a configuration or a link.
func (d Drop) congestion() bool {
	switch d {
	case DropIngressFull, DropHeadroomFull, DropQueueFull, DropEarly, DropNoBuffer, DropRefusedByDriver:
		return true
	}
	return false
}

// Snapshot is the state of one worker between two iterations: its sums hold exactly.
type Snapshot struct {
	Worker     int
	Now        int64 // ns, the iteration's time
	Ports      []PortSnapshot
	Free       int // buffers in the pool
	Buffers    int // buffers whose home the worker is
	CellsInUse int
	CellSize   int               // bytes
	Pools      []cells.PoolUsage // ingress
	Egress     []cells.PoolUsage
	Bridge     bridge.Stats
	Stations   int // addresses in the bridge's table
	Gap        GapHistogram
	Work       Work
}

// Look returns the state of a worker to the goroutine that steps it. Everyone else calls Snapshot.
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

// look fills a snapshot of newSnapshot.
func (w *Worker) look(s *Snapshot, now int64) {
	s.Worker, s.Now = w.index, now
	s.Free, s.Buffers, s.CellsInUse = w.pool.Free(), w.pool.Size(), w.accounts.InUse()
	s.CellSize, s.Gap, s.Work = w.cellSize, w.gap.histogram, w.gap.work
	s.Bridge, s.Stations = w.bridge.Stats(), w.bridge.Len()
	for i := range s.Pools {
		s.Pools[i] = w.accounts.Pool(i)
	}
	for i := range s.Egress {
		s.Egress[i] = w.accounts.EgressPool(i)
	}
	for i, p := range w.own {
		p.look(&s.Ports[i], w.accounts, now)
	}
}

func (p *port) look(s *PortSnapshot, accounts *cells.Manager, now int64) {
	s.Number, s.Name, s.Up = p.number, p.Name, p.up
	s.PortCounters = p.count
	s.Lossless = p.signals.lossless
	p.signals.look(s, now)
	s.Paused = p.signals.paused(now)
	if p.signals.on() {
		s.PausedPeer = p.signals.generator.Told()
	}
	if p.signals.watchdog != nil {
		s.Guard = p.PortParams.Watchdog
	}
	s.Buffers = PortBuffers{Filled: p.filled, Sending: p.sending, Queued: p.queued(), Spare: len(p.signals.spare), InFlight: p.inFlight}
	for i := range Priorities {
		s.Groups[i], s.Queues[i] = accounts.Group(p.number, i), accounts.Queue(p.number, i)
		s.Limits[i] = accounts.Limits(p.number, i)
	}
}

// snapshotInterval bounds what looking costs: at most one snapshot a worker in so many ns.
const snapshotInterval = 1_000_000

// snapshotExchange hands snapshots from a worker to readers. The worker copies its counters only when a reader has
// asked, and between two iterations, so a snapshot costs nothing until wanted and is never torn.
type snapshotExchange struct {
	readers sync.Mutex  // one reader at a time; the worker never takes it
	wanted  atomic.Bool // set by the reader, cleared by the worker once state is written
	state   Snapshot    // the worker's while wanted is set, the reader's otherwise
	last    int64       // worker: when it was last asked, ns
}

// serve answers a reader, if there is one and the last is long enough ago.
func (x *snapshotExchange) serve(w *Worker, now int64) {
	if !x.wanted.Load() || now-x.last < snapshotInterval {
		return
	}
	x.last = now
	w.look(&x.state, now)
	x.wanted.Store(false)
}
