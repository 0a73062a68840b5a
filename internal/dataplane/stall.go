package dataplane

import (
	"math"

	"sluice/internal/frame"
	"sluice/pmd"
)

// A port does not read while its link is down, or while it has no headroom: it could not stop its
// peer. What comes in meanwhile stalls, so a port that comes up forwards what its peer has sent
// since the link has carrier. There may be more of it than the headroom is for: while a group is in
// XOFF, its frames stay stalled. Control frames take effect at once. Stalled frames are in the
// buffers that the driver has to receive into, so there are no more than these. Once the link is
// up, half of them must be free, since the driver needs some to receive control frames.

const (
	// longestStall is how long frames may be stalled without a link, in ns: the recommended bridge
	// transit delay (IEEE 802.1D-2004 table 7-3).
	longestStall = 1e9
	longAgo      = math.MinInt64 / 2
)

// mayRead reports whether a port may begin to take frames: its link is up, and there is memory for
// its headroom.
func (p *port) mayRead() bool { return p.up && !p.unbacked }

// stall makes a port stop reading. What is in the driver is from before.
func (p *port) stall(now int64) {
	p.reads, p.stalledSince, p.before = false, now, len(p.stalled)
	if p.driver != nil {
		p.before += p.driver.Waiting()
	}
}

// takeStalled is take for a port that does not read.
//
//go:noinline
func (w *Worker) takeStalled(p *port, now int64) (n int) {
	collected := w.collect(p, now)
	if collected == 0 && len(p.stalled) < cap(p.stalled) { // the driver has no more
		p.before, p.excess = min(p.before, len(p.stalled)), min(p.excess, max(0, len(p.stalled)-cap(p.stalled)/2))
	}
	late := now-p.stalledSince >= longestStall
	p.unread = false
	switch {
	case p.mayRead() && p.excess > 0:
		n = w.refuseStalled(p, cap(p.stalled)/2, p.excess, now)
		p.excess = max(0, p.excess-n)
	case p.mayRead():
		n = w.resume(p, 0, len(p.stalled), late, now)
		p.reads = len(p.stalled) == 0 && p.before == 0
	case p.before > 0:
		n = w.resume(p, 0, p.before, late, now)
	case late:
		n = w.refuseStalled(p, 0, len(p.stalled), now)
	}
	if len(p.stalled) == 0 {
		p.stalledSince = max(p.stalledSince, now)
	}
	w.unread = w.unread || p.mayRead() && max(n, collected) >= w.quantum
	return n
}

// collect takes a burst from the driver of a port that does not read, and returns how many
// descriptors there were.
func (w *Worker) collect(p *port, now int64) (n int) {
	kept := len(p.stalled)
	room := p.stalled[kept:min(kept+burstSize, cap(p.stalled))]
	if len(room) == 0 {
		return 0
	}
	if n = p.driver.Receive(room); n > 0 {
		p.count.RXBursts++
	}
	for left := room[:n]; len(left) > 0; {
		parts := whole(left)
		class, control := w.classify(p, &left[0])
		if control && parts == 1 {
			w.burst[0] = left[0]
			w.process(p, w.burst[:1], now)
		} else {
			left[0].Options |= uint32(class) << classShift
			kept += copy(p.stalled[kept:cap(p.stalled)], left[:parts])
		}
		left = left[parts:]
	}
	p.stalled = p.stalled[:kept]
	w.budget.Receive -= n
	return n
}

// The first descriptor of a stalled frame has its class in its options.
const classShift = 16

// classify returns the class of a frame that begins with a descriptor, and whether it is a MAC
// control frame.
func (w *Worker) classify(p *port, d *pmd.Desc) (class uint8, control bool) {
	var h frame.Header
	if w.buffer(d) >= uint32(len(p.held)) {
		return 0, false
	}
	b := w.memory.Frame(d.Addr, d.Len)
	if !p.classifier.Takes(frame.Parse(b, &h)) {
		return p.classifier.Default, false
	}
	return p.classifier.Class(b, &h) % Priorities, h.Type == frame.TypeMACControl
}

// resume forwards stalled frames: up to a burst, from among most descriptors from one on. Frames of
// groups in XOFF stay stalled unless they are late, and so do those of the same class behind them.
// Nothing is learned from frames from before the link went down.
func (w *Worker) resume(p *port, from, most int, late bool, now int64) (n int) {
	kept, blocked, before, end := 0, uint8(0), p.before, 0
	for at := range p.stalled {
		if at < end {
			continue // a further part
		}
		if at >= from+most || n >= w.quantum {
			kept += copy(p.stalled[kept:], p.stalled[at:])
			break
		}
		if !late {
			blocked |= w.accounts.Congested(p.number)
		}
		parts := whole(p.stalled[at:])
		end = at + parts
		descs := p.stalled[at:end]
		if at < from || blocked>>(descs[0].Options>>classShift)&1 != 0 {
			kept += copy(p.stalled[kept:], descs)
			continue
		}
		copy(w.burst[:], descs)
		w.burst[0].Options &= pmd.Continued
		w.bridge.Stale(p.number, at < before)
		w.process(p, w.burst[:parts], now)
		w.finish(p)
		if n += parts; at < before {
			p.before = max(0, p.before-parts)
		}
	}
	w.bridge.Stale(p.number, false)
	p.stalled = p.stalled[:kept]
	w.budget.Receive -= n
	return n
}

// refuseStalled drops frames as resume forwards them.
func (w *Worker) refuseStalled(p *port, from, most int, now int64) (n int) {
	p.close()
	n = w.resume(p, from, most, true, now)
	p.gates()
	return n
}

// close makes a port drop what it receives, until its gates are computed again.
func (p *port) close() {
	for class := range p.longest {
		p.longest[class] = -1
	}
}
