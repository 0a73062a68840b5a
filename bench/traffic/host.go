// Package traffic is the host at the end of a cable: traffic generator and sink for tests, the demo
// and benchmarks. A Host sends flows of test frames through a pmd.Port, paced like a NIC on a line
// of a given speed. It checks received test frames for loss, order, duplication and corruption. It
// honours PFC (IEEE 802.1Qbb) with a configurable reaction delay, on fixed priorities or on those
// that a Negotiator learns by DCBX, and sends PFC frames on demand. A Forwarder forwards what it
// receives, in the forward modes of DPDK's testpmd.
//
// The caller steps a host, in real or in virtual time; one loop may step several hosts. All methods
// belong to the goroutine that steps the host. Hosts that exchange frames share one time base,
// since frames carry their time of sending.
package traffic

import (
	"cmp"
	"fmt"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

const (
	MinSize, MaxSize = line.MinSize, line.MaxSize // of a test frame

	burst      = 64      // default of Params.Burst
	injectMost = 16      // PFC frames waiting to be sent
	catchUp    = 100_000 // default of Params.CatchUp
	lldpBuffer = 2048    // bytes, enough for any LLDP frame
)

// MaxBurst bounds Params.Burst and ForwarderParams.Burst, as in testpmd.
const MaxBurst = 512

// Flow is one stream of test frames, or several streams that alternate frame by frame at one rate.
type Flow struct {
	ID      uint32    // tells streams apart at the sink: unique among all hosts of a test
	Streams int       // with consecutive IDs from ID on and their own sequence numbers; 0: 1
	Dst     frame.MAC // the sink's address, or a group address
	VID     uint16    // 0 with a PCP: priority-tagged; 0 with PCP 0: untagged
	PCP     uint8     // priority, 0..7, that PFC pauses
	Size    int       // bytes without FCS, MinSize..MaxSize (UDP: MinUDPSize..)
	Sizes   []int     // instead of Size: sizes that the frames take in turn
	UDP     *UDP      // nil: the frames have the EtherType line.TestType; else they are UDP datagrams
	Rate    uint64    // bit/s on the wire, Overhead included; 0: line rate. Frames that PFC held back are sent later
	Count   uint64    // frames to send; 0: until Stop
}

// Params describes a host.
type Params struct {
	Port       pmd.Port
	Memory     []byte // the port's memory (UMEM)
	BufferSize int    // bytes, a power of two
	First      int    // the host alone uses buffers First..First+Buffers-1 of Memory
	Buffers    int    // at most half of them are in the fill ring; the other half is for sending
	Parts      int    // most parts of a frame that the port sends; default pmd.MaxParts

	MAC      frame.MAC
	Speed    uint64 // bit/s of the host's line, which it never exceeds
	InFlight int    // most bytes (without FCS) handed to the port and not completed: part of the response to PFC
	Flows    []Flow // sent round robin, from the first Step on
	FlowIDs  int    // the sink tracks flows with an ID below this; default 64

	Priorities    uint8 // bit n: PFC is honoured on priority n; 0: a host that ignores PFC
	ReactionDelay int64 // ns from receiving a PFC frame to honouring it
	Injection     Injection

	// DCBX, if set, takes the place of Priorities: the host honours PFC as agreed with its link
	// partner. It needs buffers of 2048 bytes or more.
	DCBX *Negotiator
	Held bool // the flows begin with Begin, and not with the first Step

	// CatchUp bounds, in ns, how much unused line time between two Steps a host makes up for when
	// frames were waiting for the line; default 100 µs. In any time t a host sends up to (t +
	// CatchUp) * Speed and one frame.
	CatchUp int64
	// Burst is the most frames received and the most sent in one Step, up to MaxBurst; each part of
	// a frame counts, but a Step moves at least one whole frame. Default 64.
	Burst int
}

// Injection makes a host send PFC frames regardless of congestion: one at the first Step if
// Interval is 0, else a pause storm.
type Injection struct {
	Frame    pfc.Frame // priorities to pause, and for how long; no priority: nothing is sent
	Interval int64     // ns between frames, at most one per Step
}

// Host is a generator and sink on one port.
type Host struct {
	port pmd.Port
	mac  frame.MAC

	buffers  line.Buffers
	inFlight int // bytes handed to the port and not completed
	mostOut  int // bound of inFlight

	line    line.Moment // when the line is free for the next frame
	catchUp int64
	started bool
	flows   []sender
	turn    int        // flow whose turn it is
	staged  []staged   // the frames of burst that are to be sent
	burst   []pmd.Desc // has room for most descriptors, and for pmd.MaxParts
	most    int        // Params.Burst
	whole   line.Whole
	long    []byte // for a frame of several parts that is to be sent

	counters  Counters
	injection Injection
	injectAt  int64 // ns: when the next frame of injection is due

	inject     [injectMost]pfc.Frame
	injectHead uint64 // next to send, so also the number of frames sent
	injectTail uint64
	injectCost line.Span

	dcbx         *Negotiator // nil: none
	announcement []byte      // its frame that is to be sent; nil: none
	speed        uint64      // bit/s
	held         bool        // the flows

	reaction reaction
	sink     sink
}

// New returns a host that starts sending at its first Step.
func New(p Params) (*Host, error) {
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("host %v: %w", p.MAC, err)
	}
	if p.DCBX != nil {
		p.Priorities = p.DCBX.Priorities()
	}
	receiver, err := pfc.NewReceiver(pfc.ReceiverParams{Priorities: p.Priorities, Speed: p.Speed})
	if err != nil {
		return nil, fmt.Errorf("host %v: %w", p.MAC, err)
	}
	h := &Host{
		port:       p.Port,
		mac:        p.MAC,
		buffers:    line.NewBuffers(p.Memory, p.BufferSize, p.First, p.Buffers),
		mostOut:    p.InFlight,
		catchUp:    p.CatchUp,
		injectCost: line.WireTime(pfc.FrameLength, p.Speed),
		injection:  p.Injection,
		injectAt:   never,
		dcbx:       p.DCBX,
		speed:      p.Speed,
		held:       p.Held,
		reaction:   reaction{receiver: receiver, delay: p.ReactionDelay, priorities: p.Priorities},
		sink:       newSink(p.MAC, p.FlowIDs),
	}
	if h.catchUp == 0 {
		h.catchUp = catchUp
	}
	if h.most = p.Burst; h.most == 0 {
		h.most = burst
	}
	h.burst, h.staged = make([]pmd.Desc, max(h.most, pmd.MaxParts)), make([]staged, 0, h.most)
	h.whole, h.long = line.NewWhole(p.Memory), make([]byte, MaxSize)
	for _, f := range p.Flows {
		h.flows = append(h.flows, newSender(f, p.MAC, p.Speed))
	}
	h.fill() // others may send before it steps
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
		return fmt.Errorf("MAC address must not be zero or a group address")
	case p.Speed == 0:
		return fmt.Errorf("speed must be above 0 bit/s")
	case p.ReactionDelay < 0 || p.CatchUp < 0 || p.FlowIDs < 0 || p.Injection.Interval < 0:
		return fmt.Errorf("reaction delay %d, catch-up %d, flow IDs %d, interval between injected frames %d: must "+
			"not be negative",
			p.ReactionDelay, p.CatchUp, p.FlowIDs, p.Injection.Interval)
	case p.DCBX != nil && p.BufferSize < lldpBuffer:
		return fmt.Errorf("buffers of %d bytes: DCBX needs %d, to hold LLDP frames", p.BufferSize, lldpBuffer)
	case p.Burst < 0 || p.Burst > MaxBurst:
		return fmt.Errorf("bursts of %d frames: must be 1 to %d", p.Burst, MaxBurst)
	}
	for i := range p.Flows {
		if err := p.Flows[i].validate(p.longest(), p.InFlight); err != nil {
			return fmt.Errorf("flow %d: %w", p.Flows[i].ID, err)
		}
	}
	return nil
}

// longest returns the length of the longest frame that the host can send: all its buffers but those
// for reception and for injected frames hold it.
func (p *Params) longest() int {
	return min(MaxSize, cmp.Or(p.Parts, pmd.MaxParts)*p.BufferSize, (p.Buffers-p.Buffers/2-injectReserve)*p.BufferSize)
}

// validate checks a flow of a host that sends frames of up to longest bytes, with at most inFlight
// bytes in flight.
func (f *Flow) validate(longest, inFlight int) error {
	shortest := MinSize
	if f.UDP != nil {
		shortest = MinUDPSize
		if !f.UDP.Src.Addr().Is4() || !f.UDP.Dst.Addr().Is4() {
			return fmt.Errorf("from %v to %v: UDP test frames need two IPv4 addresses", f.UDP.Src, f.UDP.Dst)
		}
	}
	for _, size := range f.sizes() {
		switch {
		case size < shortest || size > longest:
			return fmt.Errorf(
				"size %d must be %d..%d bytes without FCS, to hold a test frame's stamp and to fit the buffers",
				size, shortest, longest)
		case size > inFlight:
			return fmt.Errorf("size %d exceeds the %d bytes allowed in flight", size, inFlight)
		}
	}
	switch {
	case f.Streams < 0:
		return fmt.Errorf("%d streams: must be 1 or more", f.Streams)
	case f.VID > 4094:
		return fmt.Errorf("VLAN %d must be 0..4094", f.VID)
	case f.PCP > 7:
		return fmt.Errorf("priority %d must be 0..7", f.PCP)
	}
	return nil
}

func (f *Flow) sizes() []int {
	if len(f.Sizes) == 0 {
		return []int{f.Size}
	}
	return f.Sizes
}

// Step runs the host once: it takes back sent buffers, fills, sinks one burst, sends one burst, and
// flushes. It returns the number of buffers and frames moved; 0 means that there was nothing to do
// at this time.
func (h *Host) Step(now int64) int {
	if !h.started {
		h.start(now)
	}
	work := h.complete()
	work += h.fill()
	work += h.receive(now)
	if h.dcbx != nil {
		h.negotiate(now)
	}
	if now >= h.injectAt {
		h.repeat(now)
	}
	work += h.transmit(now, h.reaction.paused(now))
	h.port.Flush()
	return work
}

func (h *Host) start(now int64) {
	h.started = true
	h.line = line.Moment{NS: now}
	for i := range h.flows {
		h.flows[i].next = line.Moment{NS: now}
	}
	if h.injection.Frame.Enable != 0 {
		h.injectAt = now
	}
}

func (h *Host) complete() int {
	n := h.port.Complete(h.buffers.Absent())
	bytes, twice := h.buffers.Completed(n)
	h.inFlight -= bytes
	h.counters.DuplicateCompletions += uint64(twice)
	return n
}

func (h *Host) fill() int {
	want := h.buffers.Wanted()
	if len(want) == 0 {
		return 0
	}
	n := h.port.Fill(want)
	h.buffers.Filled(len(want), n)
	return n
}

func (h *Host) receive(now int64) int {
	n := line.Receive(h.port, h.burst, h.most)
	for rest := h.burst[:n]; len(rest) > 0; {
		parts := rest[:line.Parts(rest)]
		rest = rest[len(parts):]
		h.sinkFrame(now, h.whole.Frame(parts))
		for i := range parts {
			h.buffers.Received(parts[i].Addr)
		}
	}
	return n
}

// sinkFrame counts and checks a received frame.
func (h *Host) sinkFrame(now int64, b []byte) {
	h.counters.RXPackets++
	h.counters.RXBytes += uint64(len(b))
	var control pfc.Frame
	switch h.sink.receive(now, b, &control) {
	case pauseFrame:
		h.reaction.receive(now, control)
	case lldpFrame:
		if h.dcbx == nil {
			h.sink.others++
			break
		}
		h.dcbx.Receive(now, b)
	}
}

// negotiate prepares the LLDP frame that is due, and honours PFC as agreed.
func (h *Host) negotiate(now int64) {
	if h.announcement == nil && now >= h.dcbx.Next() {
		h.announcement = h.dcbx.Step(now)
	}
	h.reaction.honourOn(now, h.dcbx.Priorities(), h.speed)
}

// Begin begins the flows of a host that was created with them Held.
func (h *Host) Begin(now int64) {
	if !h.held {
		return
	}
	h.held = false
	for i := range h.flows {
		h.flows[i].next = h.flows[i].next.NotBefore(now)
	}
}

// Leave has a host with DCBX tell its link partner, in the next Step, that it goes. From then on
// the host honours no PFC and sends no LLDP.
func (h *Host) Leave(now int64) {
	if h.dcbx != nil {
		h.announcement = h.dcbx.Shutdown(now)
	}
}

// DCBX returns Params.DCBX.
func (h *Host) DCBX() *Negotiator { return h.dcbx }

// Inject queues a PFC frame to be sent ahead of the flows as soon as the line is free. It returns
// false if too many frames are queued already.
func (h *Host) Inject(f pfc.Frame) bool {
	if h.injectTail-h.injectHead == injectMost {
		return false
	}
	h.inject[h.injectTail%injectMost] = f
	h.injectTail++
	return true
}

// repeat injects the frame that is due and schedules the next one. It does not make up for frames
// that a late loop has missed.
func (h *Host) repeat(now int64) {
	h.Inject(h.injection.Frame)
	if h.injectAt = never; h.injection.Interval > 0 {
		h.injectAt = now + h.injection.Interval
	}
}

// Stop ends all flows and the injection. While it is stepped, the host keeps receiving, taking back
// completed buffers and sending injected frames, so that frames in flight arrive and totals can be
// compared.
func (h *Host) Stop() {
	for i := range h.flows {
		h.flows[i].limit = h.flows[i].sent
	}
	h.injectAt = never
}
