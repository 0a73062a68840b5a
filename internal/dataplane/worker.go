package dataplane

import (
	"math/bits"
	"sync/atomic"
	"time"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/gaps"
	"sluice/internal/dataplane/punt"
	"sluice/internal/dataplane/turns"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/sched"
)

// Worker runs the ports that belong to it. Only the worker touches its fields, except those marked
// shared.
type Worker struct {
	// Used for every frame.
	memory   *umem.Memory
	shift    uint         // address >> shift = buffer id
	mask     uint16       // address & mask = place in the buffer
	frames   []bufferWord // shared; see Switch.frames
	bound    []uint16     // shared, likewise
	pool     *umem.Pool
	accounts *cells.Manager
	bridge   *bridge.Bridge
	arena    *sched.Arena
	ports    []*port // by port number; of other workers' ports only what never changes, up and batches are used

	// Used for every burst.
	own     []*port  // this worker's
	sources []source // this worker's ports and handoffs
	out     []*outbox
	in      []*inbox
	burst   [burstSize]pmd.Desc
	addrs   [burstSize]uint64
	ids     [burstSize]uint32
	arrived [burstSize]bridge.Frame // the first frame of each train in burst
	sets    [burstSize]uint8        // set of its followers' classes
	classes [burstSize]uint8        // classes of the followers in burst
	dues    [Priorities]due         // cells that sent frames are to give back, by queue
	batches []*batch                // those with frames, in the order of their first frames
	tap     *Tap                    // nil: no capture
	// shared: frames of the control plane wait; set by Inject, cleared by the worker
	injected atomic.Bool

	turns turns.Turns

	// Used once per iteration, or less often.
	budget     budget.Budget
	quantum    int    // most frames that a port receives in a pass
	unread     bool   // frames wait at a port with lossless classes, as of this pass
	behind     bool   // the last budget ran out with frames unread, so their peers were stopped
	passed     bool   // all ports were read since the worker runs its generation, or their peers stopped
	reloads    uint8  // changes of its generation so far, modulo 256
	changing   bool   // the change to the generation that the worker runs goes on; see finishChange
	random     uint64 // state of xorshift; never 0
	origin     func() time.Time
	clock      func() int64 // see UseClock; nil: time passes between iterations only
	index      int
	cellSize   int // bytes
	gap        gaps.Meter
	departed   Departed
	current    *Plan                      // what the worker runs now
	clears     uint64                     // Plan.Cleared, as of that plan
	flushes    uint64                     // Plan.Flush.Serial, as of that plan
	awaited    int                        // iterations that the next plan has waited for drivers to empty
	plan       atomic.Pointer[Plan]       // shared: written by the control plane
	adopted    atomic.Pointer[Plan]       // shared: written by the worker
	generation atomic.Pointer[Generation] // shared: written by the worker
	snapshot   snapshotExchange           // shared, by its own rules
	fdb        fdbExchange                // shared, by its own rules
	stopped    atomic.Bool                // shared: written by the control plane
	started    atomic.Pointer[time.Time]  // shared: written by the worker
	// shared: written by Prepare, by kind; nil: no port has had a subscription
	punted [punt.Kinds]atomic.Pointer[punt.Channel]

	// Used to announce addresses to other workers.
	rounds int               // how often the table is still to be gone through; see repeat
	cursor int               // where in the table
	told   []bridge.FDBEntry // memory of repeat

	// Used for frames of several parts.
	parts *partTable // shared; see Switch.parts
	descs []pmd.Desc // of a burst to send
	whole []byte     // a frame in one piece, for the control plane
}

// port is a port as its worker sees it.
type port struct {
	number int           // in the switch, and in the accounts
	id     bridge.PortID // Generation.portIDs
	worker int
	groups uint16 // number * Priorities: the first of its priority groups
	up     bool   // by the current plan
	reads  bool   // takes frames; only of this worker's ports

	shut      uint8 // queues that take no frame: all if the port is down, else those of discarded
	discarded uint8 // priorities in a storm that the watchdog drops
	ignored   uint8 // priorities in a storm whose pause is not honoured
	// longest frame received now, bytes; -1: none, the switch drains or the priority is discarded
	longest    [Priorities]int
	longestIn  [Priorities]int // the same while the switch runs and nothing is discarded
	longestOut int             // longest frame that fits even if it gets a tag, bytes

	driver     pmd.Port               // nil while absent
	classifier *bridge.Classifier     // of received frames
	screen     bridge.Screen          // finds frames that stop here
	egress     *bridge.Egress         // what is done to frames that leave; nil: nothing
	growth     int                    // bytes that an untagged frame may grow by
	early      uint8                  // queues with early detection
	lossless   uint8                  // classes, by the parameters; flow.lossless has those that are
	words      [Priorities]bufferWord // by class: what all frames received in it say, kind and Lossless
	floods     bridge.QueueMap        // queues of flooded frames, by priority

	batches [Priorities]batch // by queue: its frames of the current burst

	held       []uint8 // by buffer id: what the driver holds it for, holding…
	parked     bool    // no driver, and no former one that still holds buffers
	filled     int     // buffers with the driver for reception, or parked for it
	sending    int     // buffers with the driver, to send
	inFlight   int     // their bytes on the wire, without FCS, preamble and gap
	burst      int     // most descriptors of the next receive; see take
	slack      int     // most of it that a burst leaves free for a frame of several parts; 0: there are none
	txRing     int     // upper limit of sending
	spread     int     // most parts of a frame that is sent
	epoch      uint32  // Link.epoch, as of the current plan
	alone      int     // bursts left in which no trains are sought
	unread     bool    // frames wait with its driver, as of this pass; only where it has lossless classes
	behind     bool    // the last budget ran out with frames unread: its peer's lossless priorities are stopped
	learnsFrom int64   // ns: see forget
	unbacked   bool    // has less headroom than it is to have: does not begin to read
	settled    bool    // has the headroom and the demand of the generation
	drain      Drain
	queues     *sched.Scheduler
	flow       flowControl
	injection  injection
	subscriber punt.Subscriber
	count      PortCounters

	// Used while it does not read, and while it changes over.
	stalled      []pmd.Desc         // what it has received meanwhile
	before       int                // of these and with the driver: descriptors from before the link went down
	excess       int                // likewise: descriptors for which there is no room once the link is up
	stalledSince int64              // ns
	longer       [Priorities]uint64 // by queue: see hasLonger

	// Used for frames of several parts.
	returned int  // buffers back from the driver that belong to frames of which it still has others
	later    int  // buffers of the frames in its queues, beyond the first of each
	most     int  // most buffers of a frame that has been queued here
	stuck    bool // the first frame that waits may be too long for the burst

	PortParams
}

// What a driver holds a buffer for.
const (
	holdingNothing  = iota
	holdingEmpty    // to receive into
	holdingFrame    // to send
	holdingControl  // to send a PFC frame of the switch
	holdingInjected // to send a frame of the control plane
	holdingPart     // to send a part of a frame that has several
	holdingHead     // nothing; it is the head of a frame of several parts in the current burst
)

func newWorker(s *Switch, index, first, n int) *Worker {
	memory := s.params.Memory
	w := &Worker{
		index: index, random: uint64(index) + 1, cellSize: s.params.CellSize, memory: memory, frames: s.frames,
		parts: s.parts, bound: s.bound, origin: s.origin,
		told:  make([]bridge.FDBEntry, 0, repeatSlots),
		descs: make([]pmd.Desc, 0, burstSize*pmd.MaxParts), whole: make([]byte, PuntLongest),
		pool: umem.NewPool(first, n), arena: sched.NewArena(memory.Buffers()),
	}
	for 1<<w.shift < memory.BufferSize() {
		w.shift++
	}
	w.mask = 1<<w.shift - 1
	return w
}

// Step runs one iteration. now is in ns and never goes backwards. It returns how many frames and
// buffers it moved; 0 means that there was nothing to do.
//
// An iteration ends when no frame waits at a port with lossless classes, or when its budget is
// spent. So after each iteration every lossless frame that had arrived is charged to its group, or
// its peer was sent XOFF.
func (w *Worker) Step(now int64) int {
	w.gap.Observe(now)
	w.budget.Renew()
	if p := w.plan.Load(); p != w.current && w.ready(p) {
		w.adopt(p, now)
	}
	if w.changing {
		w.finishChange()
	}
	work := w.pass(now)
	for w.budget.First = false; w.unread && w.budget.Receive > 0; {
		work += w.pass(now)
	}
	w.passed = true
	if w.unread || w.behind {
		w.holdUnread(now)
	}
	if w.tap != nil {
		w.tap.turn()
	}
	if w.rounds > 0 {
		w.repeat(now)
	}
	w.bridge.Tidy(now)
	w.snapshot.serve(w, now)
	w.fdb.serve(w, now)
	w.gap.Moved = work > 0
	return work
}

// pass moves a burst through every port. It takes back sent buffers first, because that makes room,
// then receives, then sends: frames of the control plane first.
func (w *Worker) pass(now int64) int {
	w.unread = false
	work := w.pollCompletions()
	sources := w.order()
	work += w.pollRX(sources, now)
	return work + w.inject(now) + w.pollTX(sources, now)
}

// pollCompletions takes back the buffers of frames that the ports have sent.
func (w *Worker) pollCompletions() (work int) {
	for _, p := range w.own {
		if p.driver != nil {
			work += w.reap(p)
		}
	}
	return work
}

// pollRX forwards a burst from each port and from each other worker, and hands over frames for
// other workers' ports.
func (w *Worker) pollRX(sources []source, now int64) (work int) {
	for _, s := range sources {
		switch {
		case s.port == nil:
			work += w.takeIn(s.handoff, now)
		case s.port.driver != nil:
			w.refill(s.port) // before receiving, so that no received frame waits for a buffer
			work += w.take(s.port, now)
		}
	}
	for _, o := range w.out {
		o.Flush()
	}
	return work
}

// pollTX sends pauses and then queued frames at each port.
func (w *Worker) pollTX(sources []source, now int64) (work int) {
	for _, s := range sources {
		p := s.port
		if p == nil {
			continue
		}
		if p.driver == nil {
			work += w.discard(p)
			continue
		}
		w.guard(p, now)
		w.sendPauses(p, now) // ahead of every frame of this pass
		if p.queues.Backlogged()&p.shut != 0 {
			work += w.discard(p)
		}
		work += w.transmit(p, now)
		p.driver.Flush() // every pass: nothing sticks when traffic stops
	}
	return work
}

// reap takes back the buffers of sent frames and ends their charges, which may end an XOFF.
func (w *Worker) reap(p *port) (frames int) {
	for more := p.sending > 0 && w.budget.Grants(w.budget.Reap); more; {
		n := w.reapBurst(p)
		frames += n
		w.budget.Reap -= n
		more = n == w.quantum && p.sending > 0 && w.budget.Reap > 0
	}
	return frames
}

// reapBurst reaps one burst.
func (w *Worker) reapBurst(p *port) int {
	n := p.driver.Complete(w.addrs[:w.quantum])
	for left := w.addrs[:n]; len(left) > 0; {
		done := w.settle(p, left)
		done += w.sendBack(p, left[done:])
		if done == 0 {
			w.complete(p, uint32(left[0]>>(w.shift&63)))
			done = 1
		}
		left = left[done:]
	}
	return n
}

// settle takes back the leading addresses that belong to frames in this worker's own buffers, and
// returns how many there are. It credits groups and queues once per run of frames of one kind,
// which keeps its loop short.
//
//go:noinline
func (w *Worker) settle(p *port, addrs []uint64) (n int) {
	held, frames, shift, pool := p.held, w.frames, w.shift&63, w.pool
	bytes, like, cells := 0, frameKind(0), 0
	ids := w.ids[:len(addrs)]
	for i, addr := range addrs {
		id := uint32(addr >> shift)
		if held[id] != holdingFrame || !pool.Owns(id) {
			break
		}
		held[id] = holdingNothing
		f := frames[id]
		if f.Kind() != like {
			w.owe(p, like, cells)
			like, cells = f.Kind(), 0
		}
		cells += f.Cells()
		bytes += onWire(f.Length())
		ids[i] = id
		n++
	}
	if n == 0 {
		return 0
	}
	w.owe(p, like, cells)
	for queue := range w.dues {
		w.pay(p, &w.dues[queue])
	}
	pool.Put(ids[:n])
	p.sending -= n
	p.inFlight -= bytes
	return n
}

// sendBack is settle for frames in buffers of other workers. The buffers go home, where their
// ingress charges end.
//
//go:noinline
func (w *Worker) sendBack(p *port, addrs []uint64) (n int) {
	var home *outbox
	bytes, like, cells := 0, frameKind(0), 0
	for _, addr := range addrs {
		id := uint32(addr >> (w.shift & 63))
		if p.held[id] != holdingFrame || w.pool.Owns(id) {
			break
		}
		p.held[id] = holdingNothing
		f := w.frames[id]
		if home == nil || f.Kind() != like {
			w.dequeued(p, like, cells)
			like, cells = f.Kind(), 0
			home = w.outboxTo(w.ports[f.In()].worker)
		}
		cells += f.Cells()
		bytes += onWire(f.Length())
		home.SendHome(id)
		n++
	}
	w.dequeued(p, like, cells)
	p.sending -= n
	p.inFlight -= bytes
	return n
}

// dequeued returns the cells of frames of a kind to the queue that they left.
func (w *Worker) dequeued(p *port, k frameKind, cells int) {
	if cells > 0 {
		w.accounts.Dequeue(p.number, int(k.Queue()), k.In(), cells)
	}
}

// due is what sent frames of one kind are to give back.
type due struct {
	kind  frameKind
	cells int
}

// owe adds a run of frames of a kind to what is due. Runs may be single frames of alternating
// kinds, so the accounts are credited once for all runs, unless two kinds share a queue.
func (w *Worker) owe(p *port, k frameKind, cells int) {
	d := &w.dues[k.Queue()%Priorities]
	if d.kind != k {
		w.pay(p, d)
		d.kind = k
	}
	d.cells += cells
}

// pay credits what is due.
func (w *Worker) pay(p *port, d *due) {
	if d.cells > 0 {
		w.credit(p, d.kind, d.cells)
		d.cells = 0
	}
}

// credit returns the cells of frames of a kind to the queue that they left and to their group.
func (w *Worker) credit(p *port, k frameKind, cells int) {
	w.discharge(k, cells)
	w.dequeued(p, k, cells)
}

// complete ends the sending of one buffer. Some kernels complete a buffer twice; the mark in held
// shows it.
func (w *Worker) complete(p *port, id uint32) {
	holding := p.held[id]
	p.held[id] = holdingNothing
	switch holding {
	case holdingFrame:
		p.sending--
		w.leave(p, id)
	case holdingPart:
		w.completePart(p, id)
	case holdingControl:
		p.sending--
		p.inFlight -= p.flow.returned(id)
	case holdingInjected:
		p.count.Injected++
		p.count.InjectedBytes += uint64(w.endInjection(p, id))
	default:
		p.held[id] = holding
		p.count.DuplicateCompletions++
	}
}

// leave ends the sending of a frame.
func (w *Worker) leave(p *port, id uint32) {
	f := w.frames[id]
	p.inFlight -= onWire(f.Length())
	w.accounts.Dequeue(p.number, int(f.Queue()), f.In(), f.Cells())
	w.release(id, f)
}

// release returns a frame's buffers to their home, where its ingress charge ends.
func (w *Worker) release(id uint32, f bufferWord) {
	if !w.pool.Owns(id) {
		w.sendHome(id, f)
		return
	}
	w.accounts.Release(f.In(), int(f.Priority()), f.Cells())
	if f&severalParts != 0 {
		w.freeLater(id)
	}
	w.pool.PutOne(id)
}

func (w *Worker) sendHome(id uint32, f bufferWord) {
	w.outboxTo(w.ports[f.In()].worker).SendHome(id)
}

// refill tops up the driver's empty buffers to PortParams.Buffers.
func (w *Worker) refill(p *port) {
	if p.flow.spare.Lacking|p.injection.spare.Lacking != 0 {
		w.provideOwn(p)
	}
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

// source is where a worker's queues get frames from: one of its ports, or a handoff from another
// worker.
type source struct {
	port    *port // nil: a handoff
	handoff *inbox
}

// order returns the sources of a pass in random order, so that none is always the last to spend the
// budget, or the first to ask for room.
func (w *Worker) order() []source {
	s := w.sources
	for i := len(s) - 1; i > 0; i-- {
		j := w.draw(i + 1)
		s[i], s[j] = s[j], s[i]
	}
	return s
}

// draw returns a random number from 0 to n-1, by xorshift64* (S. Vigna, "An experimental
// exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 42(4), 2016).
func (w *Worker) draw(n int) int {
	x := w.random
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	w.random = x
	high, _ := bits.Mul64(x*0x2545f4914f6cdd1d, uint64(n))
	return int(high)
}
