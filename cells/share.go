package cells

// A queue that refuses frames is contested. So long the frames of a port may hold no more of it than its equal part: all that
// the queue can hold, divided by the ports that it refused frames of lately; or one frame, if that is more. What a queue
// sends of a port is what the port holds of it, so equal parts are equal rates.
//
// Lately is in this period or the one before. A period is over when the queue has granted as much as it can hold, or is
// found empty: so ports that send no more, or get what they send, are soon no rivals to others.
//
// With a limit alone the room goes to whoever asks first after a frame has left. Where the lines of senders and receiver
// keep step that is always the same one (S. Floyd, V. Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways",
// Internetworking: Research and Experience 3(3), 1992).

// lump: a burst that does not fit is let in by no less than one in so many of its port's part, so that queues are made of
// frames that came together, and are handled together when they leave.
const lump = 8

// rivalry is about one queue.
type rivalry struct {
	recent  int32  // ports that were refused frames in this period
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

// Grant returns for how many of so many cells, of frames from one port, EnqueueAll is to be asked; the others are refused.
// first is what the first of these frames costs.
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
		m.refuse(at, from)
	}
	return int(granted)
}

// part returns how many cells a port may take that asks for so many: none, if not those of its first frame.
func (m *Manager) part(at, from int, cells, first, room int32) int32 {
	q, held, refused := &m.queues[at], m.held[at*m.ports+from], m.refusedIn[at*m.ports+from]
	rivals := q.recent + q.earlier
	if refused+1 < q.period {
		rivals++
	}
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

// refuse notes that a port was refused frames.
func (m *Manager) refuse(at, from int) {
	q, refused := &m.queues[at], &m.refusedIn[at*m.ports+from]
	switch *refused {
	case q.period:
		return
	case q.period - 1:
		q.earlier--
	}
	q.recent++
	*refused = q.period
}
