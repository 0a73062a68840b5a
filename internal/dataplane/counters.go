package dataplane

import (
	"sync"
	"sync/atomic"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/drop"
	"sluice/internal/gaps"
	"sluice/internal/punt"
	"sluice/pfc"
)

// PortCounters are what a worker counts on one port, in frames unless noted. They only grow.
type PortCounters struct {
	RXFrames, RXBytes uint64 // all frames taken from the driver
	RXBursts          uint64 // bursts in which they were taken
	// buffers that the driver returned with a frame although it did not have them to receive into;
	// refused
	RXTwice uint64
	// iterations that left frames with the driver and stopped its peer's lossless priorities
	Behind            uint64
	TXFrames, TXBytes uint64 // forwarded frames given to the driver
	// of these, frames that the driver did not take, or lost with its device; also in Drops
	Recalled     uint64
	RX, TX       [Priorities]uint64
	TXClassBytes [Priorities]uint64 // of TXBytes
	Drops        Losses             // ingress reasons at the ingress port, egress reasons at the egress port
	FloodCopies  uint64             // copies, beyond the first, of flooded frames received here; dropped ones too

	Control             uint64 // all MAC control frames; none is forwarded
	ControlShort        uint64 // MAC control frames without padding, honoured all the same
	ControlMalformed    uint64 // cut off, ignored
	ControlUnknown      uint64 // of unknown opcode, ignored
	ControlIgnored      uint64 // PFC or PAUSE where the port does not use it
	ControlMisaddressed uint64 // to neither 01-80-C2-00-00-01 nor the port's own address; ignored whatever their kind

	Marked         [Priorities]uint64 // sent on with congestion experienced (ECN)
	StormQueued    [Priorities]uint64 // of Drops[drop.Storm], frames bound for the port; it had received the others
	StormForwarded [Priorities]uint64 // sent during a storm whose pauses are not honoured; dropped ones are in Drops

	DuplicateCompletions uint64 // buffers that the kernel completed twice

	Punted [punt.Kinds]uint64 // received for the control plane; dropped ones are in Drops
	// frames of the control plane that have left, and those that were dropped: without a link,
	// longer than the port's frames, or not sent by the driver
	Injected, InjectedBytes, InjectDropped uint64
}

// PortSnapshot is the state of one port between two iterations of its worker. If Vacant is set, no
// port has the number now.
type PortSnapshot struct {
	Number int
	Name   string
	Vacant bool
	Up     bool
	PortCounters
	Lossless    uint8  // priorities
	Lost        Losses // of Drops, frames lost to congestion while their priority was lossless
	PFCSent     pfc.GeneratorStats
	PFCReceived pfc.ReceiverStats
	Watchdog    pfc.WatchdogStats
	Guard       pfc.WatchdogParams // without priorities: no watchdog
	Groups      [Priorities]cells.GroupUsage
	Queues      [Priorities]cells.QueueUsage
	Limits      [Priorities]cells.Limits
	Buffers     PortBuffers
	Sources     bridge.PortStats // frames with anomalous source addresses

	PausedPeer uint8 // priorities that the peer is to pause: the last it was sent is XOFF
	Paused     uint8 // priorities that the peer has paused
}

// PortBuffers counts a port's buffers by the place where they are.
type PortBuffers struct {
	Ring     int // value of Filled when no received frame waits (PortParams.Buffers)
	Filled   int // with the driver, to receive into
	Queued   int // in egress queues
	Sending  int // with the driver, to send
	Spare    int // kept for PFC frames and frames of the control plane
	InFlight int // bytes with the driver, to send
}

// Dropped returns all dropped frames, whatever the reason.
func (c *PortCounters) Dropped() uint64 {
	n := uint64(0)
	for why := range c.Drops {
		for _, d := range c.Drops[why] {
			n += d
		}
	}
	return n
}

// LosslessDrops returns how many frames of lossless priorities were lost to congestion. This number
// must stay 0.
func (p *PortSnapshot) LosslessDrops() uint64 { return p.Lost.sum() }

// Held returns the cells charged for frames that came in at the port's number, wherever they are
// now.
func (p *PortSnapshot) Held() int {
	cells := 0
	for i := range p.Groups {
		g := &p.Groups[i]
		cells += g.Reserved + g.Shared + g.Headroom
	}
	return cells
}

// EachLosslessDrop calls do for each reason and priority that contributes to LosslessDrops.
func (p *PortSnapshot) EachLosslessDrop(do func(why drop.Reason, priority int, frames uint64)) {
	for why := range p.Lost {
		for priority, frames := range p.Lost[why] {
			if frames > 0 {
				do(drop.Reason(why), priority, frames)
			}
		}
	}
}

// Losses counts frames by reason and priority.
type Losses [drop.Reasons][Priorities]uint64

func (l *Losses) sum() uint64 {
	n := uint64(0)
	for why := range l {
		for _, d := range l[why] {
			n += d
		}
	}
	return n
}

// losses remembers which of a port's drops were frames of lossless priorities, lost to congestion.
// A reload may change which priorities are lossless.
type losses struct {
	before Losses // in earlier generations
	since  Losses // all drops when this one began
}

// takeOver begins a new generation.
func (l *losses) takeOver(old *port) { l.before, l.since = old.lost(), old.count.Drops }

// lost returns the frames lost to congestion while their priority was lossless.
func (p *port) lost() Losses {
	lost := p.losses.before
	for why := range lost {
		if !drop.Reason(why).Congestion() {
			continue
		}
		for priority := range lost[why] {
			if p.flow.lossless>>priority&1 == 1 {
				lost[why][priority] += p.count.Drops[why][priority] - p.losses.since[why][priority]
			}
		}
	}
	return lost
}

// departed sums up the counts of ports that have left.
type departed struct {
	in, out uint64 // frames, as Switch.Check adds them up
	lost    uint64 // to congestion, of lossless priorities
}

func (d *departed) add(p *port) {
	lost := p.lost()
	d.lost += lost.sum()
	d.in += p.count.in()
	d.out += p.count.out()
}

// in returns how many frames the port had to find a place for, and out how many of these have left
// it.
func (c *PortCounters) in() uint64 { return c.RXFrames + c.FloodCopies }
func (c *PortCounters) out() uint64 {
	n := c.TXFrames - c.Recalled + c.Dropped() + c.Control
	for _, punted := range c.Punted {
		n += punted
	}
	return n
}

// ClassDrops returns the dropped frames of a class: in counts those that the port received and did
// not queue, out those that were bound for it.
func (c *PortCounters) ClassDrops(priority int) (in, out uint64) {
	for why := range c.Drops {
		if drop.Reason(why).AtEgress() {
			out += c.Drops[why][priority]
		} else {
			in += c.Drops[why][priority]
		}
	}
	return in - c.StormQueued[priority], out + c.StormQueued[priority]
}

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
	s.Departed = w.departed.lost
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
	s.PortCounters = p.count
	s.Lossless, s.Lost = p.flow.lossless, p.lost()
	p.flow.look(s, now)
	s.Paused = p.flow.paused(now)
	if p.flow.on() {
		s.PausedPeer = p.flow.generator.Paused()
	}
	if p.flow.watchdog != nil {
		s.Guard = p.PortParams.Watchdog
	}
	s.Buffers = PortBuffers{Ring: p.Buffers, Filled: p.filled, Sending: p.sending, Queued: p.queued(),
		Spare: p.flow.spare.n + p.injection.spare.n, InFlight: p.inFlight}
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
