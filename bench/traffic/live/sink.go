package live

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
	"sluice/bench/traffic/line"
	"sluice/pmd/xdprun"
)

// SinkParams describes a sink. The zero value counts 64 flows and ignores PFC.
type SinkParams struct {
	Flows int // flows with an ID below this are counted; default 64. Each takes 34 KiB of kernel memory

	// PFC frames and PAUSE are always counted. The following fields are for a port that honours
	// them.
	Priorities uint8         // bit n: priority n honours PFC, until SetPriorities
	Speed      uint64        // bit/s, for the duration of quanta; 0: 10 Gbit/s
	Delay      time.Duration // from the arrival of a PFC frame until it takes effect, in addition to the kernel's time
	Pauses     *Pauses       // of the generator that sends through this device; nil: pauses have no effect
	Port       int           // the generator's port with this device

	// LLDP leaves received LLDP frames to the kernel, for an LLDPSocket. The sink counts only their
	// bytes.
	LLDP bool
}

const (
	defaultFlows = 64
	mostFlowIDs  = 16384
	defaultSpeed = 10_000_000_000
)

func (p *SinkParams) setDefaults() {
	if p.Flows == 0 {
		p.Flows = defaultFlows
	}
	if p.Speed == 0 {
		p.Speed = defaultSpeed
	}
}

func (p *SinkParams) validate() error {
	switch {
	case p.Flows < 0 || p.Flows > mostFlowIDs:
		return fmt.Errorf("%d flows: must be 1 to %d", p.Flows, mostFlowIDs)
	case p.Delay < 0:
		return fmt.Errorf("delay of %v must not be negative", p.Delay)
	case p.Pauses != nil && (p.Port < 0 || p.Port >= p.Pauses.ports):
		return fmt.Errorf("there are pauses for ports 0 to %d, but not for port %d", p.Pauses.ports-1, p.Port)
	}
	return nil
}

// Sink is a native XDP program on a device that counts and drops every received frame.
type Sink struct {
	flows   int
	memory  *xdprun.Shared
	pauses  *Pauses
	own     bool // pauses belongs to the sink
	port    int
	cleared [priorities]time.Duration // how long the priorities had been paused at the last Clear
	program *ebpf.Program
	link    link.Link
}

// NewSink starts to count the frames that a device in a namespace receives; nil is the calling
// thread's namespace. The device must have one receive queue.
func NewSink(n *netns.Namespace, device string, p SinkParams) (*Sink, error) {
	p.setDefaults()
	err := errors.Join(p.validate(), xdprun.Permitted(xdprun.BPF, xdprun.NetAdmin))
	if err == nil {
		s := &Sink{flows: p.Flows, pauses: p.Pauses, port: p.Port}
		if err = s.open(n, device, p); err == nil {
			return s, nil
		}
		err = errors.Join(err, s.Close())
	}
	return nil, fmt.Errorf("live: sink on %s: %w", device, err)
}

func (s *Sink) open(n *netns.Namespace, device string, p SinkParams) (err error) {
	if s.pauses == nil {
		if s.pauses, err = NewPauses(1); err != nil {
			return err
		}
		s.own, s.port = true, 0
		p.Pauses, p.Port = s.pauses, 0
	}
	if s.memory, err = xdprun.NewShared("sink", sinkBanks+2*bankWords(p.Flows)); err != nil {
		return err
	}
	s.SetPriorities(p.Priorities)
	if s.program, err = xdprun.NewProgram("sink", sinkCode(s.memory, p)...); err != nil {
		return err
	}
	return within(n, func() error {
		d, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		if queues := d.Attrs().NumRxQueues; queues != 1 {
			return fmt.Errorf("the device has %d receive queues, on as many CPUs: create it with one", queues)
		}
		// Not pinned: the kernel detaches the program when this process dies, for whatever reason.
		s.link, err = link.AttachXDP(link.XDPOptions{Program: s.program, Interface: d.Attrs().Index,
			Flags: link.XDPDriverMode})
		return err
	})
}

// SetPriorities changes the priorities that honour PFC. A pause of a priority that no longer does
// ends when its time is over.
func (s *Sink) SetPriorities(honoured uint8) { s.memory.Store(sinkHonoured, uint64(honoured)) }

// SinkStats is what a sink has counted since NewSink or Clear. It may be read while frames arrive.
// The counters of one flow are consistent, except that Lost may include a frame that is just being
// counted. Different flows, and the histograms, may be some frames apart.
type SinkStats struct {
	Flows     []Received // by flow ID
	Bytes     uint64     // of all frames, without FCS
	Untracked uint64     // test frames with a flow ID of SinkParams.Flows or above
	Unknown   uint64     // frames that are neither test frames nor MAC control
	Control   ControlStats
}

// Received is what a sink has received of one flow, with latencies.
type Received struct {
	Counters
	FromSchedule line.Histogram // since the frame was due by its flow's rate
	FromWire     line.Histogram // since the generator built it
}

// Counters counts the frames of one flow. Each frame counts once: in Frames, Duplicates or Stale.
type Counters struct {
	Frames, Bytes uint64 // bytes without FCS
	First, Next   uint64 // the first sequence number received, and the highest plus 1
	Lost          uint64 // sequence numbers in between that have not arrived: Next - First - Frames
	Reordered     uint64 // frames that arrived after one with a higher sequence number (RFC 4737, 3.3)
	Duplicates    uint64
	// before First, or too late to tell from duplicates: about 4000 sequence numbers behind
	Stale    uint64
	LastSent int64 // when the last received frame was sent, by its stamp
}

// ControlStats counts MAC control frames. Indices are priorities; a PAUSE counts for all eight.
type ControlStats struct {
	PFC, Pause uint64           // frames
	Other      uint64           // MAC control frames of another kind, or truncated
	XOFF, XON  [8]uint64        // requests in the frames, counted after they have been applied
	Paused     [8]time.Duration // how long each priority that honours PFC was paused, including a current pause
}

// Read returns the counters. It costs the sink nothing.
func (s *Sink) Read() SinkStats {
	bank := s.bank(s.memory.Load(sinkBank))
	stats := SinkStats{
		Flows:     make([]Received, s.flows),
		Bytes:     s.memory.Load(bank + headBytes),
		Unknown:   s.memory.Load(bank + headUnknown),
		Untracked: s.memory.Load(bank + headUntracked),
		Control:   s.Control(),
	}
	for i := range stats.Flows {
		s.readFlow(s.track(i), &stats.Flows[i])
	}
	return stats
}

// Counters returns the counters of each flow, by ID. It is Read without the histograms, which take
// most of Read's time.
func (s *Sink) Counters() []Counters {
	all := make([]Counters, s.flows)
	for i := range all {
		all[i] = s.readCounters(s.track(i))
	}
	return all
}

// Control returns the counters of MAC control frames, as in Read.
func (s *Sink) Control() ControlStats {
	bank := s.bank(s.memory.Load(sinkBank))
	c := ControlStats{
		PFC:    s.memory.Load(bank + headPFC),
		Pause:  s.memory.Load(bank + headPause),
		Other:  s.memory.Load(bank + headControl),
		Paused: s.pauses.paused(s.port),
	}
	for n := range priorities {
		c.XOFF[n] = s.memory.Load(bank + headXOFF + n)
		c.XON[n] = s.memory.Load(bank + headXON + n)
		c.Paused[n] -= s.cleared[n]
	}
	return c
}

// track returns the first word of flow i's record.
func (s *Sink) track(i int) int {
	return s.bank(s.memory.Load(sinkBank)) + headWords + i*trackWords
}

// bank returns the first word of bank n.
func (s *Sink) bank(n uint64) int { return sinkBanks + int(n)*bankWords(s.flows) }

func (s *Sink) readFlow(record int, r *Received) {
	r.Counters = s.readCounters(record)
	if r.Frames > 0 {
		s.readLatency(record+trackSchedule, &r.FromSchedule)
		s.readLatency(record+trackWire, &r.FromWire)
	}
}

func (s *Sink) readCounters(record int) Counters {
	c := s.counterWords(record)
	return Counters{
		Frames: c[trackFrames], Bytes: c[trackBytes],
		First: c[trackFirst], Next: c[trackNext], Lost: c[trackNext] - c[trackFirst] - c[trackFrames],
		Reordered: c[trackReordered], Duplicates: c[trackDuplicates], Stale: c[trackStale],
		LastSent: int64(c[trackLastSent]),
	}
}

// counterWords reads the counters of a flow until two readings agree: then no frame came in
// between. If frames arrive too fast for that, it returns the last of many readings.
func (s *Sink) counterWords(record int) (c [trackWindow]uint64) {
	for range 1000 {
		last := c
		for i := range c {
			c[i] = s.memory.Load(record + i)
		}
		if c == last {
			break
		}
	}
	return c
}

func (s *Sink) readLatency(record int, h *line.Histogram) {
	for i := range h.Counts {
		h.Counts[i] = s.memory.Load(record + latencyCounts + i)
	}
	h.Sum = s.memory.Load(record + latencySum)
	h.Max = int64(s.memory.Load(record + latencyMax))
}

// Clear resets all counters to 0. Pauses continue. The first frame of a flow after Clear may have
// any sequence number.
func (s *Sink) Clear() {
	other := 1 - s.memory.Load(sinkBank)
	first := s.bank(other)
	for i := range bankWords(s.flows) {
		s.memory.Store(first+i, 0)
	}
	s.cleared = s.pauses.paused(s.port)
	s.memory.Store(sinkBank, other)
}

// Close stops counting and restores the device. The counts are lost.
func (s *Sink) Close() (err error) {
	if s.link != nil {
		_ = s.link.Detach() // a child that is being started may have a copy of the link's descriptor
		err = s.link.Close()
	}
	err = errors.Join(err, s.program.Close()) // nil is allowed
	if s.memory != nil {
		err = errors.Join(err, s.memory.Close())
	}
	if s.own {
		err = errors.Join(err, s.pauses.Close())
	}
	return err
}
