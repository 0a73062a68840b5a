package dataplane

import (
	"sluice/internal/bridge"
	"sluice/internal/drop"
	"sluice/internal/frame"
	"sluice/internal/punt"
	"sluice/pmd"
)

const (
	// puntSlots is how many punted frames of a worker may wait for the control plane.
	puntSlots = 256
	// puntLongest is the longest frame that can be punted, in bytes: FIP, with a tag.
	puntLongest = 2176
)

// subscribe makes the worker's channel when one of its ports gets the first subscription. The
// channel then stays.
func (w *Worker) subscribe(p *port) (err error) {
	if p.subscriber, err = punt.NewSubscriber(p.Punt); err != nil || len(p.Punt) == 0 || w.punted.Load() != nil {
		return err
	}
	c, err := punt.NewChannel(puntSlots, puntLongest)
	w.punted.Store(c)
	return err
}

// Punted calls do for all frames that wait for the control plane, and returns their number. A
// frame's Bytes are valid until do returns. Port is an id (Names), perhaps of a port that is gone.
// One goroutine may call Punted.
func (s *Switch) Punted(do func(punt.Frame)) (n int) {
	for _, w := range s.Workers {
		if c := w.punted.Load(); c != nil {
			n += c.Each(do)
		}
	}
	return n
}

// reject drops a frame that the bridge sends nowhere, unless the control plane has subscribed to
// it.
func (w *Worker) reject(p *port, f *bridge.Frame, d *pmd.Desc) {
	if f.Reason == bridge.ReservedAddress {
		if kind, is := p.subscriber.Match(f.Header.Dst, f.Header.Type); is {
			w.punt(p, f, d, kind)
			return
		}
	}
	w.refuse(p, d, dropOfBridge[f.Reason], f.Class)
}

// punt copies a frame for the control plane, and frees its buffer. The frame may be a follower of
// f, with another priority, so its own header counts.
func (w *Worker) punt(p *port, f *bridge.Frame, d *pmd.Desc, kind punt.Kind) {
	now, b, channel := w.gap.Last, w.memory.Frame(d.Addr, d.Len), w.punted.Load()
	var h frame.Header
	frame.Parse(b, &h)
	r := punt.Frame{
		At: now, Port: int32(p.id), Kind: kind, VID: h.VID, PCP: h.PCP, Class: f.Class, Tagged: h.Tagged,
	}
	switch {
	case len(b) > channel.Longest():
		w.refuse(p, d, drop.Oversize, f.Class)
		return
	case !p.subscriber.Take(kind, f.Header.Src, now):
		w.refuse(p, d, drop.PuntRate, f.Class)
		return
	case !channel.Put(r, b):
		w.refuse(p, d, drop.PuntFull, f.Class)
		return
	}
	p.count.Punted[kind]++
	if w.tap != nil {
		w.tap.punted(p, d, f.Class)
	}
	w.pool.PutOne(w.buffer(d))
}
