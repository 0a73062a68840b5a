package dataplane

import (
	"sync/atomic"
	"time"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/umem"
	"sluice/pmd"
	"sluice/sched"
)

// Worker runs the ports that belong to it. All its fields are its own, but for those said to be
// shared.
type Worker struct {
	// Used for every frame.
	memory   *umem.Memory
	shift    uint            // address >> shift = buffer id
	mask     uint16          // address & mask = place in the buffer
	frames   []bufferedFrame // shared; see Switch.frames
	bound    []uint16        // shared, too
	pool     *umem.Pool
	accounts *cells.Manager
	bridge   *bridge.Bridge
	arena    *sched.Arena
	ports    []*port // by port number; those of other workers too, for what does not change, up and batches

	// Used for every burst.
	own     []*port  // this worker's
	sources []source // this worker's ports and handoffs
	out     []*outbox
	in      []*inbox
	burst   [burstSize]pmd.Desc
	addrs   [burstSize]uint64
	ids     [burstSize]uint32
	arrived [burstSize]bridge.Frame // the first frame of each train in burst
	sets    [burstSize]uint8        // of the classes of its followers
	classes [burstSize]uint8        // of the followers in burst
	dues    [Priorities]due         // of frames that have left, by queue
	batches []*batch                // that have frames, in the order of their first ones
	tap     *Tap                    // nil: no capture

	turns turns

	// Used once an iteration, or less.
	budget     budget
	quantum    int          // frames that a port receives in a pass at the most
	unread     bool         // frames wait at a port with lossless classes, as of this pass
	behind     bool         // they did when the budget of an iteration was spent, and their peers were stopped
	random     uint64       // of xorshift; never 0
	clock      func() int64 // see UseClock; nil: time passes between iterations only
	index      int
	cellSize   int // bytes
	gap        gapMeter
	departed   departed
	current    *Plan                      // what the worker runs
	awaited    int                        // iterations for which the next plan has waited for drivers to be empty
	plan       atomic.Pointer[Plan]       // shared: written by the control plane
	adopted    atomic.Pointer[Plan]       // shared: written by the worker
	generation atomic.Pointer[Generation] // shared: written by the worker
	snapshot   snapshotExchange           // shared, by its own rules
	fdb        fdbExchange                // shared, by its own rules
	stopped    atomic.Bool                // shared: written by the control plane
	started    atomic.Pointer[time.Time]  // shared: written by the worker
}

// bufferedFrame is what the switch knows of the frame in a buffer, in a word: so that it is written
// at once, and one comparison tells whether two frames are of a kind. From bit 0 on, in 16 bits
// each: its length in bytes; the cells charged to its ingress group, and to the egress queue while
// it is in one; its kind; and where in the buffer it begins.
type bufferedFrame uint64

// kind is where frames came from and what queue they are for, of a frame that is not flooded that
// of its priority.
type kind uint16

// maxPorts bounds the number of ports, so that a kind has room in 16 bits.
const maxPorts = 1 << 16 / Priorities / Priorities

// kindOf is of frames that came from a group, port number * Priorities + priority, and are for a
// queue.
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

// moved is the frame once it begins so many bytes later, and is so many shorter.
func (f bufferedFrame) moved(bytes int) bufferedFrame {
	return newFrame(uint16(int(f.offset())+bytes), f.length()-bytes, f.cells(), f.kind())
}

// port is a port as its worker sees it.
type port struct {
	number int // in the switch, and in the accounts
	id     int // of its name (Switch.Names); where Vacant, of the last port there, or NoPort
	worker int
	groups uint16 // number * Priorities: the first of its priority groups
	up     bool   // by the current plan

	shut      uint8 // queues that take no frame: the port is down, or discarded
	discarded uint8 // priorities in a storm that the watchdog drops
	ignored   uint8 // priorities in a storm whose pause is not honoured
	// bytes of a frame that is received now; below 0: none, since the switch drains, or discarded
	longest    [Priorities]int
	longestIn  [Priorities]int // the same when the switch runs and nothing is discarded
	longestOut int             // bytes of a frame that is sent whether it gets a tag or not

	driver     pmd.Port           // nil while absent
	classifier *bridge.Classifier // of what comes in
	egress     *bridge.Egress     // what is done to frames that leave; nil: nothing
	growth     int                // bytes that a frame without a tag may get there
	early      uint8              // queues with early detection
	floods     bridge.QueueMap    // queues of flooded frames, by priority

	batches [Priorities]batch // by queue: frames for it of the burst in hand

	held     []uint8 // by buffer id: what the driver has of ours, holding…
	parked   bool    // there is no driver, and none that still holds buffers
	filled   int     // buffers with the driver for reception, or parked for it
	sending  int     // frames with the driver, to send
	inFlight int     // their bytes on the wire, but for FCS, preamble and gap
	burst    int     // frames that it may receive at a time; see take
	txRing   int     // bound on sending
	forget   bool    // its addresses, once its driver is found empty: its link went down
	alone    int     // bursts in which no trains are sought
	unread   bool    // frames wait with its driver, as of this pass; only where it has lossless classes
	behind   bool    // they did when an iteration's budget was spent: all its peer's lossless priorities are stopped
	drain    Drain
	queues   *sched.Scheduler
	flow     flowControl
	count    PortCounters
	losses   losses
	PortParams
}

// What a driver holds a buffer for.
const (
	holdingNothing = iota
	holdingEmpty   // to receive into
	holdingFrame   // to send
	holdingControl // to send a PFC frame of ours
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

// Step is one iteration. now is in ns and never goes backwards. It returns how many frames and
// buffers it moved; 0 means that there was nothing to do.
//
// An iteration ends when no frame waits at a port with lossless classes, or when its budget is
// spent. So after each one every lossless frame that had arrived has been charged to its group, or
// its peer has been told to stop.
func (w *Worker) Step(now int64) int {
	w.gap.observe(now)
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
	w.gap.moved = work > 0
	return work
}

// pass moves a burst through every port: first what has left, since that makes room; then what has
// arrived; last what may leave.
func (w *Worker) pass(now int64) int {
	w.unread = false
	work := w.pollCompletions()
	sources := w.order()
	work += w.pollRX(sources, now)
	return work + w.pollTX(sources, now)
}

// pollCompletions takes back the buffers that the ports have sent.
func (w *Worker) pollCompletions() (work int) {
	for _, p := range w.own {
		if p.driver != nil {
			work += w.reap(p)
		}
	}
	return work
}

// pollRX forwards a burst of each port and of each worker that hands over frames, and hands over
// what is for ports of other workers.
func (w *Worker) pollRX(sources []source, now int64) (work int) {
	for _, s := range sources {
		switch {
		case s.port == nil:
			work += w.takeIn(s.handoff, now)
		case s.port.driver != nil:
			w.refill(s.port) // before frames are taken: a received frame never waits for a buffer
			work += w.take(s.port, now)
		}
	}
	for _, o := range w.out {
		o.flush()
	}
	return work
}

// pollTX sends pauses and then frames from the queues of each port.
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

// reap takes back the buffers of frames that have left, and with them their charges: this is what
// may end an XOFF.
func (w *Worker) reap(p *port) (frames int) {
	for more := p.sending > 0 && w.budget.grants(w.budget.reap); more; {
		n := w.reapBurst(p)
		frames += n
		w.budget.reap -= n
		more = n == w.quantum && p.sending > 0 && w.budget.reap > 0
	}
	return frames
}

// reapBurst is reap for a burst.
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

// settle is reapBurst for what leads a list of what has left: frames in buffers of this worker. It
// returns how many they are. Groups and queues are settled by runs of frames, so that its loop is
// short.
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

// sendBack is settle for frames in buffers of other workers: they go home, where their ingress
// charges end.
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

// dequeued gives cells back to the queue that frames of a kind have left.
func (w *Worker) dequeued(p *port, k kind, cells int) {
	if cells > 0 {
		w.accounts.Dequeue(p.number, int(k.queue()), k.in(), cells)
	}
}

// due is what frames of a kind that have left give back.
type due struct {
	kind  kind
	cells int
}

// owe notes what is to be given back for a run of frames of a kind. Runs may be of one frame, and
// several kinds take turns: so it is given back once for all runs, but where two kinds have one
// queue.
func (w *Worker) owe(p *port, k kind, cells int) {
	d := &w.dues[k.queue()%Priorities]
	if d.kind != k {
		w.pay(p, d)
		d.kind = k
	}
	d.cells += cells
}

// pay gives back what is due.
func (w *Worker) pay(p *port, d *due) {
	if d.cells > 0 {
		w.credit(p, d.kind, d.cells)
		d.cells = 0
	}
}

// credit gives cells back to the queue that frames of a kind have left, and to their group.
func (w *Worker) credit(p *port, k kind, cells int) {
	w.discharge(k, cells)
	w.dequeued(p, k, cells)
}

// complete ends the sending of one buffer. Some kernels complete a buffer twice; the mark in held
// tells.
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
	default:
		p.held[id] = holding
		p.count.DuplicateCompletions++
	}
}

// release gives up a frame: its buffer goes home, and there its ingress charge ends.
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

// refill keeps as many empty buffers with the driver as the port is meant to have there.
func (w *Worker) refill(p *port) {
	if p.flow.spare.lacking > 0 {
		w.provide(&p.flow.spare)
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
