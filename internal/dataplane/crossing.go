package dataplane

// outboxTo returns the outbox to another worker.
func (w *Worker) outboxTo(worker int) *outbox {
	i := worker
	if worker > w.index {
		i-- // a worker has no outbox to itself
	}
	return w.out[i]
}

// inbox is the receiving end of a handoff.
type inbox struct {
	handoff
	from *Worker
	// While this worker changes to a generation that the other one runs, too: how many of its
	// frames on the ring are from before.
	alike   *Generation
	earlier int
}

// takeIn takes in what another worker has sent: this worker's buffers, frames for its ports, and
// addresses. It takes a burst, and more while the budget lasts.
func (w *Worker) takeIn(in *inbox, now int64) int {
	work := 0
	for more := w.budget.Home > 0; more; {
		n := in.Home.Pop(w.ids[:])
		work += n
		w.budget.Home -= w.comeHome(w.ids[:n])
		more = n > 0 && w.budget.Home > 0
	}
	for more := w.budget.Cross > 0; more; {
		n := in.Frames.Pop(w.ids[:w.known(in)])
		w.join(w.ids[:n])
		in.earlier = max(0, in.earlier-n)
		work += n
		w.budget.Cross -= n
		more = n > 0 && w.budget.Cross > 0
	}
	w.learn(in.Learnt, now)
	return work
}

// known returns how many of the next burst of frames on a handoff are from and for ports that this
// worker knows. The other worker may already run a generation with new ports: such a frame waits,
// with all frames behind it. known reads the ring before it compares generations, so no frame of a
// later generation can be among those it has read.
func (w *Worker) known(in *inbox) int {
	ids, _ := in.Frames.Peek(burstSize)
	if in.from.generation.Load() == w.generation.Load() {
		return len(ids)
	}
	for i, id := range ids {
		if max(int(w.bound[id]), w.frames[id].In()) >= len(w.ports) {
			return i
		}
	}
	return len(ids)
}

// join queues frames from another worker, in batches of one queue and one ingress port. Where the
// limit of lossy queues depends on the free cells, the order of the queues in the burst decides
// which of them has room, not the order of the frames.
func (w *Worker) join(ids []uint32) {
	for _, id := range ids {
		f := w.frames[id]
		out := w.ports[w.bound[id]]
		g := &out.batches[f.Queue()]
		switch {
		case g.frames.Frames() == 0:
			g.cells, g.any = 0, 0
			w.batches = append(w.batches, g)
		case w.frames[g.frames.First()].Kind() != f.Kind():
			w.joinBatch(g)
			g.cells, g.any = 0, 0
		}
		g.cells += f.Cells()
		g.any |= uint16(f)
		w.arena.Append(&g.frames, id, onWire(f.Length()))
	}
	for _, g := range w.batches {
		w.joinBatch(g)
	}
	w.batches = w.batches[:0]
}

// joinBatch queues such a batch.
func (w *Worker) joinBatch(g *batch) {
	if w.takesAll(g) {
		w.queue(w.ports[w.frames[g.frames.First()].In()], g)
		return
	}
	for g.frames.Frames() > 0 {
		w.enqueue(g.out, w.arena.Pop(&g.frames))
	}
}

// comeHome takes back frames in buffers of this worker, and returns the number of the buffers. It
// ends their charges once per run of frames of one priority group.
func (w *Worker) comeHome(ids []uint32) (buffers int) {
	like, cells, any := frameKind(0), 0, uint16(0)
	for _, id := range ids {
		f := w.frames[id]
		if f.Kind() != like {
			w.discharge(like, cells)
			like, cells = f.Kind(), 0
		}
		cells += f.Cells()
		any |= uint16(f)
	}
	w.discharge(like, cells)
	return w.freeAll(ids, any)
}

// discharge ends the charge of frames of a kind to their priority group.
func (w *Worker) discharge(k frameKind, cells int) {
	if cells > 0 {
		w.accounts.Release(k.In(), int(k.Priority()), cells)
	}
}
