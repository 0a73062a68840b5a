package dataplane

import (
	"math"
)

// A new generation takes effect at once, apart from what could lose lossless frames in between. The
// headroom of a group holds what comes in behind an XOFF: the more, the more a port may have in
// flight, the longer frames are, the longer a worker may take to respond. These are the port's
// demand. While a worker settles, each group keeps the headroom that it had, and each port has the
// lower of the demands of both generations:
//
//   - More headroom is there once there are cells for it (cells.Manager.Settle). Until then a new
//     lossless class is lossy, and a port that has come up does not read.
//   - Less headroom is enough once nothing is under way any more that the old demand allowed:
//     frames in the RX ring, frames and PFC frames in the TX ring, longer frames in queues and on
//     rings between workers, and pauses.
//
// A port that has settled has the demand of the new generation, in all workers.

// demand is what the headroom of a port depends on, beside its link and the number of its lossless
// classes.
type demand struct {
	inFlight, maxFrame, maxLossless int // bytes
	response                        int64
}

func (p *PortParams) demand() demand {
	d := demand{p.InFlight, p.MaxFrame, p.MaxLossless, p.Response}
	if d.maxLossless == 0 {
		d.maxLossless = d.maxFrame
	}
	return d
}

// lower returns the lower of two demands.
func (d demand) lower(e demand) demand {
	return demand{min(d.inFlight, e.inFlight), min(d.maxFrame, e.maxFrame), min(d.maxLossless, e.maxLossless),
		min(d.response, e.response)}
}

// setDemand changes what the port demands of its headroom.
func (p *port) setDemand(d demand) {
	p.InFlight, p.MaxFrame, p.MaxLossless, p.Response = d.inFlight, d.maxFrame, d.maxLossless, d.response
	p.longestOut = p.MaxFrame - p.growth
	for priority, g := range p.Cells.Groups {
		p.longestIn[priority] = p.MaxFrame
		if g.Lossless {
			p.longestIn[priority] = p.MaxLossless
		}
	}
}

// finishChange continues the change to the generation that the worker runs.
func (w *Worker) finishChange() {
	g := w.generation.Load()
	alike := w.alike(g)
	w.changing = false
	for i, p := range w.ports {
		if p.settled {
			continue
		}
		own := p.worker == w.index
		if own && w.settlePort(p, alike) {
			g.settled[i].Store(true)
		}
		if p.settled = g.settled[i].Load(); !p.settled {
			w.changing = true
			continue
		}
		if p.setDemand(g.params.Ports[i].demand()); own {
			p.gates()
		}
	}
	if !w.changing {
		w.pace(g.parts[w.index].budget)
	}
}

// alike reports whether all workers run a generation, and none of their frames from before is left
// on a ring.
func (w *Worker) alike(g *Generation) bool {
	for _, in := range w.in {
		if in.from.generation.Load() != g {
			return false
		}
		if in.alike != g {
			in.alike, in.earlier = g, in.Frames.Len()
		}
		if in.earlier > 0 {
			return false
		}
	}
	return true
}

// settlePort does so for one port, and reports whether it has settled. alike says that no worker
// sends it frames of the generation before.
func (w *Worker) settlePort(p *port, alike bool) bool {
	read := w.passed && !p.unread && !p.behind
	covered := alike && read && p.inFlight < p.InFlight+p.MaxFrame && p.flow.sending <= spareControl && !p.hasLonger()
	w.accounts.Congested(p.number) // may end an XOFF that nobody else asks for, if the link is down
	little, much := w.accounts.Settle(p.number, covered)
	p.unbacked = little != 0
	if lossless := w.accounts.Lossless(p.number); lossless != p.flow.lossless {
		p.setLossless(lossless)
	}
	w.generation.Load().lossless[p.number].Store(uint32(p.flow.lossless))
	return little|much == 0
}

// hasLonger reports whether frames from before a reload wait in the port's queues that may be
// longer than MaxFrame. Once no more come, it is enough to let as many leave as there are now.
func (p *port) hasLonger() (has bool) {
	for queue := range p.longer {
		frames := &p.longer[queue]
		if *frames == unknown {
			*frames = p.queues.Left(queue) + uint64(p.queues.Frames(queue))
		}
		has = has || p.queues.Left(queue) < *frames
	}
	return has
}

// unknown is an element of port.longer that is not known yet.
const unknown = math.MaxUint64

// setLossless changes which classes are lossless at the port.
func (p *port) setLossless(classes uint8) {
	p.flow.lossless = classes
	for class := range p.words {
		kind := kindOf(p.groups+uint16(class), uint8(class))
		p.words[class] = newWord(0, 0, 0, kind) | bufferWord(classes>>class&1)*cameLossless
	}
	p.gates()
}
