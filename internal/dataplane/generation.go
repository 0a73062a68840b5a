package dataplane

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/sched"
)

// Generation is a set of parameters and the engines built from them. The workers of a running
// switch change over to it between two iterations, by way of Plan.Generation. All that can fail is
// done when it exists: each new engine takes over the state of the one before, which needs no
// memory and can't fail.
type Generation struct {
	params  Params
	serial  int             // number of generations published before it was prepared
	portIDs []bridge.PortID // by port number; if Vacant, that of the last port there, or NoPort
	numbers map[bridge.PortID]int
	parts   []*part // by worker
	// by port number, of the worker that owns it; see finishChange
	settled  []atomic.Bool
	lossless []atomic.Uint32 // its priorities that have headroom
}

// part is what one worker is built from, apart from its memory.
type part struct {
	ports    []*port
	own      []*port
	sources  []source
	batches  []*batch
	budget   int // frames
	accounts *cells.Manager
	bridge   *bridge.Bridge
}

// Prepare builds a Generation from other parameters for a switch that may be running. Memory,
// cells, workers, and the mode and capacity of the bridge must be unchanged. New ports go behind
// the existing ones; a removed port leaves its number Vacant. A port's worker never changes, and
// its Buffers only together with its name. Do not give a port a number under which frames of
// another port are still held (PortSnapshot.Held), because they would be reported under the new
// name. Only one goroutine may prepare and publish.
func (s *Switch) Prepare(p Params) (*Generation, error) {
	before := &s.generation.params
	if p.Memory != before.Memory || p.CellSize != before.CellSize || p.Workers != before.Workers ||
		len(p.Ports) < len(before.Ports) {
		return nil, fmt.Errorf("dataplane: memory, cells and workers can't change while the switch runs, and ports " +
			"keep their numbers")
	}
	for i, was := range before.Ports {
		is := p.Ports[i]
		if is.Worker != was.Worker || samePort(&is, &was) && is.Buffers != was.Buffers {
			return nil, fmt.Errorf("dataplane: port %s: its worker and its buffers can't change while the switch runs",
				was.Name)
		}
	}
	return s.generate(p)
}

// WorkerOf returns the worker of a port number, vacant or not.
func (s *Switch) WorkerOf(number int) int { return s.generation.params.Ports[number].Worker }

// generate builds a generation, the first or a later one.
func (s *Switch) generate(p Params) (*Generation, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	p.Bridge.VirtualLinks = &s.links
	g := &Generation{params: p, numbers: make(map[bridge.PortID]int)}
	g.settled, g.lossless = make([]atomic.Bool, len(p.Ports)), make([]atomic.Uint32, len(p.Ports))
	if s.generation != nil {
		g.serial = s.generation.serial + 1
	}
	if err := s.identify(g); err != nil {
		return nil, err
	}
	longest := max(int(s.longest.Load()), p.Memory.BufferSize())
	for i := range p.Ports {
		longest = max(longest, p.Ports[i].MaxFrame)
	}
	s.longest.Store(int64(longest))
	for _, w := range s.Workers {
		part, err := w.assemble(g, s.generation)
		if err != nil {
			return nil, fmt.Errorf("dataplane: worker %d: %w", w.index, err)
		}
		g.parts = append(g.parts, part)
	}
	return g, nil
}

// identify gives the ports of a generation ids. A port that leaves and comes back gets its id again
// under any number, unless another port has taken its place meanwhile. During a capture none does:
// the capture selects ports by id, and asks for their names. A vacant number keeps the id of the
// port that has left it, because frames of that port may remain.
func (s *Switch) identify(g *Generation) error {
	names := maps.Clone(*s.names.Load()) // others may be reading it
	known, taken := make(map[string]bridge.PortID), make([]bool, bridge.MaxPorts)
	last := make([]bridge.PortID, bridge.MaxPorts) // by place
	for id, name := range names {
		known[name], last[id.Place()], taken[id.Place()] = id, id, s.capturing
	}
	g.portIDs = slices.Repeat([]bridge.PortID{NoPort}, len(g.params.Ports))
	if s.generation != nil {
		copy(g.portIDs, s.generation.portIDs)
	}
	for i, id := range g.portIDs {
		taken[id.Place()] = true
		if id, is := known[g.params.Ports[i].Name]; is {
			taken[id.Place()] = true
		}
	}
	for i := range g.params.Ports {
		p := &g.params.Ports[i]
		if p.Vacant {
			continue
		}
		id, is := known[p.Name]
		if !is {
			place := slices.Index(taken, false)
			if place < 0 {
				return fmt.Errorf("dataplane: port %s: a capture tells %d ports apart, present and past: end the one "+
					"that runs, and try again", p.Name, bridge.MaxPorts)
			}
			if last[place].Place() == place {
				delete(names, last[place])
			}
			id, taken[place] = bridge.NewPortID(place, g.serial), true
			known[p.Name], names[id] = id, p.Name
		}
		g.portIDs[i], g.numbers[id] = id, i
	}
	s.names.Store(&names)
	return nil
}

// PortID returns the id of the port with a number. Only the goroutine that publishes may call it.
func (s *Switch) PortID(number int) bridge.PortID { return s.generation.portIDs[number] }

// PortName returns the name of the port with an id, which may be gone; empty: another port has its
// place by now. Any goroutine may call it.
func (s *Switch) PortName(id bridge.PortID) string { return (*s.names.Load())[id] }

// assemble builds a worker's engines for a generation, to take over from those of the generation
// after, if not nil. It reads nothing that the worker writes.
func (w *Worker) assemble(g *Generation, after *Generation) (*part, error) {
	p := &g.params
	next := &part{batches: make([]*batch, 0, len(p.Ports)*Priorities)}
	var err error
	known := 0 // ports of after
	if after == nil {
		next.bridge, err = bridge.New(p.Bridge)
	} else {
		known = len(after.params.Ports)
		next.bridge, err = after.parts[w.index].bridge.Successor(p.Bridge)
	}
	if err != nil {
		return nil, err
	}
	if next.budget = p.Budget; next.budget == 0 {
		next.budget = budget.Default
	}
	account := cells.Params{CellSize: p.CellSize}
	kept := 0 // buffers that never hold frames to forward
	for i, pp := range p.Ports {
		if pp.Vacant {
			pp = vacant(pp.Worker)
		}
		port := newPort(i, pp, next.bridge, p.Floods)
		port.id = g.portIDs[i]
		next.ports = append(next.ports, port)
		if pp.Worker != w.index {
			account.Ports = append(account.Ports, cells.PortParams{}) // never charged
			continue
		}
		if err := port.own(w.arena); err != nil {
			return nil, fmt.Errorf("port %s: %w", pp.Name, err)
		}
		if i >= known {
			port.held, port.parked = make([]uint8, p.Memory.Buffers()), true
		}
		if err := w.subscribe(port); err != nil {
			return nil, fmt.Errorf("port %s: %w", pp.Name, err)
		}
		if port.injection, err = w.newInjection(port, after); err != nil {
			return nil, fmt.Errorf("port %s: %w", pp.Name, err)
		}
		next.own = append(next.own, port)
		account.Ports = append(account.Ports, pp.Cells)
		kept += port.kept()
	}
	for _, p := range next.own {
		next.sources = append(next.sources, source{port: p})
	}
	for _, in := range w.in {
		next.sources = append(next.sources, source{handoff: in})
	}
	next.accounts, err = newAccounts(p, account, w.index, w.pool.Size()-kept, kept)
	return next, err
}

// newAccounts builds the accounts of a worker with this many buffers, beside those kept with
// drivers.
func newAccounts(p *Params, account cells.Params, worker, buffers, kept int) (*cells.Manager, error) {
	account.Cells = buffers
	if p.Accounts != nil {
		own := p.Accounts[worker]
		if own.Cells > buffers {
			return nil, fmt.Errorf("%d cells for the frames of %d buffers, of which drivers keep %d: choose at most %d",
				own.Cells, buffers+kept, kept, buffers)
		}
		account.Cells, account.Pools, account.Queues = own.Cells, own.Pools, own.Queues
	}
	return cells.NewManager(account)
}

// newPort builds what every worker knows of a port.
func newPort(number int, p PortParams, b *bridge.Bridge, floods *bridge.QueueMap) *port {
	port := &port{
		number: number, worker: p.Worker, groups: uint16(number * Priorities), PortParams: p,
		classifier: b.Classifier(number), egress: b.Egress(number),
		screen: b.Screen(number),
	}
	port.most = max(1, p.Parts)
	port.growth = port.egress.Growth()
	port.setDemand(p.demand())
	for queue := range port.batches {
		port.batches[queue] = batch{out: port, queue: uint8(queue)}
	}
	port.setLossless(0)
	port.setQueues(floods) // of others' ports too: the queue of a copy for them is chosen here
	return port
}

// own adds what only the port's own worker needs.
func (p *port) own(arena *sched.Arena) (err error) {
	if p.queues, err = sched.New(p.Sched, arena); err != nil {
		return err
	}
	p.stalled = make([]pmd.Desc, 0, p.Buffers)
	p.flow, err = newFlowControl(p.PortParams)
	return err
}

// setQueues determines which classes are lossless, which queues have early detection, and in which
// queues flooded frames wait: never lossless and lossy frames in the same one.
func (p *port) setQueues(floods *bridge.QueueMap) {
	p.floods = bridge.UnicastQueues()
	for i := range Priorities {
		if p.Cells.Groups[i].Lossless {
			p.lossless |= 1 << i
		}
		if p.Cells.Queues[i].RED.Max > 0 {
			p.early |= 1 << i
		}
		if floods != nil && !p.Cells.Groups[i].Lossless && !p.Cells.Groups[floods[i]].Lossless {
			p.floods[i] = floods[i]
		}
	}
}

// vacant returns the parameters of a number that no port has any more. It keeps no buffers and
// takes no frames. Charges of the former port end as its frames leave.
func vacant(worker int) PortParams {
	return PortParams{Vacant: true, Worker: worker, Sched: sched.Params{MaxFrame: 1}}
}

// samePort reports whether two generations' parameters are for the same port.
func samePort(a, b *PortParams) bool { return a.Name == b.Name && a.Vacant == b.Vacant }

// kept returns how many of a port's buffers never hold frames to forward.
func (p *port) kept() int {
	if p.Vacant {
		return 0
	}
	return p.Buffers + OwnBuffers
}

// changeOver continues with the engines of another generation.
func (w *Worker) changeOver(g *Generation, now int64) {
	next := g.parts[w.index]
	w.reloads++
	for i, old := range w.ports {
		w.succeed(next.ports[i], old, now)
	}
	next.accounts.TakeOver(w.accounts)
	next.bridge.TakeOver(now, w.bridge)
	pace := min(next.budget, w.budget.Size)
	w.install(next)
	w.pace(pace)
	w.injected.Store(true) // a frame may already wait at a port that the worker did not know
	w.generation.Store(g)
	w.finishChange()
}

// start installs the first generation.
func (w *Worker) start(g *Generation) {
	w.install(g.parts[w.index])
	w.pace(g.parts[w.index].budget)
	w.generation.Store(g)
	w.finishChange()
	for _, p := range w.own {
		if w.equip(p); p.kept() != p.filled+p.flow.spare.N+p.injection.spare.N {
			panic("dataplane: fewer buffers than the accounts left room for")
		}
	}
	w.snapshot.state = w.newSnapshot()
}

// install makes a part the worker's own.
func (w *Worker) install(next *part) {
	w.ports, w.own, w.sources, w.batches = next.ports, next.own, next.sources, next.batches
	w.accounts, w.bridge = next.accounts, next.bridge
	w.changing, w.passed = true, false
}

// pace bounds iterations to a number of frames, so that no port waits for longer than it may.
func (w *Worker) pace(budget int) {
	ports := 0
	w.gap.Response = math.MaxInt64
	for _, p := range w.own {
		if p.Vacant {
			continue
		}
		ports++
		w.gap.Response = min(w.gap.Response, p.Response)
	}
	w.budget.Size = budget
	w.quantum = w.budget.Quantum(ports)
	w.budget.Size = max(budget, w.quantum*ports) // enough for a burst of every port
	for _, p := range w.own {
		p.burst = w.quantum
	}
}

// succeed makes a port continue from the state of the one that had its number.
func (w *Worker) succeed(p, old *port, now int64) {
	p.up, p.epoch = old.up, old.epoch
	if samePort(&p.PortParams, &old.PortParams) {
		is, was := p.demand(), old.demand()
		p.setDemand(is.lower(was))
		p.longer = old.longer
		for queue := range p.longer {
			if is.maxFrame < was.maxFrame {
				p.longer[queue] = unknown
			}
		}
	}
	if p.worker != w.index {
		return
	}
	if !samePort(&p.PortParams, &old.PortParams) {
		if old.driver != nil {
			panic("dataplane: port " + old.Name + " was replaced while its driver was open")
		}
		w.departed.Add(&old.count)
		w.accounts.ForgetWatermarks(p.number)
	} else {
		p.count = old.count
		p.subscriber.TakeOver(&old.subscriber)
	}
	if p.flow.on() && !old.flow.on() {
		w.accounts.Uncover(p.number)
	}
	p.injection.spare = old.injection.spare
	p.driver, p.held, p.parked, p.txRing, p.drain = old.driver, old.held, old.parked, old.txRing, old.drain
	p.filled, p.sending, p.inFlight = old.filled, old.sending, old.inFlight
	p.returned, p.later, p.most, p.slack = old.returned, old.later, max(p.most, old.most), old.slack
	p.behind, p.before, p.stalledSince, p.reads = old.behind, old.before, old.stalledSince, old.reads
	p.learnsFrom, p.excess, p.stalled = old.learnsFrom, old.excess, append(p.stalled, old.stalled...)
	p.queues.TakeOver(old.queues)
	p.flow.takeOver(&old.flow, now)
	if dog := p.flow.watchdog; dog != nil {
		w.act(p, dog.Storming())
	}
	p.gates()
}

// equip gives a port without a driver the buffers that it needs before it gets one: first those for
// the switch's own frames, then empty ones to receive into. A new port gets only those that are not
// promised to frames bound for others; a later plan adds the rest, when frames have left. A number
// without a port gives its buffers back.
func (w *Worker) equip(p *port) {
	if p.Vacant {
		w.vacate(p)
		return
	}
	w.provideOwn(p)
	if p.filled == p.Buffers {
		return
	}
	for spare := w.pool.Free() - w.accounts.Promised(); p.filled < p.Buffers && spare > 0; {
		n := w.pool.Get(w.ids[:min(burstSize, p.Buffers-p.filled, spare)])
		for _, id := range w.ids[:n] {
			p.held[id] = holdingEmpty
		}
		p.filled += n
		spare -= n
	}
}

// provideOwn gives a port the buffers that it lacks for the switch's own frames, first those for
// PFC.
func (w *Worker) provideOwn(p *port) {
	p.flow.spare.Fill(w.pool)
	p.injection.spare.Fill(w.pool)
}

// vacate gives back the buffers of a port that is gone.
func (w *Worker) vacate(p *port) {
	w.pool.Put(p.flow.spare.All())
	w.pool.Put(p.injection.spare.All())
	p.flow.spare, p.injection.spare = umem.Spares{Lacking: ControlBuffers}, umem.Spares{Lacking: InjectBuffers}
	for id, holding := range p.held {
		if p.filled == 0 {
			return
		}
		if holding == holdingEmpty {
			p.held[id] = holdingNothing
			w.pool.PutOne(uint32(id))
			p.filled--
		}
	}
}
