package dataplane

import (
	"fmt"

	"sluice/internal/frame"
	"sluice/ring"
)

// A handoff leads from one worker to another. What travels on it:
type handoff struct {
	frames *ring.Ring[uint32]  // frames of the sender for a port of the receiver, as buffer ids
	home   *ring.Ring[uint32]  // buffers of the receiver that the sender is done with
	learnt *ring.Ring[station] // addresses that the sender has seen on its ports
}

// station is where a worker has seen an address.
type station struct {
	mac  frame.MAC
	vid  uint16
	port uint16
}

// stationRing bounds the addresses on their way to another worker. The bridge announces a known
// station again in every quarter of the ageing time, so one that finds no room costs flooding for
// so long, not for ever.
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

// outbox is a worker's end of the handoff to another; it collects a burst, so that each ring's
// index is published once.
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

// pushAll publishes ids and returns the empty slice to collect the next ones in.
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

// outboxTo returns the outbox to a worker. There are as many as other workers: a handful.
func (w *Worker) outboxTo(worker int) *outbox {
	i := worker
	if worker > w.index {
		i-- // a worker has no outbox to itself
	}
	return w.out[i]
}

// inbox is a worker's end of the handoff from another.
type inbox struct {
	handoff
	from *Worker
}

// takeIn takes in what another worker has sent: this worker's buffers, frames for its ports,
// stations. It takes a burst, and more as long as the budget lasts.
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

// known returns how many of the next burst of frames on a handoff come from and are for ports that
// this worker knows. The other may have changed over to a generation with new ports before this
// one: a frame of those waits, and all behind it. Generations are compared after the ring was read,
// so that none of a later one is among the frames.
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

// join puts frames that have crossed into their queues: those for a queue that came from one port
// together. Where the limit of lossy queues depends on what is free, the order of the queues in the
// burst decides which has room, not that of the frames.
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

// joinBatch is join for frames for a queue that came from one port.
func (w *Worker) joinBatch(g *batch) {
	if w.takesAll(g) {
		w.queue(w.ports[w.frames[g.frames.First()].in()], g)
		return
	}
	for g.frames.Frames() > 0 {
		w.enqueue(g.out, w.arena.Pop(&g.frames))
	}
}

// comeHome takes back buffers of this worker. Their charges end by runs of frames from one priority
// group.
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

// learn takes in where another worker has seen stations. What it saw on a link that has gone since
// is past.
func (w *Worker) learn(l handoff, now int64) {
	var stations [8]station
	for _, s := range stations[:l.learnt.Pop(stations[:])] {
		if w.ports[s.port].up {
			w.bridge.Learn(now, s.mac, s.vid, int(s.port))
		}
	}
}

// ignoreAnnouncements drops what has not been learned yet of other workers: it may be from before a
// flush. What is not is announced once more after that (Flush.Announce).
func (w *Worker) ignoreAnnouncements() {
	for _, in := range w.in {
		a, b := in.learnt.Peek(stationRing)
		in.learnt.Release(len(a) + len(b))
	}
}

// announce tells the other workers where an address was seen.
func (w *Worker) announce(s station) {
	one := [1]station{s}
	for _, o := range w.out {
		o.handoff.learnt.Push(one[:])
	}
}
