package dataplane

import (
	"slices"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/frame"
	"sluice/pmd"
)

const (
	// puntSlots is how many punted frames of a worker and kind may wait for the control plane, and
	// fipSlots how many FIP frames. The control plane may be late: strangers can fill half of
	// fipSlots, and the rest holds what sessions live by.
	puntSlots = 256
	fipSlots  = 1024
	// PuntLongest is the longest frame that can be punted, in bytes: FIP, with a tag.
	PuntLongest = 2176
)

// subscribe makes the worker's channels, each when one of its ports gets the first subscription to
// its kind. Channels then stay. All ports of a switch with FCoE VLANs subscribe to FIP.
func (w *Worker) subscribe(p *port) (err error) {
	subscriptions := p.Punt
	if p.screen.FCoE() {
		subscriptions = append(slices.Clip(subscriptions), punt.SubscribeFIP(p.FIPTrusted))
	}
	if p.subscriber, err = punt.NewSubscriber(subscriptions); err != nil {
		return err
	}
	for _, s := range subscriptions {
		if w.punted[s.Kind].Load() != nil {
			continue
		}
		slots := puntSlots
		if s.Kind == punt.FIP {
			slots = fipSlots
		}
		c, err := punt.NewChannel(slots, PuntLongest)
		if err != nil {
			return err
		}
		w.punted[s.Kind].Store(c)
	}
	return nil
}

// Punted calls do for all frames of a kind that wait for the control plane, and returns their
// number. A frame's Bytes are valid until do returns, and its Port may be gone. One goroutine may
// call Punted.
func (s *Switch) Punted(kind punt.Kind, do func(punt.Frame)) (n int) {
	for _, w := range s.Workers {
		if c := w.punted[kind].Load(); c != nil {
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
	now, b, channel := w.gap.Last, w.bytes(d), w.punted[kind].Load()
	if d.Options != 0 {
		b = w.whole[:w.parts.Gather(w.whole, d)]
	}
	var h frame.Header
	frame.Parse(b, &h)
	r := punt.Frame{
		At: now, Port: p.id, Kind: kind, VID: h.VID, VLAN: w.bridge.VLAN(p.number, h.VID), PCP: h.PCP,
		Class: f.Class, Tagged: h.Tagged,
	}
	class, spare := p.subscriber.ClassOf(h.Src), 0
	if kind == punt.FIP {
		class, spare = w.fipClass(p, b, &h)
	}
	switch {
	case int(d.Len) > channel.Longest():
		w.refuse(p, d, drop.Oversize, f.Class)
		return
	case !p.subscriber.Take(kind, class, now):
		w.refuse(p, d, drop.PuntRate, f.Class)
		return
	case !channel.Put(r, b, spare):
		w.refuse(p, d, drop.PuntFull, f.Class)
		return
	}
	p.count.Punted[kind]++
	if w.tap != nil {
		w.tap.punted(p, d, f.Class)
	}
	w.free(d)
}
