// Package dataplane joins the engines into the forwarding loop. Worker.Step is one iteration of it:
// read that function first.
//
// A Switch is a set of workers over one memory of frame buffers. Each port, with its priority
// groups, queues and PFC state, belongs to one worker; each buffer has one worker as its home.
// Workers meet only in single-producer single-consumer rings: a frame bound for another worker's
// port crosses on one, and its buffer comes home on another. Nothing on the frame path takes a
// lock, allocates or asks for the time.
//
// The control plane steers a running switch by publishing an immutable Plan, which each worker
// adopts between two iterations, and watches it through snapshots of the counters.
package dataplane

import (
	"fmt"
	"sync/atomic"
	"time"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/punt"
	"sluice/internal/linux/umem"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/sched"
)

const (
	// Priorities is the number of classes of service, and of queues, of a port (802.1Q).
	Priorities = 8
	burstSize  = budget.Burst
	// ControlBuffers is the number of buffers that a port keeps, beside PortParams.Buffers, for its
	// own PFC frames, so that one is always left for the next XOFF (see sendPauses).
	ControlBuffers = Priorities + spareControl
)

// Params describe a switch. Switch.Prepare says which of them may change while it runs.
type Params struct {
	Memory   *umem.Memory
	CellSize int // bytes of an accounting cell
	// Part is how many bytes of a frame a buffer holds when the frame goes on in another one. It
	// may be 0 if all frames fit one buffer.
	Part int
	// Accounts, by worker, say how many cells the worker's ports may hold and how these are divided
	// into pools; cell size and ports are filled in. Nil means one pool with as many cells as the
	// worker has buffers that are not kept with drivers.
	Accounts []cells.Params
	Ports    []PortParams
	Bridge   bridge.Params
	// Floods says in which queues flooded frames wait; nil: in those of their priority. Frames that
	// are lossless at their egress port always wait there, and so do those sent to the queue of a
	// priority that is. The map must spare priorities that are lossless only where they come in.
	Floods  *bridge.QueueMap
	Workers int // ≥ 1
	// Budget is the most frames that an iteration of a worker handles over all its ports, before it
	// stops the peers of ports where more wait: 1 to budget.Default, or 0 for that. See budget.Of.
	Budget int
}

// PortParams describe one port. Its index in Params.Ports is its number throughout the switch.
type PortParams struct {
	Name        string
	Vacant      bool // unused slot, reusable by a new port of the same worker; other fields but Worker are ignored
	Worker      int  // the worker that owns it
	MaxFrame    int  // bytes without FCS; longer frames are dropped as oversize
	Parts       int  // most buffers that a frame occupies; 0: 1
	MaxLossless int  // the same for lossless priorities, assumed by the headroom; 0: MaxFrame
	InFlight    int  // bytes that may be with the driver for sending, which a pause can't stop
	Buffers     int  // empty buffers kept with the driver for reception
	// longest gap between iterations, ns, during which the headroom holds what arrives; longer
	// ones are counted
	Response    int64
	Sched       sched.Params
	Cells       cells.PortParams
	ECN         uint8 // priorities whose frames early detection marks if it can
	FlowControl FlowControl
	Generator   pfc.GeneratorParams
	Receiver    pfc.ReceiverParams
	Watchdog    pfc.WatchdogParams  // without a detection time: none
	Punt        []punt.Subscription // frames that the control plane receives
	FIPTrusted  bool                // limit FIP as that of a trusted port: punt.SubscribeFIP
}

// FlowControl is the kind of MAC control frames that a port sends and honours. It ignores the other
// kind.
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
	params     Params               // those of NewSwitch
	frames     []bufferWord         // by buffer id; only the worker that holds one writes its entry
	parts      *partTable           // likewise
	bound      []uint16             // likewise: egress port number of a frame for another worker
	generation *Generation          // the latest published
	published  []Link               // those of the latest plan
	origin     func() time.Time     // when the clocks of all workers were 0
	gates      punt.Gates           // of Inject
	pausing    punt.Gates           // of Forward
	linked     []bridge.VirtualLink // their ports are ids
	capturing  bool                 // the latest plan has taps
	// shared: names of ports, perhaps gone; replaced by Prepare
	names   atomic.Pointer[map[bridge.PortID]string]
	longest atomic.Int64 // shared, likewise: bytes of a buffer, or of the longest frame of a port so far
	// shared: the links whose ports are there
	links atomic.Pointer[bridge.VirtualLinks]
}

// NewSwitch builds the workers with all their memory. It divides the buffers evenly among them, and
// gives the accounts of each as many cells as it has buffers that are not kept with drivers, so
// that every admitted frame has a buffer.
func NewSwitch(p Params) (*Switch, error) {
	s := &Switch{params: p, frames: make([]bufferWord, p.Memory.Buffers()),
		parts: newPartTable(p.Memory), bound: make([]uint16, p.Memory.Buffers()),
		origin: newOrigin()}
	share := p.Memory.Buffers() / max(1, p.Workers)
	for i := range p.Workers {
		s.Workers = append(s.Workers, newWorker(s, i, i*share, share))
	}
	if err := s.connect(share); err != nil {
		return nil, err
	}
	s.names.Store(&map[bridge.PortID]string{})
	var err error
	if s.generation, err = s.generate(p); err != nil {
		return nil, err
	}
	for _, w := range s.Workers {
		w.start(s.generation)
	}
	s.openGates(s.generation)
	return s, nil
}

// check validates what the engines don't.
func (p *Params) check() error {
	if p.Workers < 1 || len(p.Ports) == 0 {
		return fmt.Errorf("dataplane: %d workers, %d ports: a switch needs at least one of each", p.Workers,
			len(p.Ports))
	}
	if len(p.Ports) > maxPorts {
		return fmt.Errorf("dataplane: %d ports: at most %d are possible", len(p.Ports), maxPorts)
	}
	if p.Budget < 0 || p.Budget > budget.Default {
		return fmt.Errorf("dataplane: a budget of %d frames an iteration: choose 1 to %d, or 0", p.Budget,
			budget.Default)
	}
	for _, port := range p.Ports {
		if port.Worker < 0 || port.Worker >= p.Workers {
			return fmt.Errorf("dataplane: port %s: worker %d of %d: workers count from 0", port.Name, port.Worker,
				p.Workers)
		}
		if port.MaxLossless > port.MaxFrame {
			return fmt.Errorf("dataplane: port %s: lossless frames of %d bytes where no frame may be longer than %d",
				port.Name, port.MaxLossless, port.MaxFrame)
		}
		if port.MaxFrame > maxWordLength {
			return fmt.Errorf("dataplane: port %s: frames of %d bytes: at most %d are possible", port.Name,
				port.MaxFrame, maxWordLength)
		}
		if port.Parts > 1 && p.CellSize > p.Part {
			return fmt.Errorf("dataplane: port %s: cells of %d bytes where a buffer holds %d bytes of a long frame: "+
				"such a frame would occupy more buffers than it costs cells", port.Name, p.CellSize, p.Part)
		}
	}
	if p.Floods != nil {
		for class, q := range p.Floods {
			if q >= Priorities {
				return fmt.Errorf("dataplane: flooded frames of class %d in queue %d: choose 0 to %d", class, q,
					Priorities-1)
			}
		}
	}
	return nil
}

// connect creates the rings between all pairs of workers. A ring carries buffers of one worker
// only, and has room for all of them, so it can't be full.
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

// Parked returns the addresses of the empty buffers that an absent port keeps for its next driver.
// They must be in the fill ring before the device can look for one. Only the control plane may call
// it, and only while the workers do not run, or run a plan in which the port is absent and closed.
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

// Publish gives every worker the plan to run from its next iteration on. Before a new Generation is
// published, all workers must run the one before (Adopted), and the new one must have been prepared
// after that one was published, because each of its engines takes over from the one before. Publish
// panics otherwise. It numbers the epochs of links, whatever the plan has for them.
func (s *Switch) Publish(p *Plan) {
	for i := range p.Links {
		link, before := &p.Links[i], Link{}
		if i < len(s.published) {
			before = s.published[i]
		}
		if link.epoch = before.epoch; link.Up && (!before.Up || link.Flaps != before.Flaps) {
			link.epoch++
		}
	}
	s.published, s.capturing = p.Links, p.Taps != nil
	if g := p.Generation; g != nil && g != s.generation {
		s.demandOrder(g)
		s.generation = g
		s.openGates(g)
	}
	for _, w := range s.Workers {
		w.plan.Store(p)
	}
}

// demandOrder panics if a generation may not be published now.
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

// Adopted reports whether every worker runs the plan.
func (s *Switch) Adopted(p *Plan) bool {
	for _, w := range s.Workers {
		if w.adopted.Load() != p {
			return false
		}
	}
	return true
}

// Lossless returns the priorities that are lossless at a port in the latest generation: those with
// headroom. Each gets it when there is memory for it.
func (s *Switch) Lossless(number int) uint8 { return uint8(s.generation.lossless[number].Load()) }

// Plan is the state of a switch that may change while it runs. It is immutable once published.
type Plan struct {
	// Generation is the engines to run; nil: those of the plan before.
	Generation *Generation
	Links      []Link // by port number
	// Cleared is how often the watermarks were cleared. Workers clear them when it differs from
	// that of the plan before.
	Cleared uint64
	// Flush is the latest flush. Workers run it when its Serial differs from that of the plan
	// before.
	Flush Flush
	// Taps are those of NewTaps; nil: no capture.
	Taps []*Tap
}

// Link is the state of one port.
type Link struct {
	// Driver is nil while the port is absent. When it enters a plan, its fill ring holds the port's
	// Parked buffers. Close a driver only after the plan without it was adopted, and replace it
	// only by way of a plan that has Closed set.
	Driver pmd.Port
	// Closed says that the former driver is closed, so its buffers belong to the worker again.
	Closed bool
	MAC    [6]byte // source of the port's PFC frames
	Peer   [6]byte // address of the peer, if known: its frames for the control plane have a limit of their own
	// Up says that the link has carrier, and may be used. A port that is not up reads no frames,
	// since it could not stop its peer: they wait with the driver until it is up, or are dropped as
	// drop.LinkDown after a second. Frames for the port are dropped as drop.PortDown.
	Up bool
	// Flaps counts times that the link was down and is known to have been so only after it was up
	// again. The peer has forgotten what it was sent, but frames and pauses since then are valid.
	Flaps uint32
	// epoch is how often the link has come up. Addresses belong to the epoch in which they were
	// learned, and a worker may miss the plan in which the link was down.
	epoch uint32
	// TXRing is how many buffers the driver takes for sending before the first completes.
	TXRing int
	Parts  int // most parts of a frame that the driver sends; 0 or 1: none that it receives has several
	// Drain says how far the port has gone in stopping without loss.
	Drain Drain
	// Storm are the priorities that count as in a storm whatever the peer does
	// (pfc.Watchdog.Override).
	Storm uint8
}

// Drain says how far a port has gone in stopping without loss.
type Drain uint8

const (
	// Running: the port is not draining.
	Running Drain = iota
	// HoldPeers keeps every lossless priority of the peer in XOFF and refuses lossy frames.
	// Lossless frames that were on their way are still forwarded.
	HoldPeers
	// Refuse takes no frames any more and sends those that were accepted.
	Refuse
)
