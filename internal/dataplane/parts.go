package dataplane

import (
	"sluice/internal/dataplane/drop"
	"sluice/pmd"
)

// A frame that is too long for one buffer goes by its head (partTable) wherever frames of one
// part go by their buffer. Only three steps touch the other parts: link when the frame is received,
// expand when it is sent, and whatever frees its buffers.

// linked returns the descriptors of the frames in a burst, one for each.
func (w *Worker) linked(p *port, burst []pmd.Desc) (frames []pmd.Desc) {
	if p.slack != 0 { // frames may have several parts
		return w.link(p, burst)
	}
	return burst
}

// link joins the parts of the frames in a burst. One descriptor stays for each frame.
//
//go:noinline
func (w *Worker) link(p *port, burst []pmd.Desc) (frames []pmd.Desc) {
	several := uint32(0)
	for i := range burst {
		several |= burst[i].Options
	}
	if several == 0 {
		return burst
	}
	for frames = burst[:0]; len(burst) > 0; {
		n := whole(burst)
		d, ok := burst[0], true
		if d.Options != 0 {
			d, ok = w.linkFrame(p, burst[:n])
		}
		if ok {
			frames = append(frames, d)
		}
		burst = burst[n:]
	}
	return frames
}

// whole returns how many descriptors the first frame of a burst has.
func whole(burst []pmd.Desc) (parts int) {
	for parts = 1; burst[parts-1].Options&pmd.Continued != 0 && parts < min(len(burst), burstSize); {
		parts++
	}
	return parts
}

// linkFrame joins the parts of one frame. It drops the frame if one of its buffers is not ours to
// free, like a frame of one part, or if it is not fit for forwarding: then as drop.Parts. So a
// frame never occupies more buffers than it costs cells, and cells run out before buffers do.
func (w *Worker) linkFrame(p *port, descs []pmd.Desc) (d pmd.Desc, ok bool) {
	ours := w.ids[:0]
	for i := range descs {
		if id := descs[i].Addr >> (w.shift & 63); id < uint64(len(p.held)) && p.held[id] == holdingEmpty {
			p.held[id] = holdingNothing
			ours = append(ours, uint32(id))
		}
	}
	p.filled -= len(ours)
	if len(ours) < len(descs) {
		p.count.RXTwice += uint64(len(descs) - len(ours))
		w.pool.Put(ours)
		return d, false
	}
	d, valid := w.parts.Link(descs) // beyond MaxFrame it is never charged, but dropped as oversize
	if !valid || len(descs) > w.accounts.Cells(int(d.Len)) && int(d.Len) <= p.MaxFrame {
		p.count.RXFrames++
		p.count.RXBytes += uint64(d.Len)
		w.refuse(p, &d, drop.Parts, p.classifier.Default)
		return d, false
	}
	p.held[ours[0]] = holdingHead
	p.filled++
	return d, true
}

// bytes returns the bytes of a frame that lie in its first buffer: all headers are there.
func (w *Worker) bytes(d *pmd.Desc) []byte {
	if d.Options != 0 {
		return w.parts.Bytes(d)
	}
	return w.memory.Frame(d.Addr, d.Len)
}

// free frees the buffers of a frame that was not admitted.
func (w *Worker) free(d *pmd.Desc) {
	id := w.buffer(d)
	if d.Options != 0 {
		w.freeLater(id)
	}
	w.pool.PutOne(id)
}

// freeAll frees the buffers of frames that were not admitted, or are no longer charged, and returns
// their number. any is the OR of the low bits of what describes the frames.
func (w *Worker) freeAll(ids []uint32, any uint16) (buffers int) {
	buffers = len(ids)
	if any&severalParts != 0 {
		for _, id := range ids {
			if w.frames[id]&severalParts != 0 {
				buffers += w.freeLater(id)
			}
		}
	}
	w.pool.Put(ids)
	return buffers
}

// freeLater frees the buffers of a frame behind its head, and returns their number.
//
//go:noinline
func (w *Worker) freeLater(head uint32) int {
	var ids [burstSize]uint32
	later := w.parts.Later(head, ids[:0])
	w.pool.Put(later)
	return len(later)
}

// later returns how many buffers the frame f in a buffer has beyond that one.
func (w *Worker) later(id uint32, f bufferWord) int {
	if f&severalParts == 0 {
		return 0
	}
	return w.parts.Buffers(id) - 1
}

// transmitParts sends the n frames of a burst of which some have several parts.
//
//go:noinline
func (w *Worker) transmitParts(p *port, n int) {
	descs, n := w.expand(p, n)
	w.sent(p, n, w.taken(n, p.driver.Transmit(descs)))
}

// expand makes the descriptors of n frames in w.burst that are about to be sent: one for each part.
// A frame that has more parts than the driver sends is packed. If it still has, it is dropped and
// leaves w.ids. expand returns the number of the others.
func (w *Worker) expand(p *port, n int) (descs []pmd.Desc, frames int) {
	descs = w.descs[:0]
	for i, id := range w.ids[:n] {
		d := w.burst[i]
		if w.frames[id]&severalParts == 0 {
			descs = append(descs, d)
		} else {
			d.Options = pmd.Continued
			before := len(descs)
			if w.parts.Buffers(id) > p.spread {
				d = w.parts.Pack(d)
				w.frames[id] = w.frames[id].At(uint16(d.Addr) & w.mask)
			}
			descs = w.parts.Descriptors(descs, d)
			w.hand(p, id, descs[before:])
			if len(descs)-before > p.spread {
				descs = descs[:before]
				w.unsend(p, id, drop.RefusedByDriver)
				continue
			}
		}
		w.ids[frames] = id
		frames++
	}
	w.budget.Send -= len(descs) - frames
	return descs, frames
}

// hand marks the parts of a frame as with the driver. It was counted as one buffer there.
func (w *Worker) hand(p *port, head uint32, descs []pmd.Desc) {
	for i := range descs {
		p.held[w.buffer(&descs[i])] = holdingPart
	}
	buffers := w.parts.Buffers(head)
	p.later -= buffers - 1
	p.sending += len(descs) - 1
	p.returned += buffers - len(descs) // packing emptied them
	w.parts.Send(head, len(descs))
}

// taken returns how many of n frames the driver has taken, given the number of descriptors.
func (w *Worker) taken(n, descs int) int {
	for i, id := range w.ids[:n] {
		if descs--; w.frames[id]&severalParts != 0 {
			descs -= w.parts.Sending(id) - 1
		}
		if descs < 0 {
			return i
		}
	}
	return n
}

// completePart ends the sending of one part, and with the last one that of the frame. Until then
// the frame keeps all its buffers, and its charge.
func (w *Worker) completePart(p *port, id uint32) {
	p.sending--
	head, last := w.parts.Complete(id)
	if !last {
		p.returned++
		return
	}
	p.returned -= w.parts.Buffers(head) - 1
	w.leave(p, head)
}

// recall takes back what the driver has of a frame.
func (w *Worker) recall(p *port, head uint32) {
	var ids [pmd.MaxParts]uint32
	for _, id := range w.parts.Later(head, append(ids[:0], head)) {
		if p.held[id] == holdingPart {
			p.held[id] = holdingNothing
			p.sending--
		} else {
			p.returned--
		}
	}
	w.leave(p, head)
}
