// Package dataplane joins the engines into the forwarding loop: Worker.Step is one iteration of it,
// and whoever has read that function knows the program.
//
// A Switch is a set of workers over one memory of frame buffers. Each port, with its priority
// groups, queues and PFC state, belongs to one worker; each buffer has one worker as its home.
// Workers meet only in single-producer single-consumer rings: a frame bound for another worker's
// port crosses on one, its buffer comes home on another. Nothing on the frame path takes a lock,
// allocates or asks for the time.
//
// The control plane steers a running switch by publishing an immutable Plan, which each worker
// adopts between two iterations, and watches it through snapshots of the counters.
package dataplane

import (
	"fmt"
	"sync/atomic"

	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/sched"
)

const (
	// Priorities is how many classes of service a port has (802.1Q).
	Priorities = 8
	// burstSize is how many frames an iteration takes from and gives to a port at the most. Bursts
	// amortise the index updates of the rings; what a longer burst would still gain is lost in the
	// first-level cache.
	burstSize = 64
	// BurstSize is burstSize, for those who want to know how full bursts are.
	BurstSize = burstSize
	// ControlBuffers is how many buffers a port keeps, beside PortParams.Buffers, for its own PFC
	// frames: there is always one for the next XOFF (see sendPauses).
	ControlBuffers = Priorities + spareControl
)

// Params say what a switch is made of. What of them may change while it runs is said at
// Switch.Prepare.
type Params struct {
	Memory   *umem.Memory
	CellSize int // bytes of accounting cell
	// Accounts, by worker, say how many cells its ports may hold and how they are cut into pools;
	// cell size and ports are filled in. None: one pool, of as many cells as the worker has buffers
	// that are not kept with drivers.
	Accounts []cells.Params
	Ports    []PortParams
	Bridge   bridge.Params
	// Floods says in which queues flooded frames wait; nil: in those of their priority. Lossless
	// ones always do, and lossy ones whose queue would be that of a lossless priority.
	Floods  *bridge.QueueMap
	Workers int // ≥ 1
	// Budget is how many frames an iteration of a worker handles, over all its ports, before it
	// says to the peers of those where more wait that they are to stop; 1 to DefaultBudget, which 0
	// stands for. See the function of that name.
	Budget int
}

// PortParams describe one port; its index in Params.Ports is its number throughout the switch.
type PortParams struct {
	Name        string
	Vacant      bool // no port has the number, which is kept for the next one of the worker: nothing else is looked at
	Worker      int  // the worker that owns it
	MaxFrame    int  // bytes without FCS; longer frames are dropped as oversize
	MaxLossless int  // the same for frames of lossless priorities, which the headroom counts on; 0: MaxFrame
	InFlight    int  // bytes that may be with the driver for sending: what a pause can't call back
	Buffers     int  // empty buffers kept with the driver for reception
	// ns that the worker may be away for the headroom to hold what arrives meanwhile: longer gaps
	// are counted
	Response    int64
	Sched       sched.Params
	Cells       cells.PortParams
	ECN         uint8 // priorities whose frames are marked, if they can be, where early detection says so
	FlowControl FlowControl
	Generator   pfc.GeneratorParams
	Receiver    pfc.ReceiverParams
	Watchdog    pfc.WatchdogParams // of priorities 0: none
}

// FlowControl is the kind of MAC control frame that a port generates and honours. It ignores the
// other kind.
type FlowControl uint8

// The kinds.
const (
	NoFlowControl       FlowControl = iota
	PriorityFlowControl             // IEEE 802.1Qbb
	LinkPause                       // IEEE 802.3x: all priorities at once
)

// Switch is a set of workers over one memory.
type Switch struct {
	Workers    []*Worker
	params     Params                   // the first ones
	frames     []bufferedFrame          // by buffer id; each entry is written by whoever holds the buffer
	bound      []uint16                 // likewise: port number, of a frame on its way to another worker
	generation *Generation              // the latest that was published
	names      atomic.Pointer[[]string] // shared: what Names returns, replaced by who prepares
}

// NewSwitch builds the workers with all their memory. It divides the buffers evenly among them and
// leaves to the accounts of each what its ports do not keep with their drivers, so that a frame
// admitted always has its buffer.
func NewSwitch(p Params) (*Switch, error) {
	s := &Switch{params: p, frames: make([]bufferedFrame, p.Memory.Buffers()),
		bound: make([]uint16, p.Memory.Buffers())}
	share := p.Memory.Buffers() / max(1, p.Workers)
	for i := range p.Workers {
		s.Workers = append(s.Workers, newWorker(s, i, i*share, share))
	}
	if err := s.connect(share); err != nil {
		return nil, err
	}
	var err error
	if s.generation, err = s.generate(p); err != nil {
		return nil, err
	}
	for _, w := range s.Workers {
		w.start(s.generation)
	}
	return s, nil
}

// check refuses what makes no sense whatever the engines say.
func (p *Params) check() error {
	if p.Workers < 1 || len(p.Ports) == 0 {
		return fmt.Errorf("dataplane: %d workers, %d ports: a switch needs at least one of each", p.Workers,
			len(p.Ports))
	}
	if len(p.Ports) > maxPorts {
		return fmt.Errorf("dataplane: %d ports: there may be %d", len(p.Ports), maxPorts)
	}
	if p.Budget < 0 || p.Budget > DefaultBudget {
		return fmt.Errorf("dataplane: a budget of %d frames an iteration: choose 1 to %d, or 0", p.Budget,
			DefaultBudget)
	}
	for _, port := range p.Ports {
		if port.Worker < 0 || port.Worker >= p.Workers {
			return fmt.Errorf("dataplane: port %s: worker %d of %d: they count from 0", port.Name, port.Worker,
				p.Workers)
		}
		if port.MaxLossless > port.MaxFrame {
			return fmt.Errorf("dataplane: port %s: lossless frames of %d bytes where no frame may be longer than %d",
				port.Name, port.MaxLossless, port.MaxFrame)
		}
	}
	if p.Floods != nil {
		for class, q := range p.Floods {
			if q >= Priorities {
				return fmt.Errorf("dataplane: flooded frames of class %d in queue %d: there are 0 to %d", class, q,
					Priorities-1)
			}
		}
	}
	return nil
}

// connect lays the rings between each two workers. A ring has room for every buffer of one worker,
// and only buffers of one worker travel on it, so that it can't be full.
func (s *Switch) connect(buffers int) error {
	for _, from := range s.Workers {
		for _, to := range s.Workers {
			if from == to {
				continue
			}
			l, err := newHandoff(buffers)
			if err != nil {
				return fmt.Errorf("dataplane: rings between workers: %w", err)
			}
			from.out = append(from.out, newOutbox(to.index, l))
			to.in = append(to.in, &inbox{handoff: l, from: from})
		}
	}
	return nil
}

// Parked returns the addresses of the empty buffers that an absent port keeps for its next driver:
// those go into the fill ring before the device can look for one. Only the control plane asks, and
// only while the workers do not run or run a plan in which the port is absent and closed.
func (s *Switch) Parked(number int) []uint64 {
	w := s.Workers[s.WorkerOf(number)]
	var addrs []uint64
	for id, holding := range w.ports[number].held {
		if holding == holdingEmpty {
			addrs = append(addrs, uint64(id)<<w.shift)
		}
	}
	return addrs
}

// Publish gives every worker the plan to run from its next iteration on. With a Generation that is
// new, all workers must run the one before (Adopted), and the new one must have been prepared when
// that was published: each of its engines takes over from that one's. It panics if that is not so.
func (s *Switch) Publish(p *Plan) {
	if g := p.Generation; g != nil && g != s.generation {
		s.demandOrder(g)
		s.generation = g
	}
	for _, w := range s.Workers {
		w.plan.Store(p)
	}
}

// demandOrder panics if a generation can't be published now.
func (s *Switch) demandOrder(g *Generation) {
	if g.serial != s.generation.serial+1 {
		panic(fmt.Sprintf(
			"dataplane: generation %d published after %d: each is prepared after the one before was published",
			g.serial, s.generation.serial))
	}
	for _, w := range s.Workers {
		if w.generation.Load() != s.generation {
			panic(fmt.Sprintf("dataplane: generation %d published before worker %d ran the one before it", g.serial,
				w.index))
		}
	}
}

// Adopted tells whether every worker runs the plan.
func (s *Switch) Adopted(p *Plan) bool {
	for _, w := range s.Workers {
		if w.adopted.Load() != p {
			return false
		}
	}
	return true
}

// Plan is what may change while the switch runs. It is immutable once published.
type Plan struct {
	// Generation is what the switch is made of; nil: as before.
	Generation *Generation
	Links      []Link // by port number
	// Cleared is how often the watermarks were cleared: they are when it differs from the former
	// plan's.
	Cleared uint64
	// Flush is the latest one: it is done when its Serial differs from that in the former plan.
	Flush Flush
	// Taps are of NewTaps; nil: nothing is captured.
	Taps []*Tap
}

// Link is the state of one port.
type Link struct {
	// Driver is nil while the port is absent. It enters a plan with the port's Parked buffers in
	// its fill ring. A driver taken out of the plan must be closed only after the plan without it
	// was adopted, and replaced only by way of a plan that has Closed set.
	Driver pmd.Port
	// Closed says that the former driver was closed: the buffers it held are the worker's again.
	Closed bool
	// MAC is the source of the port's PFC frames, and beside the MAC control address the only
	// destination of those it obeys.
	MAC [6]byte
	// Up: the link has carrier. Frames for a port that is not up are dropped under a name.
	Up bool
	// TXRing is how many frames the driver takes for sending before the first completes.
	TXRing int
	// Drain says how far the port has gone in stopping without loss.
	Drain Drain
	// Storm are priorities that are treated as in a storm whatever the peer does
	// (pfc.Watchdog.Override).
	Storm uint8
}

// Drain says how far a port has gone in stopping without loss.
type Drain uint8

const (
	// Running is not draining.
	Running Drain = iota
	// HoldPeers keeps every lossless priority of the peer in XOFF and refuses lossy frames;
	// lossless frames that were on their way are still forwarded.
	HoldPeers
	// Refuse takes no frame any more and sends what was accepted.
	Refuse
)
