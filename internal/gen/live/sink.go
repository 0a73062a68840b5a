package live

import (
	"time"

	"sluice/internal/lab"
)

// SinkParams describes a sink. The zero value counts 64 flows and ignores PFC.
type SinkParams struct {
	Flows int // flows with an ID below this are counted; default 64. Each takes 34 KiB of the kernel's memory

	// PFC frames and PAUSE are always counted. What follows is for a port that obeys them.
	Priorities uint8         // bit n: priority n obeys
	Speed      uint64        // bit/s: what quanta are counted by; 0: 10 Gbit/s
	Delay      time.Duration // from the arrival of a PFC frame until it is obeyed, beyond what the kernel takes
	Pauses     *Pauses       // of the generator that sends through this device; nil: nobody obeys
	Port       int           // which of its ports this device is
}

// Sink is an XDP program on a device, natively: it counts and drops whatever the device receives.
type Sink struct {
}

// NewSink starts counting what a device in a namespace receives. The device must have one receive queue.
func NewSink(n *lab.Namespace, device string, p SinkParams) (*Sink, error) { panic("not yet") }

// SinkStats is what a sink has counted since NewSink or Clear. It may be read while frames come in: counters of one flow
// belong together, but those of different flows, and the histograms, may be some frames apart.
type SinkStats struct {
	Flows     []Received // by flow ID
	Untracked uint64     // test frames of a flow beyond SinkParams.Flows
	Unknown   uint64     // frames that are neither test frames nor MAC control
	Control   ControlStats
}

// Received is what has come of one flow. Each frame counts once: in Frames, in Duplicates or in Stale.
type Received struct {
	Frames, Bytes uint64 // bytes without FCS
	First, Next   uint64 // the first sequence number that came, and the highest plus 1
	Lost          uint64 // sequence numbers between the two that have not come yet: Next - First - Frames
	Reordered     uint64 // frames that came after one with a higher sequence number (RFC 4737, 3.3)
	Duplicates    uint64
	Stale         uint64 // from before First, or too late to be told from duplicates: about 4000 sequence numbers behind
	LastSent      int64  // when the frame that came last was sent, by its stamp

	FromSchedule Histogram // since the frame was due by its flow's rate
	FromWire     Histogram // since the generator built it
}

// ControlStats counts MAC control frames. Indices are priorities; a PAUSE counts for all eight.
type ControlStats struct {
	PFC, Pause uint64           // frames
	Other      uint64           // MAC control frames of another kind, or cut off
	XOFF, XON  [8]uint64        // what the frames said
	Paused     [8]time.Duration // for how long a priority that obeys was paused, a running pause included
}

// Total returns the sum over all flows; First, Next and LastSent mean nothing then.
func (s *SinkStats) Total() Received { panic("not yet") }

// Read returns what was counted. It costs the sink nothing.
func (s *Sink) Read() SinkStats { panic("not yet") }

// Clear starts again from 0. Pauses go on. What is the first frame of a flow from then on may have any sequence number.
func (s *Sink) Clear() { panic("not yet") }

// Close stops counting; the device is then as it was.
func (s *Sink) Close() error { panic("not yet") }
