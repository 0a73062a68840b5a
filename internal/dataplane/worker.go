package dataplane

import (
	"fmt"
	"sync/atomic"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/frame"
	"sluice/pmd"
	"sluice/sched"
)

// Worker runs the ports that belong to it. All its fields are its own, but for those said to be shared.
type Worker struct {
	// Used for every frame.
	memory   []byte
	shift    uint            // address >> shift = buffer id
	frames   []bufferedFrame // shared; see Switch.frames
	pool     *cells.Pool
	accounts *cells.Manager
	bridge   *bridge.Bridge
	header   frame.Header // of the frame in hand
	ports    []*port      // by port number; those of other workers too, for what does not change, and up

	// Used for every burst.
	own   []*port // this worker's
	out   []*outbox
	in    []lane
	drain Drain
	burst [burstSize]pmd.Desc
	addrs [burstSize]uint64
	ids   [burstSize]uint32

	// Used once an iteration, or less.
	index    int
	cellSize int // bytes
	gap      gapMeter
	current  *Plan                // what the worker runs
	plan     atomic.Pointer[Plan] // shared: written by the control plane
	adopted  atomic.Pointer[Plan] // shared: written by the worker
	snapshot snapshotExchange     // shared, by its own rules
	stopped  atomic.Bool          // shared: written by the control plane
}

// bufferedFrame is what the switch knows of the frame in a buffer. The address of its first byte is
// id << shift + offset.
type bufferedFrame struct {
	offset, length uint16 // bytes
	cells          uint16 // charged to the ingress group, and to the egress queue while the frame is in one
	in, out        uint16 // port numbers
	priority       uint8
	queue          uint8 // that it waits in; of a frame that is not flooded, its priority
}

// port is a port as its worker sees it.
type port struct {
	number int // in the switch
	local  int // in the accounts of its worker
	worker int
	up     bool // by the current plan

	refused   uint8           // priorities of which no frame is taken: the switch drains, or discarded
	shut      uint8           // queues that take no frame: the port is down, or discarded
	discarded uint8           // priorities in a storm that the watchdog drops
	ignored   uint8           // priorities in a storm whose pause is not honoured
	longest   [Priorities]int // bytes of a frame that is received

	driver     pmd.Port           // nil while absent
	classifier *bridge.Classifier // of what comes in
	egress     *bridge.Egress     // what is done to frames that leave; nil: nothing
	growth     int                // bytes that a frame without a tag may get there
	early      uint8              // queues with early detection
	floods     bridge.QueueMap    // queues of flooded frames, by priority

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
		index: index, cellSize: p.CellSize, memory: p.Memory.Bytes(), frames: s.frames,
		pool: cells.NewPool(first, n),
	}
	for 1<<w.shift < p.Memory.BufferSize() {
		w.shift++
	}
	var err error
	if w.bridge, err = bridge.New(p.Bridge); err != nil {
		return nil, err
	}
	arena := sched.NewArena(p.Memory.Buffers())
	account := cells.Params{CellSize: p.CellSize}
	kept := 0 // buffers that are never a frame's
	for i, pp := range p.Ports {
		port := &port{number: i, worker: pp.Worker, PortParams: pp, classifier: w.bridge.Classifier(i), egress: w.bridge.Egress(i)}
		port.growth = port.egress.Growth()
		port.setQueues(p.Floods) // of others' too: in which queue a copy for them waits is decided here
		w.ports = append(w.ports, port)
		if pp.Worker != index {
			continue
		}
		if err := port.own(len(w.own), arena, p.Memory.Buffers()); err != nil {
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
func (p *port) own(local int, arena *sched.Arena, buffers int) (err error) {
	p.local = local
	p.held = make([]uint8, buffers)
	for priority, g := range p.Cells.Groups {
		p.longest[priority] = p.MaxFrame
		if g.Lossless && p.MaxLossless > 0 {
			p.longest[priority] = p.MaxLossless
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
			work += w.receive(p, now)
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
	w.snapshot.serve(w, now)
	return work
}

// reap takes back the buffers of frames that have left, and with them their charges: this is what may end an XOFF.
func (w *Worker) reap(p *port) int {
	if p.sending == 0 {
		return 0
	}
	n := p.driver.Complete(w.addrs[:])
	for _, addr := range w.addrs[:n] {
		w.complete(p, uint32(addr>>w.shift))
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
		w.accounts.Dequeue(p.local, int(f.queue), int(f.cells))
		w.release(id)
	case holdingControl:
		p.sending--
		p.inFlight -= p.signals.returned(id)
	default:
		p.held[id] = holding
		p.count.DuplicateCompletions++
	}
}

// release gives up a frame: its buffer goes home, and there its ingress charge ends.
func (w *Worker) release(id uint32) {
	f := &w.frames[id]
	in := w.ports[f.in]
	if in.worker != w.index {
		w.outboxTo(in.worker).sendHome(id)
		return
	}
	w.accounts.Release(in.local, int(f.priority), int(f.cells))
	w.pool.PutOne(id)
}

// refill keeps as many empty buffers with the driver as the port is meant to have there.
func (w *Worker) refill(p *port) {
	for p.filled < p.Buffers {
		n := w.pool.Get(w.ids[:min(burstSize, p.Buffers-p.filled)])
		for i, id := range w.ids[:n] {
			w.addrs[i] = uint64(id) << w.shift
		}
		took := p.driver.Fill(w.addrs[:n])
		for _, id := range w.ids[:took] {
			p.held[id] = holdingEmpty
		}
		p.filled += took
		w.pool.Put(w.ids[took:n])
		if took < burstSize {
			return
		}
	}
}
