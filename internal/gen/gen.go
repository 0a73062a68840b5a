// Package gen is the host at the end of a cable: the traffic generator and sink that tests, the demo and the
// benchmarks talk to. A Host sends flows of test frames through a pmd.Port, paced like a NIC on a line of a given
// speed, and checks the test frames it receives for loss, order, duplication and corruption. It honours PFC
// (IEEE 802.1Qbb) with a configurable reaction delay, or ignores it, and sends PFC frames on demand.
//
// A host is stepped by its caller, in real or in virtual time; one loop may step several hosts. All methods
// belong to the goroutine that steps it. Hosts that exchange frames share one time base, since frames carry the
// time they were sent.
package gen

import (
	"fmt"

	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

const (
	// Overhead is what a frame takes on the wire beyond its length: FCS 4, preamble 8, gap 12 bytes.
	Overhead = 24
	// MinSize and MaxSize bound a test frame, in bytes without FCS; MaxSize is beyond any jumbo frame in use.
	MinSize, MaxSize = 60, 10_000

	burst      = 64      // frames received and sent in one Step at most
	injectMost = 16      // PFC frames waiting to be sent
	catchUp    = 100_000 // default of Params.CatchUp
)

// Flow is a stream of test frames of one size.
type Flow struct {
	ID    uint32    // tells flows apart at the sink: unique among all hosts of a test
	Dst   frame.MAC // the sink's address, or a group address
	VID   uint16    // 0 with a PCP: priority-tagged; 0 with PCP 0: untagged
	PCP   uint8     // priority, 0..7: what PFC pauses
	Size  int       // bytes without FCS, MinSize..MaxSize and no more than a buffer
	Rate  uint64    // bit/s on the wire, Overhead included; 0: as fast as the line. What PFC held back is sent later
	Count uint64    // frames to send; 0: until Stop
}

// Params describes a host.
type Params struct {
	Port       pmd.Port
	Memory     []byte // the port's memory (UMEM)
	BufferSize int    // bytes, a power of two
	First      int    // the host's buffers are First..First+Buffers-1 of Memory; nobody else touches them
	Buffers    int    // half of them are kept in the fill ring at most, the other half is for sending

	MAC      frame.MAC
	Speed    uint64 // bit/s of the host's line: what it sends never exceeds that
	InFlight int    // bytes (without FCS) handed to the port and not completed, at most: part of the response to PFC
	Flows    []Flow // sent round robin, from the first Step on
	FlowIDs  int    // the sink follows flows with an ID below this; default 64

	Priorities    uint8 // bit n: PFC is honoured on priority n; 0: a host that ignores PFC
	ReactionDelay int64 // ns from receiving a PFC frame to honouring it

	// CatchUp bounds, in ns, how much line time that went by between two Steps is made up for when frames were
	// waiting for the line; default 100 µs. Over any time t a host sends up to (t + CatchUp) * Speed and a frame.
	CatchUp int64
}

// Host is a generator and sink on one port.
type Host struct {
	port pmd.Port
	mac  frame.MAC

	buffers  buffers
	inFlight int // bytes handed to the port and not completed
	mostOut  int // bound of inFlight

	line    moment // when the line is free for the next frame
	catchUp int64
	started bool
	flows   []sender
	turn    int // flow whose turn it is
	staged  [burst]staged
	burst   [burst]pmd.Desc

	inject     [injectMost]pfc.Frame
	injectHead uint64 // next to send, hence frames sent
	injectTail uint64
	injectCost span

	reaction reaction
	sink     sink
}

// New returns a host that starts to send at its first Step.
func New(p Params) (*Host, error) {
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("gen: host %v: %w", p.MAC, err)
	}
	receiver, err := pfc.NewReceiver(pfc.ReceiverParams{Priorities: p.Priorities, Speed: p.Speed})
	if err != nil {
		return nil, fmt.Errorf("gen: host %v: %w", p.MAC, err)
	}
	h := &Host{
		port:       p.Port,
		mac:        p.MAC,
		buffers:    newBuffers(p.Memory, p.BufferSize, p.First, p.Buffers),
		mostOut:    p.InFlight,
		catchUp:    p.CatchUp,
		injectCost: wireTime(pfc.FrameLength, p.Speed),
		reaction:   reaction{receiver: receiver, delay: p.ReactionDelay},
		sink:       newSink(p.MAC, p.FlowIDs),
	}
	if h.catchUp == 0 {
		h.catchUp = catchUp
	}
	for _, f := range p.Flows {
		h.flows = append(h.flows, newSender(f, p.MAC, p.Speed))
	}
	return h, nil
}

func (p *Params) validate() error {
	switch end := (p.First + p.Buffers) * p.BufferSize; {
	case p.Port == nil:
		return fmt.Errorf("no port")
	case p.BufferSize < MinSize || p.BufferSize&(p.BufferSize-1) != 0:
		return fmt.Errorf("buffer size of %d bytes must be a power of two, 64 or more", p.BufferSize)
	case p.Buffers < 4 || p.First < 0:
		return fmt.Errorf("%d buffers from %d on: must be 4 or more, from 0 on", p.Buffers, p.First)
	case end > len(p.Memory):
		return fmt.Errorf("buffers %d to %d need %d bytes of memory, there are %d",
			p.First, p.First+p.Buffers-1, end, len(p.Memory))
	case p.MAC == 0 || p.MAC.Group():
		return fmt.Errorf("address must be that of a single station")
	case p.Speed == 0:
		return fmt.Errorf("speed must be above 0 bit/s")
	case p.ReactionDelay < 0 || p.CatchUp < 0 || p.FlowIDs < 0:
		return fmt.Errorf("reaction delay %d, catch-up %d, flow IDs %d: must not be negative",
			p.ReactionDelay, p.CatchUp, p.FlowIDs)
	}
	for _, f := range p.Flows {
		switch {
		case f.Size < MinSize || f.Size > MaxSize || f.Size > p.BufferSize:
			return fmt.Errorf("flow %d: size %d must be %d..%d bytes and fit a buffer of %d",
				f.ID, f.Size, MinSize, MaxSize, p.BufferSize)
		case f.Size > p.InFlight:
			return fmt.Errorf("flow %d: size %d exceeds the %d bytes allowed in flight", f.ID, f.Size, p.InFlight)
		case f.VID > 4094:
			return fmt.Errorf("flow %d: VLAN %d must be 0..4094", f.ID, f.VID)
		case f.PCP > 7:
			return fmt.Errorf("flow %d: priority %d must be 0..7", f.ID, f.PCP)
		}
	}
	return nil
}

// Step runs the host once: it takes back sent buffers, fills, sinks one burst, sends one burst, and flushes. It
// returns how many buffers and frames moved; 0 means that there was nothing to do at this time.
func (h *Host) Step(now int64) int {
	if !h.started {
		h.start(now)
	}
	work := h.complete()
	work += h.fill()
	work += h.receive(now)
	work += h.transmit(now, h.reaction.paused(now))
	h.port.Flush()
	return work
}

func (h *Host) start(now int64) {
	h.started = true
	h.line = moment{ns: now}
	for i := range h.flows {
		h.flows[i].next = moment{ns: now}
	}
}

func (h *Host) complete() int {
	n := h.port.Complete(h.buffers.absent())
	h.inFlight -= h.buffers.completed(n)
	return n
}

func (h *Host) fill() int {
	want := h.buffers.wanted()
	if len(want) == 0 {
		return 0
	}
	n := h.port.Fill(want)
	h.buffers.filled(len(want), n)
	return n
}

func (h *Host) receive(now int64) int {
	n := h.port.Receive(h.burst[:])
	for i := range h.burst[:n] {
		d := &h.burst[i]
		b := h.buffers.memory[d.Addr : d.Addr+uint64(d.Len)]
		var control pfc.Frame
		if h.sink.receive(now, b, &control) {
			h.reaction.receive(now, control)
		}
		h.buffers.received(d.Addr)
	}
	return n
}

// Inject queues a PFC frame to be sent ahead of the flows, as soon as the line is free. It reports false when too
// many wait already.
func (h *Host) Inject(f pfc.Frame) bool {
	if h.injectTail-h.injectHead == injectMost {
		return false
	}
	h.inject[h.injectTail%injectMost] = f
	h.injectTail++
	return true
}

// Stop ends all flows. The host keeps receiving, answering completions and sending injected frames as long as it
// is stepped, so that what is under way arrives and totals can be compared.
func (h *Host) Stop() {
	for i := range h.flows {
		h.flows[i].limit = h.flows[i].seq
	}
}

// Finished reports whether every flow has sent what it had to and the port holds none of the host's frames.
func (h *Host) Finished() bool {
	for i := range h.flows {
		if h.flows[i].seq < h.flows[i].limit {
			return false
		}
	}
	return h.buffers.inTX == 0 && h.injectHead == h.injectTail
}
