package dataplane

import (
	"sluice/cells"
	"sluice/internal/bridge"
	"sluice/internal/frame"
	"sluice/pmd"
)

// receive takes a burst from a port and forwards each frame.
func (w *Worker) receive(p *port, now int64) int {
	n := p.driver.Receive(w.burst[:])
	if n == 0 {
		return 0
	}
	p.filled -= n
	p.count.RXFrames += uint64(n)
	for i := range w.burst[:n] {
		w.forward(p, &w.burst[i], now)
	}
	return n
}

// forward decides what becomes of one received frame: consumed, dropped under a name, or queued.
func (w *Worker) forward(p *port, d *pmd.Desc, now int64) {
	id := uint32(d.Addr >> w.shift)
	p.held[id] = holdingNothing
	p.count.RXBytes += uint64(d.Len)
	b := w.memory[d.Addr : d.Addr+uint64(d.Len)]
	h := &w.header
	if problem := frame.Parse(b, h); problem != frame.OK {
		w.refuse(p, id, dropOfProblem[problem], p.classifier.Default)
		return
	}
	if h.Type == frame.TypeMACControl {
		p.signals.receive(now, b, &p.count)
		w.pool.PutOne(id)
		return
	}
	priority := p.classifier.CoS(b, h) % Priorities
	p.count.RX[priority]++
	if len(b) > p.longest[priority%Priorities] {
		w.refuse(p, id, DropOversize, priority)
		return
	}
	if p.refused>>(priority%Priorities)&1 != 0 {
		w.refuse(p, id, p.whyRefused(priority), priority)
		return
	}
	to := w.bridge.Forward(now, p.number, h)
	if to.Learned && len(w.out) > 0 {
		w.announce(station{mac: h.Src, vid: h.VID, port: uint16(p.number)})
	}
	switch {
	case to.Reason != 0:
		w.refuse(p, id, dropOfBridge[to.Reason], priority)
	case to.Out == bridge.Flood:
		w.flood(p, id, d, priority, to.Flood)
	default:
		w.admit(p, id, d, priority, priority, w.ports[to.Out])
	}
}

// refuse drops a frame that was not admitted.
func (w *Worker) refuse(p *port, id uint32, why Drop, priority uint8) {
	p.count.Drops[why][priority]++
	w.pool.PutOne(id)
}

// admit charges a frame, the one whose header is in hand or a copy of it, to its priority group and sends it on its way to
// a queue of an egress port.
func (w *Worker) admit(p *port, id uint32, d *pmd.Desc, priority, queue uint8, out *port) {
	longest := out.MaxFrame
	if !w.header.Tagged {
		longest -= out.growth
	}
	if int(d.Len) > longest {
		w.refuse(p, id, DropOversize, priority)
		return
	}
	n := w.accounts.Cells(int(d.Len))
	if why := w.accounts.Admit(p.local, int(priority), n); why != cells.Admitted {
		w.refuse(p, id, dropOfCells[why], priority)
		return
	}
	// Field by field: a literal is put together elsewhere and copied with wider loads than it was written with, for
	// which the processor waits.
	f := &w.frames[id]
	f.offset, f.length, f.cells = uint16(d.Addr&(1<<w.shift-1)), uint16(d.Len), uint16(n)
	f.in, f.out, f.priority, f.queue = uint16(p.number), uint16(out.number), priority, queue
	if out.egress != nil {
		w.rewrite(p, id, out.egress)
	}
	if out.worker != w.index {
		w.outboxTo(out.worker).sendFrame(id)
		return
	}
	w.enqueue(out, id)
}

// rewrite makes the frame what it is to be on its way out. It may become a tag longer, for which the drivers leave room
// in front, or shorter; it costs what it did.
func (w *Worker) rewrite(p *port, id uint32, egress *bridge.Egress) {
	f := &w.frames[id]
	start := int(id)<<w.shift + int(f.offset) - frame.TagLength
	moved := egress.Rewrite(w.memory[start:][:frame.TagLength+int(f.length)], w.bridge.VLAN(p.number, w.header.VID), f.priority) - frame.TagLength
	f.offset, f.length = uint16(int(f.offset)+moved), uint16(int(f.length)-moved)
}

// flood sends a frame to every member of its VLAN that is up. Each copy is a frame like any other, with its own
// buffer and charge; the frame itself goes to the last.
func (w *Worker) flood(p *port, id uint32, d *pmd.Desc, priority uint8, members []uint16) {
	var last *port
	for _, m := range members {
		if !w.ports[m].up {
			continue
		}
		if last != nil {
			w.floodCopy(p, d, priority, last)
		}
		last = w.ports[m]
	}
	if last == nil {
		w.refuse(p, id, DropNoDestination, priority)
		return
	}
	w.admit(p, id, d, priority, last.floods[priority], last)
}

func (w *Worker) floodCopy(p *port, d *pmd.Desc, priority uint8, out *port) {
	p.count.FloodCopies++
	if w.pool.Get(w.ids[:1]) == 0 {
		p.count.Drops[DropNoBuffer][priority]++
		return
	}
	c := *d
	c.Addr = uint64(w.ids[0])<<w.shift | d.Addr&(1<<w.shift-1)
	copy(w.memory[c.Addr:c.Addr+uint64(c.Len)], w.memory[d.Addr:d.Addr+uint64(d.Len)])
	w.admit(p, w.ids[0], &c, priority, out.floods[priority], out)
}

// enqueue puts an admitted frame, of this worker or another, into its egress queue. Lossless queues never refuse.
func (w *Worker) enqueue(out *port, id uint32) {
	f := &w.frames[id]
	if out.shut>>(f.queue%Priorities)&1 != 0 {
		w.dropAdmitted(out, id, out.whyShut())
		return
	}
	if out.early>>(f.queue%Priorities)&1 != 0 {
		w.enqueueEarly(out, id)
		return
	}
	if why := w.accounts.Enqueue(out.local, int(f.queue), int(f.cells)); why != cells.Admitted {
		w.dropAdmitted(out, id, dropOfCells[why])
		return
	}
	out.queues.Enqueue(int(f.queue), id, int(f.length))
}

// enqueueEarly is enqueue for a queue with early detection, which sees the depth that the frame meets.
func (w *Worker) enqueueEarly(out *port, id uint32) {
	f := &w.frames[id]
	early := w.accounts.Early(out.local, int(f.queue))
	if why := w.accounts.Enqueue(out.local, int(f.queue), int(f.cells)); why != cells.Admitted {
		w.dropAdmitted(out, id, dropOfCells[why])
		return
	}
	if early && !w.warn(out, id) {
		w.accounts.Dequeue(out.local, int(f.queue), int(f.cells))
		w.dropAdmitted(out, id, DropEarly)
		return
	}
	out.queues.Enqueue(int(f.queue), id, int(f.length))
}

// warn tells the receiver of a frame about congestion, by a mark. It returns false if the frame can't be marked and is to be
// dropped instead.
func (w *Worker) warn(out *port, id uint32) bool {
	f := &w.frames[id]
	start := int(id)<<w.shift + int(f.offset)
	if out.ECN>>f.priority&1 != 0 && frame.MarkCE(w.memory[start:start+int(f.length)]) {
		out.count.Marked[f.priority]++
		return true
	}
	return out.Cells.Groups[f.priority].Lossless
}

// dropAdmitted drops a frame at the port that it was bound for.
func (w *Worker) dropAdmitted(out *port, id uint32, why Drop) {
	out.count.Drops[why][w.frames[id].priority]++
	w.release(id)
}

// doors works out which priorities a port takes no frames of, and which of its queues take none.
func (p *port) doors(drain Drain) {
	p.refused, p.shut = p.discarded, p.discarded
	if !p.up {
		p.shut = allPriorities
	}
	switch drain {
	case HoldPeers:
		p.refused |= ^p.signals.lossless
	case Refuse:
		p.refused = allPriorities
	}
}

const allPriorities = 0xff

// whyRefused names the reason for a bit in refused.
func (p *port) whyRefused(priority uint8) Drop {
	if p.discarded>>priority&1 != 0 {
		return DropStorm
	}
	return DropDraining
}

// whyShut names the reason for a bit in shut.
func (p *port) whyShut() Drop {
	if !p.up {
		return DropPortDown
	}
	return DropStorm
}
