package dataplane

import (
	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
)

// gates computes which priorities a port does not receive, and which of its queues take no frames.
func (p *port) gates() {
	refused := p.discarded
	p.shut = p.discarded
	if !p.up {
		p.shut = allPriorities
	}
	switch p.drain {
	case HoldPeers:
		refused |= ^p.flow.lossless
	case Refuse:
		refused = allPriorities
	}
	for class := range p.longest {
		p.longest[class] = p.longestIn[class]
		if refused>>class&1 != 0 {
			p.longest[class] = -1
		}
	}
}

const allPriorities = 0xff

// Translations of the reasons of the engines.
var (
	dropOfProblem = drop.Of(frame.Runt, frame.Problems)
	dropOfBridge  = drop.Of(bridge.ReservedAddress, bridge.Reasons)
	dropOfCells   = drop.Of(cells.IngressFull, cells.QueueFull+1)
)
