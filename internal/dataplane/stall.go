package dataplane

import (
	"math"

	"sluice/internal/frame"
	"sluice/pmd"
)

// A port does not read while its link is down, or while it has no headroom: it could not stop its
// peer. Nor does it read while its headroom is in use from before the link came up, since the peer
// has forgotten that it was stopped. What comes in meanwhile stalls, so a port that comes up
// forwards what its peer has sent since the link has carrier. Then only those frames stay stalled
// that the headroom has no room for. Control frames take effect at once.
//
// Stalled frames are in the buffers that the driver has to receive into, so there are no more than
// these. Since a driver needs some to receive control frames, no more than half of them are in use
// when the link comes up, and no more than three quarters after that.

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
	if w.budget.Receive <= 0 {
		w.leaves(p)
		return 0
	}
	left, stops := w.budget.Receive, p.flow.on()
	collected := w.collect(p, now)
	all, more := p.driver.Waiting() == 0, false
	if all {
		p.before = min(p.before, len(p.stalled))
	}
	switch late := (!p.up || p.stalledSince == longAgo) && now-p.stalledSince >= longestStall; {
	case p.mayRead():
		n, more = w.resume(p, 0, len(p.stalled), !stops, now) // what can't stop its peer waits in vain
	case p.before > 0:
		n, more = w.resume(p, 0, p.before, late, now)
	case late:
		n, more = w.refuseStalled(p, 0, len(p.stalled), now)
	}
	if p.up && !more {
		n += w.refuseExcess(p, all, now)
	}
	p.reads = p.mayRead() && all && len(p.stalled) == 0 && !(stops && w.accounts.HoldsHeadroom(p.number))
	if len(p.stalled) == 0 {
		p.stalledSince = max(p.stalledSince, now)
	}
	w.budget.Receive -= max(0, collected-(left-w.budget.Receive))
	p.unread = p.up && p.flow.lossless != 0 && (more || !all) && n+collected > 0
	w.unread = w.unread || p.unread
	return n
}

// refuseExcess drops frames of a port that is up beyond those that may stall; see above. It comes
// after resume, so none of them can be forwarded.
func (w *Worker) refuseExcess(p *port, all bool, now int64) (n int) {
	half := cap(p.stalled) / 2
	if all {
		p.excess = min(p.excess, max(0, len(p.stalled)-half))
	}
	if p.excess = max(p.excess, len(p.stalled)-half-half/2); p.excess > 0 {
		n, _ = w.refuseStalled(p, half, p.excess, now)
		p.excess = max(0, p.excess-n)
	}
	return n
}

// collect takes a burst from the driver of a port that does not read, and returns how many
// descriptors there were.
func (w *Worker) collect(p *port, now int64) (n int) {
	kept := len(p.stalled)
	room := p.stalled[kept:min(kept+p.burst, cap(p.stalled))]
	if len(room) == 0 {
		return 0
	}
	if n = p.driver.Receive(room); n > 0 {
		p.count.RXBursts++
		p.burst, p.stuck = w.quantum, false // floods may have made it shorter
	} else if p.burst < burstSize {
		p.widen()
	}
	for left := room[:n]; len(left) > 0; {
		parts := whole(left)
		if urgent := w.classify(p, &left[0]); urgent && parts == 1 {
			left[0].Options = 0
			if w.burst[0] = left[0]; kept < p.before {
				p.before--
			}
			p.excess = max(0, p.excess-1)
			w.process(p, w.burst[:1], now)
			w.finish(p)
		} else {
			kept += copy(p.stalled[kept:cap(p.stalled)], left[:parts])
		}
		left = left[parts:]
	}
	p.stalled = p.stalled[:kept]
	return n
}

// The first descriptor of a stalled frame has its class in its options, and the number of reloads
// before that was found.
const (
	classShift   = 16
	reloadsShift = 24
)

// classify notes the class of a frame that begins with a descriptor, and returns whether it does
// not wait: MAC control frames, and LLDP on a link that is up.
func (w *Worker) classify(p *port, d *pmd.Desc) (urgent bool) {
	d.Options &= pmd.Continued
	if w.buffer(d) >= uint32(len(p.held)) {
		return false
	}
	var h frame.Header
	class, b := p.classifier.Default, w.memory.Frame(d.Addr, d.Len)
	if p.classifier.Takes(frame.Parse(b, &h)) {
		class = p.classifier.Class(b, &h)
		urgent = h.Type == frame.TypeMACControl || h.Type == frame.TypeLLDP && h.Dst.Reserved() && p.up
	}
	d.Options |= uint32(class%Priorities)<<classShift | uint32(w.reloads)<<reloadsShift
	return urgent
}

// resume forwards stalled frames: what costs a burst, from among most descriptors from one on.
// Frames that headroom has no room for stay stalled unless they are late, and so do those of the
// same class behind them. So a lossless frame goes alone, as it may take the last room. Nothing is
// learned from frames from before the link went down. resume returns how many descriptors it has
// forwarded, and whether it may forward more.
func (w *Worker) resume(p *port, from, most int, late bool, now int64) (n int, more bool) {
	kept, blocked, before, least := 0, uint8(0), p.before, w.budget.Receive-w.quantum
	at, ahead, end := 0, 0, min(from+most, len(p.stalled)) // descriptors: so far, and of them in w.burst
	for at < end && w.budget.Receive-ahead > least {
		descs := p.stalled[at : at+whole(p.stalled[at:])]
		skipped, stale := at < from, at < before
		at += len(descs)
		if !skipped && uint8(descs[0].Options>>reloadsShift) != w.reloads {
			w.classify(p, &descs[0])
			w.budget.Receive--
		}
		class := uint8(descs[0].Options >> classShift)
		if skipped || blocked>>class&1 != 0 {
			kept += copy(p.stalled[kept:], descs)
			continue
		}
		alone := p.flow.lossless>>class&1 != 0 || stale
		if alone || ahead+len(descs) > burstSize {
			ahead = w.goOn(p, ahead, false, now)
		}
		if !late && w.overflows(p, class, descs) {
			blocked |= 1 << class
			kept += copy(p.stalled[kept:], descs)
			continue
		}
		descs[0].Options &= pmd.Continued
		ahead += copy(w.burst[ahead:], descs)
		n += len(descs)
		if alone {
			ahead = w.goOn(p, ahead, stale, now)
		}
		if stale {
			p.before = max(0, p.before-len(descs))
		}
	}
	w.goOn(p, ahead, false, now)
	w.budget.Receive -= at / lookShare
	p.stalled = p.stalled[:kept+copy(p.stalled[kept:], p.stalled[at:])]
	return n, at < end
}

// lookShare is how many stalled frames resume looks at in the time that one frame costs.
const lookShare = 32

// overflows reports whether a frame may find no room: its group is in XOFF, and has less headroom
// left than the frame needs if it is flooded.
func (w *Worker) overflows(p *port, class uint8, descs []pmd.Desc) bool {
	length := 0
	for i := range descs {
		length += int(descs[i].Len)
	}
	return w.accounts.Congested(p.number)>>class&1 != 0 && p.longest[class] >= 0 &&
		w.accounts.HeadroomLeft(p.number, int(class)) < w.accounts.Cells(length)*(len(w.ports)-1)
}

// goOn forwards the frames of the first descriptors of the burst, which may be stale, and returns
// how many are left: 0.
func (w *Worker) goOn(p *port, descs int, stale bool, now int64) int {
	if descs > 0 {
		w.bridge.Stale(p.number, stale)
		w.process(p, w.burst[:descs], now)
		w.finish(p)
		w.bridge.Stale(p.number, false)
		w.budget.Receive -= descs
	}
	return 0
}

// refuseStalled drops frames as resume forwards them.
func (w *Worker) refuseStalled(p *port, from, most int, now int64) (n int, more bool) {
	p.close()
	n, more = w.resume(p, from, most, true, now)
	p.gates()
	return n, more
}

// close makes a port drop what it receives, until its gates are computed again.
func (p *port) close() {
	for class := range p.longest {
		p.longest[class] = -1
	}
}
