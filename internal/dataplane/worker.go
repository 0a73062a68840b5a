package dataplane

import (
	"sync/atomic"
	"time"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/gaps"
	"sluice/internal/punt"
	"sluice/internal/turns"
	"sluice/internal/umem"
	"sluice/pmd"
	"sluice/sched"
)

// Worker runs the ports that belong to it. Only the worker touches its fields, except those marked
// shared.
type Worker struct {
	// Used for every frame.
	memory   *umem.Memory
	shift    uint            // address >> shift = buffer id
	mask     uint16          // address & mask = place in the buffer
	frames   []bufferedFrame // shared; see Switch.frames
	bound    []uint16        // shared, likewise
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
	budget     budget
	quantum    int          // most frames that a port receives in a pass
	unread     bool         // frames wait at a port with lossless classes, as of this pass
	behind     bool         // the last budget ran out with frames unread, so their peers were stopped
	random     uint64       // state of xorshift; never 0
	clock      func() int64 // see UseClock; nil: time passes between iterations only
	index      int
	cellSize   int // bytes
	gap        gaps.Meter
	departed   departed
	current    *Plan                        // what the worker runs now
	clears     uint64                       // Plan.Cleared, as of that plan
	flushes    uint64                       // Plan.Flush.Serial, as of that plan
	awaited    int                          // iterations that the next plan has waited for drivers to empty
	plan       atomic.Pointer[Plan]         // shared: written by the control plane
	adopted    atomic.Pointer[Plan]         // shared: written by the worker
	generation atomic.Pointer[Generation]   // shared: written by the worker
	snapshot   snapshotExchange             // shared, by its own rules
	fdb        fdbExchange                  // shared, by its own rules
	punted     atomic.Pointer[punt.Channel] // shared: written by Prepare; nil: no port has had a subscription
	stopped    atomic.Bool                  // shared: written by the control plane
	started    atomic.Pointer[time.Time]    // shared: written by the worker
}

// bufferedFrame describes the frame in a buffer in one word, so that one store writes it and one
// comparison matches two kinds. It has four fields of 16 bits, from bit 0 on: the frame's length in
// bytes; the cells charged to its ingress group, and to its egress queue while it waits there; its
// kind; and its offset in the buffer.
type bufferedFrame uint64

// kind encodes a frame's ingress port, priority and egress queue. The queue is that of the
// priority, unless the frame is flooded.
type kind uint16

// maxPorts bounds the number of ports so that a kind fits in 16 bits.
const maxPorts = 1 << 16 / Priorities / Priorities

// kindOf returns the kind of frames from a group (port number * Priorities + priority) for a queue.
func kindOf(group uint16, queue uint8) kind { return kind(group*Priorities + uint16(queue)) }

func (k kind) in() int         { return int(k / Priorities / Priorities) }
func (k kind) priority() uint8 { return uint8(k / Priorities % Priorities) }
func (k kind) queue() uint8    { return uint8(k % Priorities) }

func newFrame(offset uint16, length, cells int, k kind) bufferedFrame {
	return bufferedFrame(uint64(offset)<<48 | uint64(k)<<32 | uint64(cells)<<16 | uint64(length))
}

func (f bufferedFrame) length() int     { return int(uint16(f)) }
func (f bufferedFrame) cells() int      { return int(uint16(f >> 16)) }
func (f bufferedFrame) kind() kind      { return kind(f >> 32) }
func (f bufferedFrame) offset() uint64  { return uint64(f >> 48) }
func (f bufferedFrame) in() int         { return f.kind().in() }
func (f bufferedFrame) priority() uint8 { return f.kind().priority() }
func (f bufferedFrame) queue() uint8    { return f.kind().queue() }

// moved returns the frame with its start moved by a number of bytes, and shortened by as many.
func (f bufferedFrame) moved(bytes int) bufferedFrame {
	return newFrame(uint16(int(f.offset())+bytes), f.length()-bytes, f.cells(), f.kind())
}

// port is a port as its worker sees it.
type port struct {
	number int // in the switch, and in the accounts
	id     int // of its name (Switch.Names); if Vacant, that of the last port there, or NoPort
	worker int
	groups uint16 // number * Priorities: the first of its priority groups
	up     bool   // by the current plan

	shut      uint8 // queues that take no frame: all if the port is down, else those of discarded
	discarded uint8 // priorities in a storm that the watchdog drops
	ignored   uint8 // priorities in a storm whose pause is not honoured
	// longest frame received now, bytes; -1: none, the switch drains or the priority is discarded
	longest    [Priorities]int
	longestIn  [Priorities]int // the same while the switch runs and nothing is discarded
	longestOut int             // longest frame that fits even if it gets a tag, bytes

	driver     pmd.Port           // nil while absent
	classifier *bridge.Classifier // of received frames
	egress     *bridge.Egress     // what is done to frames that leave; nil: nothing
	growth     int                // bytes that an untagged frame may grow by
	early      uint8              // queues with early detection
	floods     bridge.QueueMap    // queues of flooded frames, by priority

	batches [Priorities]batch // by queue: its frames of the current burst

	held       []uint8 // by buffer id: what the driver holds it for, holding…
	parked     bool    // no driver, and no former one that still holds buffers
	filled     int     // buffers with the driver for reception, or parked for it
	sending    int     // frames with the driver, to send
	inFlight   int     // their bytes on the wire, without FCS, preamble and gap
	burst      int     // most frames of the next receive; see take
	txRing     int     // upper limit of sending
	forget     bool    // its link went down: forget its FDB entries when its driver is empty
	flaps      uint32  // Link.Flaps, as of the current plan
	alone      int     // bursts left in which no trains are sought
	unread     bool    // frames wait with its driver, as of this pass; only where it has lossless classes
	behind     bool    // the last budget ran out with frames unread: its peer's lossless priorities are stopped
	drain      Drain
	queues     *sched.Scheduler
	flow       flowControl
	injection  injection
	subscriber punt.Subscriber
	count      PortCounters
	losses     losses
	PortParams
}

// What a driver holds a buffer for.
const (
	holdingNothing  = iota
	holdingEmpty    // to receive into
	holdingFrame    // to send
	holdingControl  // to send a PFC frame of the switch
	holdingInjected // to send a frame of the control plane
)

func newWorker(s *Switch, index, first, n int) *Worker {
	memory := s.params.Memory
	w := &Worker{
		index: index, random: uint64(index) + 1, cellSize: s.params.CellSize, memory: memory, frames: s.frames,
		bound: s.bound,
		pool:  umem.NewPool(first, n), arena: sched.NewArena(memory.Buffers()),
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
	w.budget.renew()
	if p := w.plan.Load(); p != w.current && w.ready(p) {
		w.adopt(p, now)
	}
	work := w.pass(now)
	for w.budget.first = false; w.unread && w.budget.receive > 0; {
		work += w.pass(now)
	}
	if w.unread || w.behind {
		w.holdUnread(now)
	}
	if w.tap != nil {
		w.tap.turn()
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
		o.flush()
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
	for more := p.sending > 0 && w.budget.grants(w.budget.reap); more; {
		n := w.reapBurst(p)
		frames += n
		w.budget.reap -= n
		more = n == w.quantum && p.sending > 0 && w.budget.reap > 0
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
	bytes, like, cells := 0, kind(0), 0
	ids := w.ids[:len(addrs)]
	for i, addr := range addrs {
		id := uint32(addr >> shift)
		if held[id] != holdingFrame || !pool.Owns(id) {
			break
		}
		held[id] = holdingNothing
		f := frames[id]
		if f.kind() != like {
			w.owe(p, like, cells)
			like, cells = f.kind(), 0
		}
		cells += f.cells()
		bytes += onWire(f.length())
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
	bytes, like, cells := 0, kind(0), 0
	for _, addr := range addrs {
		id := uint32(addr >> (w.shift & 63))
		if p.held[id] != holdingFrame || w.pool.Owns(id) {
			break
		}
		p.held[id] = holdingNothing
		f := w.frames[id]
		if home == nil || f.kind() != like {
			w.dequeued(p, like, cells)
			like, cells = f.kind(), 0
			home = w.outboxTo(w.ports[f.in()].worker)
		}
		cells += f.cells()
		bytes += onWire(f.length())
		home.sendHome(id)
		n++
	}
	w.dequeued(p, like, cells)
	p.sending -= n
	p.inFlight -= bytes
	return n
}

// dequeued returns the cells of frames of a kind to the queue that they left.
func (w *Worker) dequeued(p *port, k kind, cells int) {
	if cells > 0 {
		w.accounts.Dequeue(p.number, int(k.queue()), k.in(), cells)
	}
}

// due is what sent frames of one kind are to give back.
type due struct {
	kind  kind
	cells int
}

// owe adds a run of frames of a kind to what is due. Runs may be single frames of alternating
// kinds, so the accounts are credited once for all runs, unless two kinds share a queue.
func (w *Worker) owe(p *port, k kind, cells int) {
	d := &w.dues[k.queue()%Priorities]
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
func (w *Worker) credit(p *port, k kind, cells int) {
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
		f := w.frames[id]
		p.sending--
		p.inFlight -= onWire(f.length())
		w.accounts.Dequeue(p.number, int(f.queue()), f.in(), f.cells())
		w.release(id, f)
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

// release returns a frame's buffer to its home, where its ingress charge ends.
func (w *Worker) release(id uint32, f bufferedFrame) {
	if !w.pool.Owns(id) {
		w.sendHome(id, f)
		return
	}
	w.accounts.Release(f.in(), int(f.priority()), f.cells())
	w.pool.PutOne(id)
}

func (w *Worker) sendHome(id uint32, f bufferedFrame) {
	w.outboxTo(w.ports[f.in()].worker).sendHome(id)
}

// refill tops up the driver's empty buffers to PortParams.Buffers.
func (w *Worker) refill(p *port) {
	if p.flow.spare.lacking|p.injection.spare.lacking != 0 {
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
