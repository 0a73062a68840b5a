package dataplane

import (
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
)

// PortCounters are what a worker counts on one port, in frames unless noted. They only grow.
type PortCounters struct {
	RXFrames, RXBytes uint64 // all frames taken from the driver
	RXBursts          uint64 // bursts in which they were taken
	// buffers that the driver returned with a frame although it did not have them to receive into;
	// refused
	RXTwice uint64
	// iterations that left frames with the driver and stopped its peer's lossless priorities
	Behind            uint64
	TXFrames, TXBytes uint64 // forwarded frames given to the driver
	// of these, frames that the driver did not take, or lost with its device; also in Drops
	Recalled     uint64
	RX, TX       [Priorities]uint64
	TXClassBytes [Priorities]uint64 // of TXBytes
	Drops        Losses             // ingress reasons at the ingress port, egress reasons at the egress port
	Lost         Losses             // of Drops, frames that came in as lossless
	FloodCopies  uint64             // copies, beyond the first, of flooded frames received here; dropped ones too

	Control             uint64 // all MAC control frames; none is forwarded
	ControlShort        uint64 // MAC control frames without padding, honoured all the same
	ControlMalformed    uint64 // cut off, ignored
	ControlUnknown      uint64 // of unknown opcode, ignored
	ControlIgnored      uint64 // PFC or PAUSE where the port does not use it
	ControlMisaddressed uint64 // not to 01-80-C2-00-00-01; ignored whatever their kind

	Marked         [Priorities]uint64 // sent on with congestion experienced (ECN)
	StormQueued    [Priorities]uint64 // of Drops[drop.Storm], frames bound for the port; it had received the others
	StormForwarded [Priorities]uint64 // sent during a storm whose pauses are not honoured; dropped ones are in Drops

	DuplicateCompletions uint64 // buffers that the kernel completed twice

	Punted [punt.Kinds]uint64 // received for the control plane; dropped ones are in Drops
	// frames of the control plane that have left, and those that were dropped: without a link,
	// longer than the port's frames, or not sent by the driver
	Injected, InjectedBytes, InjectDropped uint64
}

// Drop counts dropped frames of a priority. lossless says whether they came in as lossless.
func (c *PortCounters) Drop(why drop.Reason, priority uint8, lossless bool, frames uint64) {
	c.Drops[why][priority%Priorities] += frames
	if lossless {
		c.Lost[why][priority%Priorities] += frames
	}
}

// Dropped returns all dropped frames, whatever the reason.
func (c *PortCounters) Dropped() uint64 { return c.Drops.Sum(func(drop.Reason) bool { return true }) }

// LosslessDrops returns how many frames that came in as lossless were dropped for lack of room.
// This number must stay 0.
func (c *PortCounters) LosslessDrops() uint64 { return c.Lost.Sum(drop.Reason.Congestion) }

// In returns how many frames the port had to find a place for.
func (c *PortCounters) In() uint64 { return c.RXFrames + c.FloodCopies }

// Out returns how many of the frames of In have left the port.
func (c *PortCounters) Out() uint64 {
	n := c.TXFrames - c.Recalled + c.Dropped() + c.Control
	for _, punted := range c.Punted {
		n += punted
	}
	return n
}

// ClassDrops returns the dropped frames of a class: in counts those that the port received and did
// not queue, out those that were bound for it.
func (c *PortCounters) ClassDrops(priority int) (in, out uint64) {
	for why := range c.Drops {
		if drop.Reason(why).AtEgress() {
			out += c.Drops[why][priority]
		} else {
			in += c.Drops[why][priority]
		}
	}
	return in - c.StormQueued[priority], out + c.StormQueued[priority]
}

// Losses counts frames by reason and priority.
type Losses [drop.Reasons][Priorities]uint64

// Sum returns the number of the frames that were dropped for reasons of a kind.
func (l *Losses) Sum(of func(drop.Reason) bool) uint64 {
	n := uint64(0)
	for why := range l {
		if of(drop.Reason(why)) {
			for _, d := range l[why] {
				n += d
			}
		}
	}
	return n
}

// Departed sums up the counts of ports that have left.
type Departed struct {
	In, Out uint64 // frames, as PortCounters.In and Out return them
	Lost    uint64 // frames, as LosslessDrops returns them
	Failed  uint64 // frames that came in as lossless and were lost although there was room
}

// Add adds a port that leaves.
func (d *Departed) Add(c *PortCounters) {
	d.Lost += c.LosslessDrops()
	d.Failed += c.Lost.Sum(drop.Reason.Failure)
	d.In += c.In()
	d.Out += c.Out()
}
