package adversary

import (
	"fmt"
	"iter"
	"math/rand/v2"

	"sluice/bench/sim"
	"sluice/bench/traffic/line"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/budget"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
)

// world is a switch and the peers of its ports, in virtual time. The workers are real. Each runs
// until it or the adversary lets time pass; then the others run.
type world struct {
	*drawn
	base     *settings        // before any reload
	next     *reload          // prepared, not yet published
	before   dataplane.Params // before the latest change
	adopted  int64            // ns: until then, workers may still run before
	running  *loop            // whose worker runs
	oracle   oracle
	duration int64  // ns: of the random part of the attack, about
	forgets  int64  // ns: until then the switch may forget what it has learned
	absent   uint64 // ports without a driver, or about to lose it: nobody sends to them
	rng      *rand.Rand
	s        sim.Switch
	plan     dataplane.Plan
	latest   *dataplane.Plan // published
	peers    []*peer
	loops    []*loop
	now      int64 // ns
	cost     int64 // ns that the worker takes to receive and send a frame
	found    Result
	// ns: the longest time between two moments at which a worker had emptied a port's ring or had
	// stopped its peer
	slow int64
}

// loop is a worker with its interruptions.
type loop struct {
	*world
	worker     *dataplane.Worker
	resume     func() (ns int64, running bool)
	stop       func()
	yield      func(ns int64) bool
	wakeAt     int64
	drivers    []*driver // of its ports with lossless classes
	rush       bool      // the next iteration begins at once
	held       [2]int64  // ns of interruption since the current iteration began and in the previous one
	idle       float64   // probability of an interruption at each place where one is possible
	injects    float64   // probability of a frame of the control plane before each burst that is received
	behindPlan bool      // a worker may not run the latest plan yet
}

// driver is a worker's port. Time may pass in each call by the worker.
type driver struct {
	*mem.Port
	loop   *loop
	peer   *peer
	empty  int64  // ns: when the worker last left no frame here, or stopped the peer
	polled bool   // the worker knows it
	unread bool   // the worker left frames when it last polled
	held   int64  // ns of interruption since then
	before func() // called once, before frames are sent

	// As of the plan that the worker runs:
	up       bool
	reads    bool
	lossless uint8    // priorities
	since    [8]int64 // ns, by priority: until then the peer may send although the switch wants it to stop
}

func newWorld(d *drawn, rng *rand.Rand) (*world, error) {
	w := &world{drawn: d, base: d.settings, oracle: newOracle(len(d.params.Ports)), rng: rng,
		s: sim.Switch{Params: d.params}}
	var err error
	if w.s.Switch, err = dataplane.NewSwitch(d.params); err != nil {
		return nil, err
	}
	for _, worker := range w.s.Workers {
		w.loops = append(w.loops, &loop{world: w, worker: worker})
		worker.UseClock(func() int64 { return w.now })
	}
	for i := range d.params.Ports {
		if err := w.plug(i); err != nil {
			return nil, err
		}
	}
	w.publish(nil)
	for _, l := range w.loops {
		l.resume, l.stop = iter.Pull(l.run)
	}
	return w, nil
}

func (w *world) close() {
	for _, l := range w.loops {
		l.stop()
	}
}

// plug adds a port's peer and connects both.
func (w *world) plug(port int) error {
	c, size := &w.config.Ports[port], w.config.Memory.BufferSize
	p := &peer{world: w, port: port, host: port, speed: int64(c.LinkSpeed),
		memory: make([]byte, receiveBuffers*size+sendBuffer)}
	for n := range p.silent {
		p.silent[n] = never
	}
	p.shorten()
	w.drawSending(p, &w.params.Ports[port])
	w.peers = append(w.peers, p)
	w.plan.Links = append(w.plan.Links, dataplane.Link{})
	return w.connect(p)
}

// connect connects a port to its peer by a new wire.
func (w *world) connect(p *peer) error {
	c, ring := &w.config.Ports[p.port], w.params.Ports[p.port].Buffers
	size := w.config.Memory.BufferSize
	mtu := size - 64
	if w.part > 0 {
		mtu = jumboMTU
	}
	wire, err := mem.NewWire(
		mem.Params{
			Rate: c.LinkSpeed, Delay: w.delay[p.port], MTU: mtu, Part: w.part, Ring: max(ring, receiveBuffers),
			Fault: func(_ int64, toB bool, b []byte) mem.Fault { return p.fault(toB, b) },
			Tap: func(at int64, toB bool, b []byte) {
				if toB {
					p.arrived(at, b)
				} else if serial, _, found := w.oracle.find(b); found {
					p.driver.promise(&w.oracle.passages[serial])
				}
			},
		},
		mem.End{Memory: w.memory.Bytes(), Buffer: size}, mem.End{Memory: p.memory[:receiveBuffers*size], Buffer: size})
	if err != nil {
		return fmt.Errorf("sim: port %d: %w", p.port, err)
	}
	wire.Advance(w.now)
	p.wire = wire
	for i := range receiveBuffers {
		addr := [1]uint64{uint64(i * size)}
		wire.B.Fill(addr[:])
	}
	if parked := w.s.Parked(p.port); wire.A.Fill(parked) != len(parked) {
		return fmt.Errorf("sim: port %d: the wire does not take all of the %d buffers", p.port, len(parked))
	}
	l := w.loops[w.params.Ports[p.port].Worker]
	p.driver = &driver{Port: wire.A, loop: l, peer: p, empty: w.now}
	l.drivers = append(l.drivers, p.driver)
	w.plan.Links[p.port] = dataplane.Link{Driver: p.driver, Up: true, TXRing: p.txRing, Parts: p.parts,
		MAC: [6]byte{2, 0, 0, 0, 2, byte(p.port)}}
	return nil
}

// drawSending draws how much a port's driver takes for sending: parts as they came, or only full
// buffers; and a TX ring of any size, down to one with room for a single longest frame. A frame may
// always have two parts: a link with one says that it receives no frame of several, but the wire
// delivers such frames even if a full buffer would hold the longest.
func (w *world) drawSending(p *peer, params *dataplane.PortParams) {
	if p.txRing = params.Buffers; w.part == 0 {
		return
	}
	size := w.config.Memory.BufferSize
	p.parts = pick(w.rng, pmd.MaxParts, max(2, (params.MaxFrame+size-1)/size))
	if least := dataplane.ControlBuffers + max(1, params.Parts); w.rng.IntN(3) == 0 {
		p.txRing = min(p.txRing, least+w.rng.IntN(32))
	}
}

// fault loses every frame on a wire that is down.
func (p *peer) fault(toB bool, b []byte) mem.Fault {
	if !p.down {
		return mem.Deliver
	}
	if serial, _, found := p.oracle.find(b); found {
		if f := &p.oracle.passages[serial]; toB {
			f.got |= 1 << p.port
		} else {
			f.gone = true
		}
	}
	return mem.Lose
}

// publish publishes the current links to the workers, and a new generation of parameters unless g
// is nil.
func (w *world) publish(g *dataplane.Generation) {
	plan := w.plan
	plan.Links = append([]dataplane.Link(nil), w.plan.Links...)
	plan.Generation = g
	w.s.Publish(&plan)
	w.latest = &plan
	for _, l := range w.loops {
		l.behindPlan = true
	}
}

// run advances time by ns.
func (w *world) run(ns int64) {
	for end := w.now + ns; ; {
		l := w.loops[0]
		for _, other := range w.loops[1:] {
			if other.wakeAt < l.wakeAt {
				l = other
			}
		}
		if l.wakeAt > end {
			w.advance(end)
			return
		}
		w.advance(l.wakeAt)
		w.running = l
		ns, _ := l.resume()
		w.running = nil
		l.wakeAt = w.now + ns
	}
}

func (w *world) advance(to int64) {
	for _, p := range w.peers {
		p.advance(to)
	}
	w.now = to
}

// run is the worker: one iteration after another, with a short time between them without frames.
func (l *loop) run(yield func(int64) bool) {
	l.yield = yield
	for yield(l.between()) {
		l.held = [2]int64{0, l.held[0]}
		l.worker.Step(l.now)
		if l.behindPlan {
			l.follow() // a worker reads no port without a link
		}
		for _, d := range l.drivers {
			if d.unread || !d.reads {
				d.served() // the worker left frames there, so by now it has stopped their sender
			}
		}
	}
}

// between returns the time from an iteration to the next.
func (l *loop) between() int64 {
	if l.rush {
		l.rush = false
		return 1
	}
	most := l.pause()
	if l.idle > 0 && l.rng.Float64() < l.idle {
		most = max(most, l.allowed(l.rng.Int64N(1+l.gap), most))
		l.hold(most)
		return 1 + most
	}
	return 1 + l.rng.Int64N(most)
}

// pause returns the longest time between two iterations of a worker that is not interrupted, ns.
func (l *loop) pause() int64 { return max(100, l.gap/50) }

// hold records an interruption.
func (l *loop) hold(ns int64) {
	l.held[0] += ns
	for _, d := range l.drivers {
		d.held += ns
	}
}

// allowed returns how much of an interruption of ns is allowed: two consecutive iterations must not
// take longer than the gap, nor may a frame wait longer in a port's ring. The worker's own time for
// the budgets of two iterations, and the time between them, count towards the gap.
func (l *loop) allowed(ns, between int64) int64 {
	own := 6*int64(l.budget())*l.cost + between + 2
	ns = min(ns, l.gap-own-l.held[0]-l.held[1])
	for _, d := range l.drivers {
		ns = min(ns, l.gap-own-d.held)
	}
	return max(0, ns)
}

// budget returns how many frames an iteration of the worker handles: at least a burst of each port.
func (l *loop) budget() int {
	size := l.params.Budget
	if l.now < l.adopted { // its iteration may have begun before a reload
		size = max(size, l.before.Budget)
	}
	return max(size, int(budget.LeastResponse(len(l.drivers))/(4*budget.FrameCost)))
}

// pass advances time by ns for other workers and the peers.
func (l *loop) pass(ns int64) {
	if ns > 0 {
		l.yield(ns)
	}
}

// interrupt takes the CPU from the worker; the next iteration follows within between ns of this
// one.
func (l *loop) interrupt(ns, between int64) {
	ns = l.allowed(ns, between)
	l.hold(ns)
	l.pass(ns)
}

// maybe interrupts the worker at random.
func (l *loop) maybe() {
	if l.idle > 0 && l.rng.Float64() < l.idle {
		l.interrupt(l.rng.Int64N(1+l.gap), l.pause())
	}
}

// inject has the control plane send a shortest or a longest frame at a port.
func (d *driver) inject() {
	if l := d.loop; l.injects > 0 && l.rng.Float64() < l.injects {
		b := make([]byte, pick(l.rng, shortest, l.params.Ports[d.peer.port].MaxFrame))
		frame.PutHeader(b, 0x0180_c200_000e, hostOf(d.peer.port), 0, 0, false, frame.TypeLLDP)
		l.s.Inject(l.s.PortID(d.peer.port), b)
	}
}

// Receive implements pmd.Port.
func (d *driver) Receive(burst []pmd.Desc) int {
	l := d.loop
	l.maybe()
	d.inject()
	if l.behindPlan {
		l.follow()
	}
	n := d.Port.Receive(burst)
	d.look()
	head := true
	for _, desc := range burst[:n] {
		if head {
			d.took(l.memory.Frame(desc.Addr, desc.Len))
		}
		head = desc.Options&pmd.Continued == 0
	}
	l.pass(int64(line.Frames(burst[:n])) * l.cost)
	return n
}

// Waiting implements pmd.Port.
func (d *driver) Waiting() int {
	d.look()
	return d.Port.Waiting()
}

// look records what the worker sees.
func (d *driver) look() {
	if d.unread = d.Port.Waiting() > 0; !d.unread {
		d.served()
	}
}

// served records that no frame waits here that the switch has not received, or that it has stopped
// the peer.
func (d *driver) served() {
	w := d.loop.world
	if d.polled {
		w.slow = max(w.slow, w.now-d.empty)
	}
	d.empty, d.held, d.polled = w.now, 0, true
}

// Transmit implements pmd.Port.
func (d *driver) Transmit(burst []pmd.Desc) int {
	if before := d.before; before != nil && len(burst) > 1 {
		d.before = nil
		before()
	}
	l := d.loop
	l.maybe()
	l.pass(int64(line.Frames(burst)) * l.cost / 2)
	var f pfc.Frame
	if onPause := d.peer.onPause; onPause != nil && len(burst) == 1 {
		if kind, _ := pfc.Decode(l.memory.Frame(burst[0].Addr, burst[0].Len), &f); kind == pfc.PFC {
			onPause(f)
		}
	}
	return d.Port.Transmit(burst)
}

// follow looks at what the worker runs after the latest plan.
func (l *loop) follow() {
	l.behindPlan = !l.s.Adopted(l.latest)
	s := l.worker.Look(l.now)
	for i := range s.Ports {
		p := &s.Ports[i]
		d := l.peers[p.Number].driver
		settled := l.now + l.stopping(p.Number)
		for class := range d.since {
			switch was := d.up && d.lossless>>class&1 == 1; {
			case l.params.Ports[p.Number].FlowControl == dataplane.NoFlowControl:
				d.since[class] = never
			case !was || d.since[class] == never:
				d.since[class] = settled
			}
		}
		d.up, d.reads, d.lossless = p.Up, p.Reads, p.Lossless
		// a class becomes lossless when there is memory for its headroom
		l.behindPlan = l.behindPlan || p.Up && !p.Reads || p.Lossless != l.config.Ports[p.Number].PFC
	}
}

// promise records what the switch owes a frame that has come in.
func (d *driver) promise(f *passage) {
	since := d.since[f.class]
	f.promised = d.lossless>>f.class&1 == 1 && (d.up || since == never)
	f.settled = f.sent >= since // a frame may wait at the switch for longer than it takes to stop the peer
}

// took records a frame that the worker has received.
func (d *driver) took(b []byte) {
	w := d.loop.world
	serial, _, found := w.oracle.find(b)
	if !found {
		return
	}
	f := &w.oracle.passages[serial]
	f.taken = true
	f.stalled = !d.reads
	d.promise(f)
	// a reload may change what is too long while it waits, or only take effect later
	f.settled = f.settled && int(f.length) <= d.peer.least[f.class] && !w.cutOff(f)
	if d.reads {
		w.heard(f, d.peer.port)
	}
}
