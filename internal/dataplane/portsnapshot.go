package dataplane

import (
	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/pfc"
)

// PortSnapshot is the state of one port between two iterations of its worker. If Vacant is set, no
// port has the number now.
type PortSnapshot struct {
	Number int
	Name   string
	Vacant bool
	Up     bool
	Reads  bool // false: what it receives stalls, because its link is down, or there is no memory for its headroom yet
	PortCounters
	Lossless    uint8 // priorities
	PFCSent     pfc.GeneratorStats
	PFCReceived pfc.ReceiverStats
	Watchdog    pfc.WatchdogStats
	Guard       pfc.WatchdogParams // without priorities: no watchdog
	Groups      [Priorities]cells.GroupUsage
	Queues      [Priorities]cells.QueueUsage
	Limits      [Priorities]cells.Limits
	Buffers     PortBuffers
	Sources     bridge.PortStats // frames with anomalous source addresses

	PausedPeer uint8 // priorities that the peer is to pause: the last it was sent is XOFF
	Paused     uint8 // priorities that the peer has paused
}

// PortBuffers counts a port's buffers by the place where they are.
type PortBuffers struct {
	Ring     int // value of Filled when no received frame waits (dataplane.PortParams.Buffers)
	Filled   int // with the driver, to receive into
	Queued   int // in egress queues
	Sending  int // of frames that the driver has to send, or has sent in part
	Spare    int // kept for PFC frames and frames of the control plane
	InFlight int // bytes with the driver, to send
}

// Held returns the cells charged for frames that came in at the port's number, wherever they are
// now.
func (p *PortSnapshot) Held() int {
	cells := 0
	for i := range p.Groups {
		g := &p.Groups[i]
		cells += g.Reserved + g.Shared + g.Headroom
	}
	return cells
}

// EachLosslessDrop calls do for each reason and priority that contributes to LosslessDrops.
func (p *PortSnapshot) EachLosslessDrop(do func(why drop.Reason, priority int, frames uint64)) {
	for why := range p.Lost {
		for priority, frames := range p.Lost[why] {
			if frames > 0 && drop.Reason(why).Congestion() {
				do(drop.Reason(why), priority, frames)
			}
		}
	}
}
