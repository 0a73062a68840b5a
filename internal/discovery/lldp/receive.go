package lldp

import (
	"bytes"
	"errors"
)

// Receive takes an Ethernet frame that has arrived. The error is that of Refused, an Error. Receive
// does not keep the frame. It allocates only for a neighbour that needs more memory than any in its
// place before.
func (a *Agent) Receive(now int64, frame []byte) (Event, error) {
	a.advance(now)
	if !a.link || !a.params.Status.receives() {
		return Ignored, nil
	}
	source, data, err := Unwrap(frame)
	if err != nil {
		a.countError(err)
		return Refused, err
	}
	a.stats.FramesIn++
	u := &a.scratch
	if err := u.Decode(data, a.params.Recognized); err != nil {
		a.stats.FramesDiscarded++
		a.stats.FramesInErrors++
		a.countError(err)
		return Refused, err
	}
	a.countTLVs(u)
	return a.update(source, u)
}

func (a *Agent) countError(err error) {
	if e, is := errors.AsType[Error](err); is {
		a.stats.Errors[e]++
	}
}

func (a *Agent) countTLVs(u *LLDPDU) {
	var discarded uint64
	for e, n := range u.Errors {
		a.stats.Errors[e] += uint64(n)
		discarded += uint64(n)
	}
	a.stats.TLVsDiscarded += discarded
	if discarded > 0 {
		a.stats.FramesInErrors++
	}
	a.stats.TLVsUnrecognized += uint64(u.Unrecognized)
}

// update changes the neighbours after an LLDPDU.
func (a *Agent) update(source [6]byte, u *LLDPDU) (Event, error) {
	i := 0
	for i < len(a.neighbours) && !bytes.Equal(a.neighbours[i].id(), u.id()) {
		i++
	}
	known := i < len(a.neighbours)
	switch {
	case u.TTL == 0 && known:
		a.remove(i)
		return Left, nil
	case u.TTL == 0:
		return Ignored, nil
	case known:
		n := a.neighbours[i]
		if n.MAC == source && bytes.Equal(n.Raw, u.Raw) {
			n.received(a.now)
			return Refreshed, nil
		}
		a.keep(n, source, u)
		return Changed, nil
	case len(a.neighbours) == a.params.MaxNeighbours && !a.makeRoom(u):
		a.tooMany = max(a.tooMany, a.now+int64(u.TTL)*second)
		a.stats.FramesDiscarded++
		a.stats.Drops++
		a.stats.Errors[ErrNeighbours]++
		return Refused, ErrNeighbours
	}
	if len(a.free) == 0 {
		a.free = append(a.free, &Neighbour{})
	}
	last := len(a.free) - 1
	n := a.free[last]
	a.free, a.neighbours = a.free[:last], append(a.neighbours, n)
	n.Since = a.now
	a.keep(n, source, u)
	a.stats.Inserts++
	a.hurry()
	return New, nil
}

// makeRoom forgets the latest neighbour that sends nothing that the caller decodes, if the LLDPDU
// of a new one has something.
func (a *Agent) makeRoom(u *LLDPDU) bool {
	if u.Recognized == 0 {
		return false
	}
	for i := len(a.neighbours) - 1; i >= 0; i-- {
		if a.neighbours[i].Recognized == 0 {
			a.remove(i)
			a.stats.Drops++
			return true
		}
	}
	return false
}

// keep stores an LLDPDU, which has other memory.
func (a *Agent) keep(n *Neighbour, source [6]byte, u *LLDPDU) {
	n.buffer = append(n.buffer[:0], u.Raw...)
	if err := n.Decode(n.buffer, a.params.Recognized); err != nil {
		panic("lldp: an LLDPDU changed while it was decoded")
	}
	n.MAC, n.Changed = source, a.now
	n.received(a.now)
}

func (n *Neighbour) received(now int64) {
	n.Received, n.Expires = now, now+int64(n.TTL)*second
}

// id returns the TLVs of chassis ID and port ID, which identify a neighbour.
func (u *LLDPDU) id() []byte { return u.Raw[:u.idLength] }
