package cells

// A queue is contested from when it has refused a frame until more than three quarters of it are free. So long the frames of
// a port may hold no more of it than its equal part: all that the queue can hold, divided by the ports that have asked for
// some since; or one frame, if that is more. What a queue sends of a port is what the port holds of it, so equal parts are
// equal rates.
//
// With a limit alone the room goes to whoever asks first after a frame has left. Where the lines of senders and receiver
// keep step that is always the same one (S. Floyd, V. Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways",
// Internetworking: Research and Experience 3(3), 1992).

// lump: a burst that does not fit is let in by no less than one in so many of its port's part, so that queues are made of
// frames that came together, and are handled together when they leave.
const lump = 8

// Grant returns for how many of so many cells, of frames from one port, EnqueueAll is to be asked; the others are refused.
// first is what the first of these frames costs.
func (m *Manager) Grant(port, queue, from, cells, first int) int {
	at := port*Priorities + queue
	q, room := &m.queues[at], m.queues[at].room()
	if q.rivals > 0 && 3*q.used < room {
		m.endContest(at)
	}
	if q.rivals == 0 && (int32(cells) <= room || cells == first && q.fits(int32(cells))) {
		return cells
	}
	m.compete(at, from)
	granted := min(cells, int(m.part(at, from, int32(first), room)))
	if granted < cells && granted*lump < int(q.used+room)/int(q.rivals) && q.rivals > 1 {
		return 0
	}
	return granted
}

// compete counts a port among those that share a contested queue.
func (m *Manager) compete(at, from int) {
	if rival := &m.rivals[at*m.ports+from]; !*rival {
		*rival = true
		m.queues[at].rivals++
	}
}

func (m *Manager) endContest(at int) {
	m.queues[at].rivals = 0
	clear(m.rivals[at*m.ports : (at+1)*m.ports])
}

// part returns how many cells of a contested queue a port may take now: none, if not those of its first frame.
func (m *Manager) part(at, from int, first, room int32) int32 {
	q, held := &m.queues[at], m.held[at*m.ports+from]
	equal := (q.used + room) / int32(q.rivals)
	if q.fits(first) && (held == 0 || q.rivals == 1 || held+first <= equal) {
		return max(first, min(room, equal-held))
	}
	return 0
}
