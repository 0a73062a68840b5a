package dataplane

import (
	"sluice/internal/dataplane/bridge"
	"sluice/ring"
)

// Each worker learns the addresses behind its own ports and announces them to the others: when they
// are new or have moved, and again in every quarter of the ageing time. An address that one worker
// knows and another does not is flooded by the other to strangers, so three things keep them alike:
//
//   - An announcement belongs to an epoch of its link. A worker that has not seen the link come up
//     yet takes it later; one that has seen the link go down since ignores it.
//   - If announcements find a ring half full, the worker goes through its whole table and repeats
//     all addresses of its ports, for which the other half is reserved. So ports whose addresses
//     move all the time can't crowd out others. The latest sighting of an address counts.
//   - A worker that floods a frame to an unknown address asks the others.

const (
	// learnBurst is how many announcements of one worker another takes in a pass.
	learnBurst = 64
	// repeatSlots is how many slots of its table a worker repeats in an iteration.
	repeatSlots = 256
)

// learn takes in what another worker has announced and asked.
func (w *Worker) learn(learnt *ring.Ring[announcement], now int64) {
	a, b := learnt.Peek(learnBurst)
	taken := 0
	for _, stations := range [...][]announcement{a, b} {
		for i := range stations {
			s := &stations[i]
			if int(s.Port) >= len(w.ports) || int32(s.Epoch-w.ports[s.Port].epoch) > 0 {
				learnt.Release(taken) // from a plan that this worker does not run yet
				return
			}
			taken++
			switch p := w.ports[s.Port]; {
			case s.Asked:
				w.answer(s, now)
			case s.Epoch == p.epoch && p.up:
				w.bridge.Learn(s.Seen, s.MAC, s.VID, int(s.Port))
			}
		}
	}
	learnt.Release(taken)
}

// ignoreAnnouncements drops the announcements of other workers that are not learned yet, because
// they may be from before a flush. Those from after it are announced again (Flush.Announce).
func (w *Worker) ignoreAnnouncements() {
	for _, in := range w.in {
		a, b := in.Learnt.Peek(announcementRing)
		in.Learnt.Release(len(a) + len(b))
	}
}

// announce tells the other workers at which of this worker's ports an address was seen.
func (w *Worker) announce(s announcement) {
	s.Epoch = w.ports[s.Port].epoch
	for _, o := range w.out {
		if o.Learnt.Free() <= announcementRing/2 {
			w.rounds = 2 // the rest of this one, and a whole one
			continue
		}
		w.tell(o, s)
	}
}

// tell sends an announcement or a question to another worker.
func (w *Worker) tell(o *outbox, s announcement) {
	one := [1]announcement{s}
	o.Learnt.Push(one[:])
}

// repeat announces the addresses of this worker's ports in the next slots of its table. At the same
// time, an announcement of another worker counts more than a repetition.
func (w *Worker) repeat(now int64) {
	for _, o := range w.out {
		if o.Learnt.Free() < repeatSlots {
			return
		}
	}
	w.told, w.cursor = w.bridge.Dump(now, w.cursor, repeatSlots, w.told[:0])
	if w.cursor == 0 {
		w.rounds--
	}
	for i := range w.told {
		e := &w.told[i]
		p := w.ports[e.Port]
		if e.Static || p.worker != w.index {
			continue
		}
		s := announcement{MAC: e.MAC, VID: e.VID, Port: uint16(e.Port), Epoch: p.epoch,
			Seen: now - e.Age - bridge.Tick}
		for _, o := range w.out {
			w.tell(o, s)
		}
	}
}

// ask asks the other workers where the destination of a frame is.
func (w *Worker) ask(p *port, f *bridge.Frame) {
	s := announcement{MAC: f.Header.Dst, VID: f.Header.VID, Port: uint16(p.number), Epoch: p.epoch, Asked: true}
	for _, o := range w.out {
		if o.Learnt.Free() > announcementRing/2 {
			w.tell(o, s)
		}
	}
}

// answer announces an address that another worker has asked for, if it is behind a port of this
// worker.
func (w *Worker) answer(s *announcement, now int64) {
	vid := w.bridge.VLAN(int(s.Port), s.VID)
	e, known := w.bridge.Find(now, s.MAC, vid)
	if known && !e.Static && w.ports[e.Port].worker == w.index {
		w.announce(announcement{MAC: s.MAC, VID: vid, Port: uint16(e.Port), Seen: now - e.Age})
	}
}
