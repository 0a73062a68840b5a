package dataplane

import (
	"fmt"
	"sync/atomic"
	"time"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/pmd"
	"sluice/sched"
)

// Worker runs the ports that belong to it. All its fields are its own, but for those said to be shared.
type Worker struct {
	// Used for every frame.
	memory   *cells.Memory
	shift    uint            // address >> shift = buffer id
	mask     uint16          // address & mask = place in the buffer
	frames   []bufferedFrame // shared; see Switch.frames
	pool     *cells.Pool
	accounts *cells.Manager
	bridge   *bridge.Bridge
	arena    *sched.Arena
	ports    []*port // by port number; those of other workers too, for what does not change, up and parties

	// Used for every burst.
	own     []*port // this worker's
	out     []*outbox
	in      []lane
	drain   Drain
	burst   [burstSize]pmd.Desc
	addrs   [burstSize]uint64
	ids     [burstSize]uint32
	arrived [burstSize]bridge.Frame // the frames in burst, from reception to the queues
	parties []*party                // that have frames, in the order of their first ones
	tap     *Tap                    // nil: no capture

	// Used once an iteration, or less.
	index    int
	cellSize int // bytes
	gap      gapMeter
	current  *Plan                // what the worker runs
	plan     atomic.Pointer[Plan] // shared: written by the control plane
	adopted  atomic.Pointer[Plan] // shared: written by the worker
	snapshot snapshotExchange     // shared, by its own rules
	stations stationExchange      // shared, by its own rules
	stopped  atomic.Bool          // shared: written by the control plane

	started atomic.Pointer[time.Time] // shared: written by the worker
}

// bufferedFrame is what the switch knows of the frame in a buffer. The address of its first byte is
// id << shift + offset.
type bufferedFrame struct {
	offset, length uint16 // bytes
	cells          uint16 // charged to the ingress group, and to the egress queue while the frame is in one
	group          uint16 // ingress: port number * Priorities + priority
	out            uint16 // port number, while it is on its way to another worker
	queue          uint8  // that it waits in; of a frame that is not flooded, its priority
}

func (f *bufferedFrame) in() int         { return int(f.group / Priorities) }
func (f *bufferedFrame) priority() uint8 { return uint8(f.group % Priorities) }

// port is a port as its worker sees it.
type port struct {
	number int // in the switch, and in the accounts
	worker int
	groups uint16 // number * Priorities: the first of its priority groups
	up     bool   // by the current plan

	shut       uint8           // queues that take no frame: the port is down, or discarded
	discarded  uint8           // priorities in a storm that the watchdog drops
	ignored    uint8           // priorities in a storm whose pause is not honoured
	longest    [Priorities]int // bytes of a frame that is received now; below 0: none, since the switch drains, or discarded
	longestIn  [Priorities]int // the same when the switch runs and nothing is discarded
	longestOut int             // bytes of a frame that is sent whether it gets a tag or not

	driver     pmd.Port           // nil while absent
	classifier *bridge.Classifier // of what comes in
	egress     *bridge.Egress     // what is done to frames that leave; nil: nothing
	growth     int                // bytes that a frame without a tag may get there
	early      uint8              // queues with early detection
	floods     bridge.QueueMap    // queues of flooded frames, by priority

	parties [Priorities]party // by queue: frames for it of the burst in hand

	held     []uint8 // by buffer id: what the driver has of ours, holding…
	parked   bool    // there is no driver, and none that still holds buffers
	filled   int     // buffers with the driver for reception, or parked for it
	sending  int     // frames with the driver, to send
	inFlight int     // their bytes
	txRing   int     // bound on sending
	queues   *sched.Scheduler
	signals  signals
	count    PortCounters
	PortParams
}

// What a driver holds a buffer for.
const (
	holdingNothing = iota
	holdingEmpty   // to receive into
	holdingFrame   // to send
	holdingControl // to send a PFC frame of ours
)

func newWorker(s *Switch, index, first, n int) (*Worker, error) {
	p := s.params
	w := &Worker{
		index: index, cellSize: p.CellSize, memory: p.Memory, frames: s.frames,
		pool: cells.NewPool(first, n),
	}
	for 1<<w.shift < p.Memory.BufferSize() {
		w.shift++
	}
	w.mask = 1<<w.shift - 1
	w.parties = make([]*party, 0, len(p.Ports)*Priorities)
	var err error
	if w.bridge, err = bridge.New(p.Bridge); err != nil {
		return nil, err
	}
	w.arena = sched.NewArena(p.Memory.Buffers())
	account := cells.Params{CellSize: p.CellSize}
	kept := 0 // buffers that are never a frame's
	for i, pp := range p.Ports {
		port := &port{number: i, worker: pp.Worker, groups: uint16(i * Priorities), PortParams: pp, classifier: w.bridge.Classifier(i), egress: w.bridge.Egress(i)}
		port.growth = port.egress.Growth()
		port.longestOut = pp.MaxFrame - port.growth
		for queue := range port.parties {
			port.parties[queue] = party{out: port, queue: uint8(queue)}
		}
		port.setQueues(p.Floods) // of others' too: in which queue a copy for them waits is decided here
		w.ports = append(w.ports, port)
		if pp.Worker != index {
			account.Ports = append(account.Ports, cells.PortParams{}) // never charged
			continue
		}
		if err := port.own(w.arena, p.Memory.Buffers()); err != nil {
			return nil, fmt.Errorf("port %s: %w", pp.Name, err)
		}
		w.own = append(w.own, port)
		account.Ports = append(account.Ports, pp.Cells)
		kept += pp.Buffers + ControlBuffers
	}
	account.Cells = n - kept
	if p.Accounts != nil {
		own := p.Accounts[index]
		if own.Cells > account.Cells {
			return nil, fmt.Errorf("%d cells for the frames of %d buffers, of which drivers keep %d: at most %d",
				own.Cells, n, kept, account.Cells)
		}
		account.Cells, account.Pools, account.Queues = own.Cells, own.Pools, own.Queues
	}
	if w.accounts, err = cells.NewManager(account); err != nil {
		return nil, err
	}
	for _, port := range w.own {
		port.reserve(w.pool)
	}
	w.snapshot.state = w.newSnapshot()
	return w, nil
}

// own equips a port with what only its own worker needs.
func (p *port) own(arena *sched.Arena, buffers int) (err error) {
	p.held = make([]uint8, buffers)
	for priority, g := range p.Cells.Groups {
		p.longestIn[priority] = p.MaxFrame
		if g.Lossless && p.MaxLossless > 0 {
			p.longestIn[priority] = p.MaxLossless
		}
	}
	if p.queues, err = sched.New(p.Sched, arena); err != nil {
		return err
	}
	p.signals, err = newSignals(p.PortParams)
	return err
}

// setQueues works out which queues have early detection, and in which flooded frames wait: in none where lossless and lossy
// frames would meet.
func (p *port) setQueues(floods *bridge.QueueMap) {
	p.floods = bridge.UnicastQueues()
	for i := range Priorities {
		if p.Cells.Queues[i].RED.Max > 0 {
			p.early |= 1 << i
		}
		if floods != nil && !p.Cells.Groups[i].Lossless && !p.Cells.Groups[floods[i]].Lossless {
			p.floods[i] = floods[i]
		}
	}
}

// reserve sets aside, for good, the buffers that a port needs whatever the congestion: those it receives into and
// those for its PFC frames. The accounts leave room for them, so the pool has them.
func (p *port) reserve(pool *cells.Pool) {
	p.signals.spare = make([]uint32, ControlBuffers)
	empty := make([]uint32, p.Buffers)
	if pool.Get(p.signals.spare) != len(p.signals.spare) || pool.Get(empty) != len(empty) {
		panic("dataplane: fewer buffers than the accounts left room for")
	}
	for _, id := range empty {
		p.held[id] = holdingEmpty
	}
	p.filled, p.parked = len(empty), true
}

// Step is one iteration. now is in ns and never goes backwards. It returns how many frames and buffers it moved; 0
// means that there was nothing to do.
func (w *Worker) Step(now int64) int {
	w.gap.observe(now)
	if p := w.plan.Load(); p != w.current {
		w.adopt(p, now)
	}
	work := 0
	for _, p := range w.own {
		if p.driver != nil {
			work += w.reap(p)
			w.refill(p) // before frames are taken: a received frame never waits for a buffer
			work += w.take(p, now)
		}
	}
	work += w.cross(now)
	for _, p := range w.own {
		if p.driver != nil {
			w.guard(p, now)
			w.signal(p, now) // ahead of every frame of this iteration
			work += w.transmit(p, now)
			p.driver.Flush() // every iteration: nothing sticks when traffic stops
		}
	}
	if w.tap != nil {
		w.tap.turn()
	}
	w.snapshot.serve(w, now)
	w.stations.serve(w, now)
	w.gap.moved = work > 0
	return work
}

// reap takes back the buffers of frames that have left, and with them their charges: this is what may end an XOFF.
//
//go:noinline
func (w *Worker) reap(p *port) int {
	if p.sending == 0 {
		return 0
	}
	n := p.driver.Complete(w.addrs[:])
	held, frames, shift := p.held, w.frames, w.shift&63
	var queued [Priorities]int // cells, by queue
	sent, bytes := 0, 0
	for i := range w.addrs[:n] {
		id := uint32(w.addrs[i] >> shift)
		if held[id] != holdingFrame {
			w.complete(p, id)
			continue
		}
		held[id] = holdingNothing
		f := &frames[id]
		sent++
		bytes += int(f.length)
		queued[f.queue%Priorities] += int(f.cells)
		if !w.pool.Owns(id) {
			w.sendHome(id, f)
			continue
		}
		w.accounts.Release(f.in(), int(f.priority()), int(f.cells))
		w.pool.PutOne(id)
	}
	p.sending -= sent
	p.inFlight -= bytes
	for queue, n := range queued {
		if n != 0 {
			w.accounts.Dequeue(p.number, queue, n)
		}
	}
	return n
}

// complete ends the sending of one buffer. Some kernels complete a buffer twice; the mark in held tells.
func (w *Worker) complete(p *port, id uint32) {
	holding := p.held[id]
	p.held[id] = holdingNothing
	switch holding {
	case holdingFrame:
		f := &w.frames[id]
		p.sending--
		p.inFlight -= int(f.length)
		w.accounts.Dequeue(p.number, int(f.queue), int(f.cells))
		w.release(id, f)
	case holdingControl:
		p.sending--
		p.inFlight -= p.signals.returned(id)
	default:
		p.held[id] = holding
		p.count.DuplicateCompletions++
	}
}

// release gives up a frame: its buffer goes home, and there its ingress charge ends.
func (w *Worker) release(id uint32, f *bufferedFrame) {
	if !w.pool.Owns(id) {
		w.sendHome(id, f)
		return
	}
	w.accounts.Release(f.in(), int(f.priority()), int(f.cells))
	w.pool.PutOne(id)
}

func (w *Worker) sendHome(id uint32, f *bufferedFrame) {
	w.outboxTo(w.ports[f.in()].worker).sendHome(id)
}

// refill keeps as many empty buffers with the driver as the port is meant to have there.
func (w *Worker) refill(p *port) {
	for p.filled < p.Buffers {
		n := w.pool.Get(w.ids[:min(burstSize, p.Buffers-p.filled)])
		for i, id := range w.ids[:n] {
			w.addrs[i] = uint64(id) << (w.shift & 63)
			p.held[id] = holdingEmpty
		}
		took := p.driver.Fill(w.addrs[:n])
		for _, id := range w.ids[took:n] {
			p.held[id] = holdingNothing
		}
		p.filled += took
		w.pool.Put(w.ids[took:n])
		if took < burstSize {
			return
		}
	}
}
