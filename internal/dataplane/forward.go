package dataplane

import (
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
	"sluice/pmd"
)

// forward decides where the trains of a burst go, and gathers their frames. A train whose frames
// need separate decisions costs more than the frames would alone: if a burst has many, the next
// bursts are parsed without trains.
func (w *Worker) forward(p *port, trains []bridge.Frame, now int64) {
	for done, first, decisions := 0, 0, len(trains); ; decisions++ {
		n, alone := w.bridge.Forward(max(now, p.learnsFrom), p.number, trains[done:])
		if w.tap != nil {
			w.tap.arrived(p, trains) // before anything is done to them
		}
		if !alone {
			if decisions > len(trains) && decisions > burstSize/2 {
				p.alone = aloneFor
			}
			w.direct(p, trains, done, first)
			return
		}
		last := &trains[done+n-1]
		followers := last.Followers
		last.Followers = 0
		first = w.direct(p, trains[:done+n], done, first)
		done += n - 1 // its followers take its place
		last.Followers, last.Class = followers-1, w.classes[first]
	}
}

// direct sends the frames of trains[from:] where the bridge has decided. first is the place in the
// burst of their first frame; direct returns the place behind their last.
//
//go:noinline
func (w *Worker) direct(p *port, trains []bridge.Frame, from, first int) (next int) {
	for i := from; i < len(trains); i++ {
		f, d := &trains[i], &w.burst[first&(burstSize-1)]
		if f.Learned && len(w.out) > 0 {
			w.announce(announcement{MAC: f.Header.Src, VID: f.Header.VID, Port: uint16(p.number), Seen: w.gap.Last})
		}
		switch {
		case f.Followers > 0:
			w.directTrain(p, f, first, w.sets[i&(burstSize-1)])
			first += int(f.Followers)
		case f.Out >= 0:
			w.gather(p, f, d, f.Class, w.ports[f.Out])
		case f.Out == bridge.Flood:
			w.flood(p, f, d)
		default:
			w.reject(p, f, d)
		}
		first++
	}
	return first
}

// buffer returns the id of the buffer that a descriptor points into.
func (w *Worker) buffer(d *pmd.Desc) uint32 { return uint32(d.Addr >> (w.shift & 63)) }

// descriptor returns the descriptor of the frame in a buffer.
func (w *Worker) descriptor(id uint32) pmd.Desc {
	f := w.frames[id]
	return pmd.Desc{Addr: uint64(id)<<(w.shift&63) + f.Offset(), Len: uint32(f.Length()),
		Options: uint32(f/severalParts) & pmd.Continued}
}

// gather rewrites a frame, or a copy of one, for an egress port and adds it to the batch of its
// queue.
func (w *Worker) gather(p *port, f *bridge.Frame, d *pmd.Desc, queue uint8, out *port) {
	id, class, length := w.buffer(d), f.Class, int(d.Len)
	if length > out.longestOut && !out.takes(length, f.Header.Tagged) {
		w.refuse(p, d, drop.Oversize, class)
		return
	}
	n := w.accounts.Cells(length) // of the frame as received
	kind := kindOf(p.groups+uint16(class), queue)
	b := wordOf(d, w.mask, n, kind) | p.words[class%Priorities]&cameLossless
	if out.egress != nil {
		b = w.rewrite(p, f, d, b, out.egress)
		length = b.Length()
	}
	w.frames[id] = b
	g := &out.batches[queue%Priorities]
	if g.frames.Frames() == 0 || g.priority != class {
		w.begin(p, g, class)
	}
	g.cells, g.any = g.cells+n, g.any|uint16(b)
	w.arena.Append(&g.frames, id, onWire(length))
}

// takes reports whether a frame fits the port's MTU, with the tag that the port may add.
func (p *port) takes(length int, tagged bool) bool {
	if !tagged {
		length += p.growth
	}
	return length <= p.MaxFrame
}

// rewrite changes a frame into what its egress port sends. It may become shorter, or longer by a
// tag, for which drivers leave room in front. Its charge stays the same.
func (w *Worker) rewrite(
	p *port, f *bridge.Frame, d *pmd.Desc, b bufferWord, egress *bridge.Egress,
) bufferWord {
	room := w.memory.Frame(d.Addr-frame.TagLength, frame.TagLength+uint32(len(w.bytes(d))))
	return b.Moved(egress.Rewrite(room, w.bridge.VLAN(p.number, f.Header.VID), f.Class) - frame.TagLength)
}

// flood sends a frame to every other member of its VLAN that is up. Each copy has a buffer and a
// charge of its own; the last member gets the frame itself.
func (w *Worker) flood(p *port, f *bridge.Frame, d *pmd.Desc) {
	if len(w.out) > 0 && !f.Header.Dst.Group() {
		w.ask(p, f)
	}
	var last *port
	for _, m := range w.bridge.Others(p.number, f.Header.VID) {
		if !w.ports[m].up {
			continue
		}
		if last != nil {
			w.floodCopy(p, f, d, last)
		}
		last = w.ports[m]
	}
	if last == nil {
		w.refuse(p, d, drop.NoDestination, f.Class)
		return
	}
	w.gather(p, f, d, last.floods[f.Class], last)
}

func (w *Worker) floodCopy(p *port, f *bridge.Frame, d *pmd.Desc, out *port) {
	p.count.FloodCopies++
	c, found := w.copy(p, d)
	if !found {
		p.count.Drop(drop.NoBuffer, f.Class, p.flow.lossless>>f.Class&1 != 0, 1)
		if w.tap != nil {
			w.tap.discarded(p, d, drop.NoBuffer, f.Class)
		}
		return
	}
	w.gather(p, f, &c, out.floods[f.Class], out)
}

// copy copies a frame to free buffers: as many as it has. Gathered frames hold buffers that are not
// charged yet: if too few others are free, copy admits those frames, and refused ones give their
// buffers back.
func (w *Worker) copy(p *port, d *pmd.Desc) (c pmd.Desc, found bool) {
	buffers := 1
	if d.Options != 0 {
		buffers = w.parts.Buffers(w.buffer(d))
	}
	w.budget.Receive -= buffers + int(d.Len)/budget.CopyBytes
	if w.pool.Free() < buffers {
		w.admit(p)
	}
	ids := w.ids[:buffers]
	if w.pool.Free() < buffers {
		return c, false
	}
	w.pool.Get(ids)
	if d.Options != 0 {
		return w.parts.Copy(ids, d), true
	}
	c = pmd.Desc{Addr: uint64(ids[0])<<w.shift | d.Addr&uint64(w.mask), Len: d.Len}
	copy(w.memory.Frame(c.Addr, c.Len), w.memory.Frame(d.Addr, d.Len))
	return c, true
}
