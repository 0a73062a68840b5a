package cells

// A queue that refuses frames is contested. So long the frames of a port may hold no more of it
// than its equal part: all that the queue can hold, divided by the ports that it refused frames of
// lately; or one frame, if that is more. What a queue sends of a port is what the port holds of it,
// so equal parts are equal rates.
//
// A pool that has less than the lossy groups with a static share want of it is contested likewise:
// their equal part is of what they hold and what is free. A dynamic share needs no such rule, and a
// lossless group has PFC for it.
//
// Lately is in this period or the one before. A period is over when as much was granted as can be
// held, or nothing is held: so ports that send no more, or get what they send, are soon no rivals
// to others.
//
// With a limit alone the room goes to whoever asks first after a frame has left. Where the lines of
// senders and receiver keep step that is always the same one (S. Floyd, V. Jacobson, "On Traffic
// Phase Effects in Packet-Switched Gateways", Internetworking: Research and Experience 3(3), 1992).

// lump: a burst that does not fit is let in by no less than one in so many of its port's part, so
// that queues are made of frames that came together, and are handled together when they leave.
const lump = 8

// rivalry is about one queue, whose rivals are ports, or one pool, whose rivals are groups.
type rivalry struct {
	recent  int32  // rivals that were refused frames in this period
	earlier int32  // others, that were in the one before
	period  uint64 // a number, which never comes again
	granted int32  // cells, in this period
}

// firstPeriod has a period before it, and that is not 0, in which no port was refused anything.
const firstPeriod = 2

// contested tells whether there are rivals.
func (r *rivalry) contested() bool { return r.recent+r.earlier > 0 }

// renew begins a period.
func (r *rivalry) renew() {
	r.recent, r.earlier, r.granted = 0, r.recent, 0
	r.period++
}

// Grant returns for how many of so many cells, of frames from one port, EnqueueAll is to be asked;
// the others are refused. first is what the first of these frames costs.
func (m *Manager) Grant(port, queue, from, cells, first int) int {
	at := port*Priorities + queue
	q := &m.queues[at]
	if !q.contested() && cells == first && q.fits(int32(cells)) {
		return cells
	}
	room := q.room()
	if q.contested() && (q.granted >= q.used+room || q.used == 0) {
		q.renew()
	}
	if !q.contested() && int32(cells) <= room {
		return cells
	}
	granted := min(int32(cells), m.part(at, from, int32(cells), int32(first), room))
	if q.granted += granted; granted < int32(cells) {
		q.refuse(&m.refusedIn[at*m.ports+from])
	}
	return int(granted)
}

// part returns how many cells a port may take that asks for so many: none, if not those of its
// first frame.
func (m *Manager) part(at, from int, cells, first, room int32) int32 {
	q, held, refused := &m.queues[at], m.held[at*m.ports+from], m.refusedIn[at*m.ports+from]
	rivals := q.rivals(refused)
	equal := (q.used + room) / rivals
	if !q.fits(first) || held > 0 && rivals > 1 && held+first > equal {
		return 0
	}
	granted := max(first, min(room, equal-held))
	if granted < cells && held > 0 && rivals > 1 && granted*lump < equal {
		return 0
	}
	return granted
}

// admitRival is Admit for a lossy group with a static share that leaves room for the frame: it asks
// for so many cells of a pool that has not so many, or is contested.
func (m *Manager) admitRival(at int, used, shared int32) Reason {
	g, refused := &m.groups[at], &m.marks[at].refusedIn
	p := g.pool
	if !p.contested() || p.granted >= p.whole || p.free >= p.whole {
		p.renew()
		p.whole = p.held + p.free
	}
	rivals, held := p.rivals(*refused), max(g.used-g.reserved, 0)
	if shared > p.free || rivals > 1 && held > 0 && held+shared > p.whole/rivals {
		p.refuse(refused)
		return IngressFull
	}
	p.granted += shared
	g.take(used, shared)
	return Admitted
}

// rivals returns how many there are with one that was last refused frames in a period.
func (r *rivalry) rivals(refused uint64) int32 {
	n := r.recent + r.earlier
	if refused+1 < r.period {
		n++
	}
	return n
}

// refuse notes that a rival is refused frames, which last was in a period.
func (r *rivalry) refuse(refused *uint64) {
	switch *refused {
	case r.period:
		return
	case r.period - 1:
		r.earlier--
	}
	r.recent++
	*refused = r.period
}
