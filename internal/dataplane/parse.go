package dataplane

import (
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/tap"
	"sluice/internal/frame"
	"sluice/pmd"
)

// parse reads the headers of a burst and classifies its frames. It takes in frames that stop at
// the port, drops frames that the port does not take, closes the gaps that these leave, and returns
// the number of trains.
func (w *Worker) parse(p *port, burst []pmd.Desc, now int64) (trains int) {
	together := w.seeksTrains(p)
	for i, kept := 0, 0; i < len(burst); {
		n := 0
		if p.classifier.Trust == bridge.TrustPCP {
			end := len(burst)
			if together {
				end = i + 1
			}
			n = w.parsePlain(p, burst[:end], i, kept, trains)
		}
		if n == 0 {
			n = w.parseOne(p, burst, i, kept, trains, now)
			i, kept, trains = i+1, kept+n, trains+n
			continue
		}
		i, kept, trains = i+n, kept+n, trains+n
		if together && kept == i { // after a gap, the rest of the burst moves up frame by frame
			f := &w.arrived[trains-1]
			n, w.sets[trains-1] = w.follow(p, f, &burst[i-1], burst[i:], w.classes[i:])
			f.Followers = uint8(n)
			i, kept = i+n, kept+n
		}
	}
	if together && trains > len(burst)/2 {
		p.alone = aloneFor
	}
	return trains
}

// seeksTrains reports whether parse looks for trains of more than one frame. It does not where
// recent bursts had few, or under a capture, which needs each frame by itself.
func (w *Worker) seeksTrains(p *port) bool {
	if p.alone > 0 {
		p.alone--
		return false
	}
	return w.tap == nil
}

// parsePlain parses the frames of a burst from one on, up to the first that needs more than
// classification by its PCP and forwarding. kept and trains say how many frames and trains precede
// them. It returns how many frames it adds, each a train of one. Its loop calls no function, so the
// compiler has registers for everything that the loop needs.
//
//go:noinline
func (w *Worker) parsePlain(p *port, burst []pmd.Desc, from, kept, trains int) (n int) {
	held, shift, memory, classifier, bytes := p.held, w.shift&63, w.memory, p.classifier, 0
	for i := from; i < len(burst); i++ {
		d, f := &burst[i], &w.arrived[(trains+n)&(burstSize-1)]
		id := d.Addr >> shift
		if id >= uint64(len(held)) || held[id] != holdingEmpty {
			break
		}
		b := memory.Frame(d.Addr, d.Len)
		if frame.Parse(b, &f.Header) != frame.OK || p.screen.MayStop(&f.Header) {
			break
		}
		class := classifier.ByPCP(&f.Header) % Priorities
		if len(b) > p.longest[class] {
			break
		}
		held[id] = holdingNothing
		bytes += len(b)
		p.count.RX[class]++
		f.Class, f.Followers = class, 0
		if kept+n != i {
			burst[kept+n] = *d
		}
		n++
	}
	p.filled -= n
	p.count.RXFrames += uint64(n)
	p.count.RXBytes += uint64(bytes)
	return n
}

// parseOne parses frame i of a burst, whatever it is. kept and trains say how many frames and
// trains precede it. It returns how many it adds: 1 or 0.
func (w *Worker) parseOne(p *port, burst []pmd.Desc, i, kept, trains int, now int64) (n int) {
	d, f := &burst[i], &w.arrived[trains]
	id, holding := d.Addr>>(w.shift&63), uint8(holdingEmpty)
	if d.Options != 0 {
		holding = holdingHead
	}
	if id >= uint64(len(p.held)) || p.held[id] != holding {
		p.count.RXTwice++ // not a buffer that the driver had to receive into, so not ours to free
		return 0
	}
	p.held[id] = holdingNothing
	p.filled--
	p.count.RXFrames++
	p.count.RXBytes += uint64(d.Len)
	b := w.bytes(d)
	switch problem := frame.Parse(b, &f.Header); {
	case !p.classifier.Takes(problem):
		w.refuse(p, d, dropOfProblem[problem&0xf], p.classifier.Default)
		return 0
	case p.screen.Stops(b, &f.Header):
		w.setAside(p, f, d, now)
		return 0
	}
	class := p.classifier.Class(b, &f.Header) % Priorities
	p.count.RX[class]++
	if int(d.Len) > p.longest[class] {
		w.refuse(p, d, p.whyRefused(int(d.Len), class), class)
		return 0
	}
	f.Class, f.Followers = class, 0
	burst[kept] = *d
	return 1
}

// consume takes in a MAC control frame, which is never forwarded. The frame may have arrived after
// the iteration began, so its pauses count from when it is read; otherwise they would end before
// the sender expects.
func (w *Worker) consume(p *port, d *pmd.Desc, now int64) {
	late := int64(0)
	if w.clock != nil {
		late = max(0, w.clock()-now)
	}
	p.flow.receive(now, late, w.bytes(d), &p.count)
	if w.tap != nil {
		w.tap.control(p, d, tap.RX)
	}
	w.free(d)
}

// refuse drops a frame that was not admitted.
func (w *Worker) refuse(p *port, d *pmd.Desc, why drop.Reason, class uint8) {
	p.count.Drop(why, class, p.flow.lossless>>class&1 != 0, 1)
	if w.tap != nil {
		w.tap.refused(p, d, why, class)
	}
	w.free(d)
}

// whyRefused returns why the port does not take a frame of this length now.
func (p *port) whyRefused(length int, priority uint8) drop.Reason {
	switch {
	case length > p.longestIn[priority]:
		return drop.Oversize
	case p.discarded>>priority&1 != 0:
		return drop.Storm
	case p.drain == Running:
		return drop.LinkDown
	}
	return drop.Draining
}
