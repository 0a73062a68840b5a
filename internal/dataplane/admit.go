package dataplane

import (
	"sluice/cells"
	"sluice/internal/dataplane/drop"
	"sluice/sched"
)

// batch is the frames of a burst that have one class and one egress queue. They are admitted
// together.
type batch struct {
	frames   sched.Chain
	cells    int
	out      *port
	queue    uint8
	priority uint8
	state    batchState
	any      uint16 // OR of the frames' low bits: severalParts, cameLossless
}

// batchState says how far the admission of a batch has come. charge asks the queue, then the
// priority group. queueBurst queues a batch that is charged; it trims one that the queue has
// refused, and asks the group again. What the group refuses then is admitted frame by frame.
type batchState uint8

const (
	refused batchState = iota // the queue does not take all of it
	granted                   // the queue takes all of it, as far as is known
	charged                   // all of it, to its priority group
)

// begin prepares a batch for its first frame. Flooded frames may wait in a queue of another class:
// then the frames that the batch has are admitted first.
func (w *Worker) begin(p *port, g *batch, priority uint8) {
	if g.frames.Frames() != 0 {
		w.admit(p)
	}
	g.priority, g.cells, g.any = priority, 0, uint16(p.words[priority%Priorities])
	w.batches = append(w.batches, g)
}

// admit charges and queues the frames of a burst, or drops them.
func (w *Worker) admit(p *port) {
	w.charge(p)
	w.queueBurst(p)
}

// charge charges the frames of a burst to their priority groups, all frames of a class at once,
// where queues and group have room for all of them. It asks the queues first, so that frames which
// a queue refuses charge no group and raise no watermark.
func (w *Worker) charge(p *port) {
	for _, g := range w.batches {
		if g.state = refused; w.takesAll(g) {
			g.state = granted
		}
	}
	w.chargeGranted(p, w.batches)
}

// chargeGranted charges the batches that their queues have room for.
func (w *Worker) chargeGranted(p *port, batches []*batch) {
	var demand [Priorities]int // cells, by class
	for _, g := range batches {
		if g.state == granted {
			g.state = charged
			demand[g.priority%Priorities] += g.cells
		}
	}
	full := uint8(0)
	for class, n := range &demand { // by pointer: reading a copy would wait for the copy to be written
		if n > 0 && !w.accounts.AdmitAll(p.number, class, n) && !w.accounts.AdmitPastShare(p.number, class, n) {
			full |= 1 << class
		}
	}
	if full == 0 {
		return
	}
	for _, g := range batches {
		if g.state == charged && full>>(g.priority%Priorities)&1 != 0 {
			g.state = granted
		}
	}
}

// queueBurst queues the frames of a burst after charge. It reports whether it still had to charge
// some.
func (w *Worker) queueBurst(p *port) (scarce bool) {
	left := w.queueCharged(p, w.batches)
	w.batches = w.batches[:0]
	if len(left) == 0 {
		return false
	}
	for _, g := range left {
		if g.state == refused {
			w.trim(p, g)
		}
	}
	w.chargeGranted(p, left)
	w.admitEach(p, w.queueCharged(p, left))
	return true
}

// queueCharged queues the batches that are charged, and returns the others.
func (w *Worker) queueCharged(p *port, batches []*batch) (left []*batch) {
	left = batches[:0]
	for _, g := range batches {
		if g.state == charged {
			w.queue(p, g)
		} else {
			left = append(left, g)
		}
	}
	return left
}

// trim drops the frames of a batch that its egress queue does not grant. Under overload most frames
// end here.
func (w *Worker) trim(p *port, g *batch) {
	out := g.out
	if out.worker != w.index || (out.shut|out.early)>>g.queue&1 != 0 {
		return // not known here, or decided frame by frame
	}
	first := w.frames[g.frames.First()].Cells()
	grant := w.accounts.Grant(out.number, int(g.queue), p.number, g.cells, first)
	if grant > 0 {
		g.state = granted
	}
	if grant == g.cells {
		return
	}
	all, dropped := g.frames, w.ids[:0]
	g.frames, g.cells = sched.Chain{}, 0
	for all.Frames() > 0 {
		id := w.arena.Pop(&all)
		if n := g.cells + w.frames[id].Cells(); n <= grant {
			g.cells = n
			w.arena.Append(&g.frames, id, w.arena.Length(id))
		} else {
			dropped = append(dropped, id)
		}
	}
	out.count.Drop(drop.QueueFull, g.priority, g.any&cameLossless != 0, uint64(len(dropped)))
	if w.tap != nil {
		for _, id := range dropped {
			w.tap.dropped(out, id, drop.QueueFull)
		}
	}
	w.freeAll(dropped, g.any)
}

// takesAll reports whether a batch's egress queue takes all of it: it always has room for lossless
// frames. For ports of other workers it returns true, because their room is not known here.
func (w *Worker) takesAll(g *batch) bool {
	out := g.out
	return out.worker != w.index || out.shut>>g.queue&1 == 0 &&
		(g.any&cameLossless != 0 || w.accounts.HasRoom(out.number, int(g.queue), g.cells))
}

// queue puts a charged batch into its egress queue: as a whole if the room is still there, the
// queue has no early detection and no frame has several parts, otherwise frame by frame.
func (w *Worker) queue(p *port, g *batch) {
	out := g.out
	if out.worker == w.index && out.early>>g.queue&1 == 0 && g.any&severalParts == 0 &&
		w.accounts.EnqueueAll(out.number, int(g.queue), p.number, g.cells) {
		out.queues.EnqueueChain(int(g.queue), &g.frames)
		return
	}
	for g.frames.Frames() > 0 {
		w.dispatch(out, w.arena.Pop(&g.frames))
	}
}

// admitEach admits batches that may not all fit. They take turns, so that no egress port always
// comes first: the copies of a flooded frame arrive in the same order each time.
func (w *Worker) admitEach(p *port, batches []*batch) {
	for waiting := true; waiting; {
		waiting = false
		for _, g := range batches {
			if g.frames.Frames() == 0 {
				continue
			}
			waiting = true
			id := w.arena.Pop(&g.frames)
			if why := w.accounts.Admit(p.number, int(g.priority), w.frames[id].Cells()); why != cells.Admitted {
				d := w.descriptor(id)
				w.refuse(p, &d, dropOfCells[why], g.priority)
				continue
			}
			w.dispatch(g.out, id)
		}
	}
}

// dispatch sends an admitted frame to its egress port, or to the worker that owns that port.
func (w *Worker) dispatch(out *port, id uint32) {
	if out.worker != w.index {
		w.bound[id] = uint16(out.number)
		w.outboxTo(out.worker).SendFrame(id)
		return
	}
	w.enqueue(out, id)
}
