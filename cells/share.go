package cells

// A queue that refuses frames is contested. While it is, the frames of a port may hold no more of
// it than the port's equal part: the queue's capacity divided by the number of ports that it has
// refused frames of lately, or one frame if that is more. The rate at which a queue sends a port's
// frames is proportional to what the port holds of it, so equal parts mean equal rates.
//
// A pool is contested in the same way if lossy groups with a static share want more of it than it
// has: each gets an equal part of what they hold and what is free. Dynamic shares need no such
// rule, and lossless groups have PFC.
//
// "Lately" means in this period or the one before. A period ends when as many cells were granted as
// fit, or when nothing is held. So a port that stops sending, or gets what it sends, soon stops
// being a rival.
//
// With a limit alone, the room goes to the first port that asks after a frame has left. If the
// lines of senders and receiver keep step, that is always the same port (S. Floyd, V. Jacobson, "On
// Traffic Phase Effects in Packet-Switched Gateways", Internetworking: Research and Experience
// 3(3), 1992).

// lump: a burst that does not fit is admitted with at least 1/lump of its port's part. So queues
// consist of frames that came together and can be handled together when they leave.
const lump = 8

// rivalry is the contest for one queue, where the rivals are ports, or for one pool, where they are
// groups.
type rivalry struct {
	recent  int32  // rivals that were refused frames in this period
	earlier int32  // rivals that were last refused frames in the period before
	period  uint64 // a number that is never reused
	granted int32  // cells granted in this period
}

// firstPeriod leaves room below it for a previous period that is not 0, in which no rival was
// refused.
const firstPeriod = 2

// contested reports whether there are rivals.
func (r *rivalry) contested() bool { return r.recent+r.earlier > 0 }

// renew starts a new period.
func (r *rivalry) renew() {
	r.recent, r.earlier, r.granted = 0, r.recent, 0
	r.period++
}

// Grant returns how many of the cells that frames from one port ask for may be charged with
// EnqueueAll; frames beyond that are refused. first is the cost of the first of these frames.
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

// part returns how many cells a port that asks for cells may take: 0 if not even its first frame's.
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

// admitRival is Admit for a lossy group with a static share. The frame is within the group's limit,
// but its pool has too few free cells or is contested.
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

// rivals returns the number of rivals, including one that was last refused frames in period
// refused.
func (r *rivalry) rivals(refused uint64) int32 {
	n := r.recent + r.earlier
	if refused+1 < r.period {
		n++
	}
	return n
}

// refuse records that a rival is refused frames; *refused is the period in which it last was.
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
