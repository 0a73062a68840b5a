package dataplane

import (
	"fmt"

	"sluice/internal/frame"
	"sluice/ring"
)

// A handoff leads from one worker to another. It carries:
type handoff struct {
	frames *ring.Ring[uint32]  // buffer ids of the sender's frames for a port of the receiver
	home   *ring.Ring[uint32]  // ids of the receiver's buffers that the sender is done with
	learnt *ring.Ring[station] // addresses that the sender has learned on its ports
}

// station is an address and the port where a worker has learned it.
type station struct {
	mac  frame.MAC
	vid  uint16
	port uint16
}

// stationRing bounds the addresses on their way to another worker. The bridge announces a known
// address again in every quarter of the ageing time, so an address that finds the ring full costs
// flooding for that long, not for ever.
const stationRing = 4096

func newHandoff(buffers int) (l handoff, err error) {
	size := 1
	for size < buffers {
		size *= 2
	}
	if l.frames, err = ring.New[uint32](size); err != nil {
		return l, err
	}
	if l.home, err = ring.New[uint32](size); err != nil {
		return l, err
	}
	l.learnt, err = ring.New[station](stationRing)
	return l, err
}

// outbox is the sending end of a handoff. It collects a burst, so that each ring's index is
// published only once per burst.
type outbox struct {
	to      int
	handoff handoff
	frames  []uint32
	home    []uint32
}

func newOutbox(to int, l handoff) *outbox {
	return &outbox{to: to, handoff: l, frames: make([]uint32, 0, burstSize), home: make([]uint32, 0, burstSize)}
}

func (o *outbox) sendFrame(id uint32) {
	if o.frames = append(o.frames, id); len(o.frames) == burstSize {
		o.frames = pushAll(o.handoff.frames, o.frames)
	}
}

func (o *outbox) sendHome(id uint32) {
	if o.home = append(o.home, id); len(o.home) == burstSize {
		o.home = pushAll(o.handoff.home, o.home)
	}
}

func (o *outbox) flush() {
	o.frames = pushAll(o.handoff.frames, o.frames)
	o.home = pushAll(o.handoff.home, o.home)
}

// pushAll publishes ids and returns the empty slice for the next ones.
func pushAll(r *ring.Ring[uint32], ids []uint32) []uint32 {
	if len(ids) == 0 {
		return ids
	}
	if n := r.Push(ids); n != len(ids) {
		panic(fmt.Sprintf("dataplane: a ring between workers holds more buffers than its worker has (%d of %d taken)",
			n, len(ids)))
	}
	return ids[:0]
}

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
}

// takeIn takes in what another worker has sent: this worker's buffers, frames for its ports, and
// addresses. It takes a burst, and more while the budget lasts.
func (w *Worker) takeIn(in *inbox, now int64) int {
	work := 0
	for more := w.budget.home > 0; more; {
		n := in.home.Pop(w.ids[:])
		w.comeHome(w.ids[:n])
		work += n
		w.budget.home -= n
		more = n > 0 && w.budget.home > 0
	}
	for more := w.budget.cross > 0; more; {
		n := in.frames.Pop(w.ids[:w.known(in)])
		w.join(w.ids[:n])
		work += n
		w.budget.cross -= n
		more = n > 0 && w.budget.cross > 0
	}
	w.learn(in.handoff, now)
	return work
}

// known returns how many of the next burst of frames on a handoff are from and for ports that this
// worker knows. The other worker may already run a generation with new ports: a frame from or for
// one of those waits, with all frames behind it. known reads the ring before it compares
// generations, so no frame of a later generation can be among those it has read.
func (w *Worker) known(in *inbox) int {
	ids, _ := in.frames.Peek(burstSize)
	if in.from.generation.Load() == w.generation.Load() {
		return len(ids)
	}
	for i, id := range ids {
		if max(int(w.bound[id]), w.frames[id].in()) >= len(w.ports) {
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
		g := &out.batches[f.queue()]
		switch {
		case g.frames.Frames() == 0:
			g.cells = 0
			w.batches = append(w.batches, g)
		case w.frames[g.frames.First()].kind() != f.kind():
			w.joinBatch(g)
			g.cells = 0
		}
		g.cells += f.cells()
		w.arena.Append(&g.frames, id, onWire(f.length()))
	}
	for _, g := range w.batches {
		w.joinBatch(g)
	}
	w.batches = w.batches[:0]
}

// joinBatch queues such a batch.
func (w *Worker) joinBatch(g *batch) {
	if w.takesAll(g) {
		w.queue(w.ports[w.frames[g.frames.First()].in()], g)
		return
	}
	for g.frames.Frames() > 0 {
		w.enqueue(g.out, w.arena.Pop(&g.frames))
	}
}

// comeHome takes back buffers of this worker. It ends their charges once per run of frames of one
// priority group.
func (w *Worker) comeHome(ids []uint32) {
	like, cells := kind(0), 0
	for _, id := range ids {
		f := w.frames[id]
		if f.kind() != like {
			w.discharge(like, cells)
			like, cells = f.kind(), 0
		}
		cells += f.cells()
	}
	w.discharge(like, cells)
	w.pool.Put(ids)
}

// discharge ends the charge of frames of a kind to their priority group.
func (w *Worker) discharge(k kind, cells int) {
	if cells > 0 {
		w.accounts.Release(k.in(), int(k.priority()), cells)
	}
}

// learn takes in addresses that another worker has announced. It ignores those of links that have
// gone down since.
func (w *Worker) learn(l handoff, now int64) {
	var stations [8]station
	for _, s := range stations[:l.learnt.Pop(stations[:])] {
		if w.ports[s.port].up {
			w.bridge.Learn(now, s.mac, s.vid, int(s.port))
		}
	}
}

// ignoreAnnouncements drops the announcements of other workers that are not learned yet, because
// they may be from before a flush. Those from after it are announced again (Flush.Announce).
func (w *Worker) ignoreAnnouncements() {
	for _, in := range w.in {
		a, b := in.learnt.Peek(stationRing)
		in.learnt.Release(len(a) + len(b))
	}
}

// announce tells the other workers at which port an address was learned.
func (w *Worker) announce(s station) {
	one := [1]station{s}
	for _, o := range w.out {
		o.handoff.learnt.Push(one[:])
	}
}
