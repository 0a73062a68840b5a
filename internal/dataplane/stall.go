package dataplane

import (
	"math"

	"sluice/internal/frame"
	"sluice/pmd"
)

// A port does not read while its link is down, or while it has no headroom: it could not stop its
// peer. What comes in meanwhile stalls, so a port that comes up forwards what its peer has sent
// since the link has carrier. There may be more of it than the headroom is for: while a group is in
// XOFF, its frames stay stalled. Control frames take effect at once. Stalled frames are in the buffers
// that the driver has to receive into, so there are no more than these.

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
	w.collect(p, now)
	late := now-p.stalledSince >= longestStall
	p.unread = false
	switch {
	case len(p.stalled) == 0:
		p.before, p.stalledSince = 0, max(p.stalledSince, now)
		if p.reads = p.mayRead(); p.reads {
			return w.take(p, now)
		}
	case p.mayRead():
		n = w.resume(p, len(p.stalled), late, now)
	case p.before > 0:
		n = w.resume(p, p.before, late, now)
	case late:
		p.close()
		n = w.resume(p, len(p.stalled), late, now)
		p.gates()
	}
	w.unread = w.unread || n >= w.quantum
	return n
}

// collect takes a burst from the driver of a port that does not read.
func (w *Worker) collect(p *port, now int64) {
	burst := w.burst[:min(burstSize, cap(p.stalled)-len(p.stalled))]
	if len(burst) == 0 {
		return
	}
	for burst = burst[:p.driver.Receive(burst)]; len(burst) > 0; {
		parts := whole(burst)
		class, control := w.classify(p, &burst[0])
		if control && parts == 1 {
			w.process(p, burst[:parts], now)
		} else {
			p.stalled = append(p.stalled, burst[:parts]...)
			p.stalled[len(p.stalled)-parts].Options |= uint32(class) << classShift
		}
		burst = burst[parts:]
	}
}

// The first descriptor of a stalled frame has its class in its options.
const classShift = 16

// whole returns how many descriptors the first frame of a burst has.
func whole(burst []pmd.Desc) (parts int) {
	for parts = 1; burst[parts-1].Options&pmd.Continued != 0 && parts < min(len(burst), burstSize); {
		parts++
	}
	return parts
}

// classify returns the class of a frame that begins with a descriptor, and whether it is a MAC
// control frame.
func (w *Worker) classify(p *port, d *pmd.Desc) (class uint8, control bool) {
	class = p.classifier.Default
	if w.buffer(d) < uint32(len(p.held)) {
		var h frame.Header
		b := w.memory.Frame(d.Addr, d.Len)
		switch problem := frame.Parse(b, &h); {
		case problem == frame.OK:
			class, control = p.classifier.CoS(b, &h), h.Type == frame.TypeMACControl
		case problem == frame.STagged && p.classifier.STags:
			class = p.classifier.STagCoS(&h)
		}
	}
	return class % Priorities, control
}

// resume forwards stalled frames: up to a burst, from among the first descriptors. Frames of groups
// in XOFF stay stalled unless they are late, and so do those of the same class behind them. Nothing
// is learned from frames from before the link went down.
func (w *Worker) resume(p *port, most int, late bool, now int64) (n int) {
	kept, blocked, before := 0, uint8(0), p.before
	for i, parts := 0, 0; i < len(p.stalled); i += parts {
		if i >= most || n >= w.quantum {
			kept += copy(p.stalled[kept:], p.stalled[i:])
			break
		}
		if !late {
			blocked |= w.accounts.Congested(p.number)
		}
		descs := p.stalled[i:]
		parts = whole(descs)
		descs = descs[:parts]
		if blocked>>(descs[0].Options>>classShift)&1 != 0 {
			kept += copy(p.stalled[kept:], descs)
			continue
		}
		copy(w.burst[:], descs)
		w.burst[0].Options &= pmd.Continued
		w.bridge.Stale(p.number, i < before)
		w.process(p, w.burst[:parts], now)
		w.finish(p)
		if n += parts; i < before {
			p.before -= parts
		}
	}
	w.bridge.Stale(p.number, false)
	p.stalled = p.stalled[:kept]
	w.budget.Receive -= n
	return n
}

// close makes a port drop what it receives, until its gates are computed again.
func (p *port) close() {
	for class := range p.longest {
		p.longest[class] = -1
	}
}
