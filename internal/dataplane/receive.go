package dataplane

import (
	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/budget"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/tap"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/sched"
)

// take receives a burst from a port and forwards its frames. If they make a group congested, take
// sends the port's peer a pause before any other work that can wait, so the reaction time does not
// depend on how many ports follow.
func (w *Worker) take(p *port, now int64) int {
	if !p.reads {
		return w.takeStalled(p, now)
	}
	if w.budget.Receive <= 0 { // flood copies have spent it: wait for the next iteration
		w.leaves(p)
		return 0
	}
	left := w.budget.Receive
	n := w.receive(p, w.burst[:p.burst], now)
	w.budget.Receive -= n
	cost := left - w.budget.Receive // with copies of flooded frames
	if p.unread = false; n+p.slack >= p.burst {
		w.leaves(p)
	}
	p.burst, p.stuck = w.quantum, p.stuck && n == 0
	if cost > w.quantum { // flooding: next time, only as many frames as cost one burst
		p.burst = max(p.most, n*w.quantum/cost)
	}
	if n > 0 {
		w.stopPeer(p, now)
		if w.finish(p) {
			w.stopPeer(p, now)
		}
	} else if p.burst < burstSize {
		p.widen()
	}
	return n
}

// widen makes the next burst long enough for any frame if the first one that waits did not fit the
// last two. Linux makes up to 44 parts of a frame that is beyond every MTU (generic mode, with
// segments that a device was to cut).
//
//go:noinline
func (p *port) widen() {
	waiting := p.driver.Waiting() > 0
	if p.stuck && waiting { // it has not just arrived
		p.burst = burstSize
	}
	p.stuck = waiting
}

// stopPeer sends the port's peer a pause at once if another class has become congested.
func (w *Worker) stopPeer(p *port, now int64) {
	if w.accounts.Congested(p.number)&^(p.flow.stopped()|p.discarded) != 0 {
		w.sendPauses(p, now)
		p.driver.Flush()
	}
}

// leaves records whether this pass leaves frames unread at a port with lossless classes.
//
//go:noinline
func (w *Worker) leaves(p *port) {
	p.unread = p.flow.lossless != 0 && p.driver.Waiting() > 0
	w.unread = w.unread || p.unread
}

// holdUnread stops all lossless priorities of the peers of ports where frames still wait after the
// iteration's budget is spent. It no longer stops those of other ports. Waiting frames are charged
// to no group, so no group can become congested by them. The peer sends no more than these until it
// has stopped, and the headroom has room for that.
func (w *Worker) holdUnread(now int64) {
	w.behind = false
	for _, p := range w.own {
		if p.behind = p.unread && p.driver != nil && p.flow.on() && p.up; p.behind {
			w.behind = true
			p.count.Behind++
			w.sendPauses(p, now)
			p.driver.Flush()
		}
	}
}

// receive receives a burst from a port, decides where its frames go and charges what it can charge
// as a whole; finish must follow. It returns the number of descriptors. Each step handles all
// frames before the next step begins, so its loop is short and the processor reads several headers
// in parallel instead of waiting for one after the other. Steps are go:noinline where a
// profile-guided build would otherwise merge them into one function that is too large to inline the
// calls in it.
func (w *Worker) receive(p *port, burst []pmd.Desc, now int64) int {
	n := p.driver.Receive(burst)
	if n == 0 {
		return 0
	}
	p.count.RXBursts++
	w.process(p, burst[:n], now)
	return n
}

// process is receive for a burst that has left the driver.
func (w *Worker) process(p *port, burst []pmd.Desc, now int64) {
	w.forward(p, w.arrived[:w.parse(p, w.linked(p, burst), now)], now)
	w.charge(p)
}

// finish ends a burst that receive began: it queues the frames or drops them. It reports whether it
// still had to charge some.
func (w *Worker) finish(p *port) (scarce bool) {
	scarce = w.queueBurst(p)
	if w.tap != nil {
		w.tap.settle()
	}
	return scarce
}

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

// refuse drops a frame that was not admitted.
func (w *Worker) refuse(p *port, d *pmd.Desc, why drop.Reason, class uint8) {
	p.count.Drop(why, class, p.flow.lossless>>class&1 != 0, 1)
	if w.tap != nil {
		w.tap.refused(p, d, why, class)
	}
	w.free(d)
}

// batch is the frames of a burst that have one class and one egress queue. They are admitted
// together.
type batch struct {
	frames   sched.Chain
	cells    int
	out      *port
	queue    uint8
	priority uint8
	granted  bool   // the queue takes all of it, as far as is known
	charged  bool   // all of it, to its priority group
	any      uint16 // OR of the frames' low bits: Several, Lossless
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
		g.granted = w.takesAll(g)
	}
	w.chargeGranted(p, w.batches)
}

// chargeGranted charges the batches that their queues have room for.
func (w *Worker) chargeGranted(p *port, batches []*batch) {
	var demand [Priorities]int // cells, by class
	for _, g := range batches {
		if g.charged = g.granted; g.charged {
			demand[g.priority%Priorities] += g.cells
		}
	}
	refused := uint8(0)
	for class, n := range &demand { // by pointer: reading a copy would wait for the copy to be written
		if n > 0 && !w.accounts.AdmitAll(p.number, class, n) && !w.accounts.AdmitPastShare(p.number, class, n) {
			refused |= 1 << class
		}
	}
	if refused == 0 {
		return
	}
	for _, g := range batches {
		g.charged = g.charged && refused>>(g.priority%Priorities)&1 == 0
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
		if !g.granted {
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
		if g.charged {
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
	if g.granted = grant > 0; grant == g.cells {
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

// enqueue puts an admitted frame, from this worker or another, into its egress queue.
func (w *Worker) enqueue(out *port, id uint32) {
	f := w.frames[id]
	if out.shut>>(f.Queue()%Priorities)&1 != 0 {
		w.dropAdmitted(out, id, out.whyShut())
		return
	}
	if out.early>>(f.Queue()%Priorities)&1 != 0 {
		w.enqueueEarly(out, id)
		return
	}
	if why := w.chargeQueue(out, f); why != cells.Admitted {
		w.dropAdmitted(out, id, dropOfCells[why])
		return
	}
	out.later += w.later(id, f)
	out.queues.Enqueue(int(f.Queue()), id, onWire(f.Length()))
}

// chargeQueue charges a frame to its egress queue, if that has room. Whatever the queue's limit, it
// takes frames that came in as lossless: their class may be lossy here, or have become lossless in
// a generation that this worker does not run yet.
func (w *Worker) chargeQueue(out *port, f bufferWord) cells.Reason {
	if f&cameLossless != 0 {
		w.accounts.EnqueueLossless(out.number, int(f.Queue()), f.In(), f.Cells())
		return cells.Admitted
	}
	return w.accounts.Enqueue(out.number, int(f.Queue()), f.In(), f.Cells())
}

// enqueueEarly is enqueue for a queue with early detection, which depends on the depth before the
// frame.
func (w *Worker) enqueueEarly(out *port, id uint32) {
	f := w.frames[id]
	early := w.accounts.Early(out.number, int(f.Queue()))
	if why := w.chargeQueue(out, f); why != cells.Admitted {
		w.dropAdmitted(out, id, dropOfCells[why])
		return
	}
	if early && !w.warn(out, id) {
		w.accounts.Dequeue(out.number, int(f.Queue()), f.In(), f.Cells())
		w.dropAdmitted(out, id, drop.Early)
		return
	}
	out.later += w.later(id, f)
	out.queues.Enqueue(int(f.Queue()), id, onWire(f.Length()))
}

// onWire returns the length of a frame on the wire: devices pad frames to 60 bytes. Bytes in flight
// and the shares and rates of queues count this length.
func onWire(length int) int { return max(length, pfc.FrameLength) }

// warn marks a frame with congestion experienced. It returns false if the frame is to be dropped
// instead, because it can't be marked, and is lossy both here and where it came in.
func (w *Worker) warn(out *port, id uint32) bool {
	f, d := w.frames[id], w.descriptor(id)
	if out.ECN>>f.Priority()&1 != 0 && frame.MarkCE(w.bytes(&d)) {
		out.count.Marked[f.Priority()]++
		return true
	}
	return f&cameLossless != 0 || out.Cells.Groups[f.Priority()].Lossless
}

// dropAdmitted drops an admitted frame at its egress port.
func (w *Worker) dropAdmitted(out *port, id uint32, why drop.Reason) {
	f := w.frames[id]
	out.count.Drop(why, f.Priority(), f&cameLossless != 0, 1)
	if why == drop.Storm {
		out.count.StormQueued[f.Priority()]++
	}
	if w.tap != nil {
		w.tap.dropped(out, id, why)
	}
	w.release(id, f)
}

// gates computes which priorities a port does not receive, and which of its queues take no frames.
func (p *port) gates() {
	refused := p.discarded
	p.shut = p.discarded
	if !p.up {
		p.shut = allPriorities
	}
	switch p.drain {
	case HoldPeers:
		refused |= ^p.flow.lossless
	case Refuse:
		refused = allPriorities
	}
	for class := range p.longest {
		p.longest[class] = p.longestIn[class]
		if refused>>class&1 != 0 {
			p.longest[class] = -1
		}
	}
}

const allPriorities = 0xff

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

// whyShut returns why a queue is shut.
func (p *port) whyShut() drop.Reason {
	if !p.up {
		return drop.PortDown
	}
	return drop.Storm
}

// Translations of the reasons of the engines.
var (
	dropOfProblem = drop.Of(frame.Runt, frame.Problems)
	dropOfBridge  = drop.Of(bridge.ReservedAddress, bridge.Reasons)
	dropOfCells   = drop.Of(cells.IngressFull, cells.QueueFull+1)
)
