package dataplane

import (
	"fmt"
	"slices"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/pmd"
)

// setAside takes in a frame that stops at the port (bridge.Screen): it consumes MAC control frames,
// hands FIP to the control plane, and drops the others.
func (w *Worker) setAside(p *port, f *bridge.Frame, d *pmd.Desc, now int64) {
	h := &f.Header
	if h.Type == frame.TypeMACControl {
		w.consume(p, d, now)
		return
	}
	f.Class = p.classifier.Class(w.bytes(d), h) % Priorities
	p.count.RX[f.Class]++
	switch {
	case int(d.Len) > p.longest[f.Class]:
		w.refuse(p, d, p.whyRefused(int(d.Len), f.Class), f.Class)
	case h.Dst.Reserved():
		w.refuse(p, d, drop.ReservedAddress, f.Class)
	case !w.bridge.Takes(p.number, h.VID):
		w.refuse(p, d, drop.VLANIngress, f.Class)
	case h.Type == frame.TypeFIP:
		w.punt(p, f, d, punt.FIP)
	case h.Type == frame.TypeFCoE:
		w.refuse(p, d, drop.FCoEVLAN, f.Class)
	default:
		w.refuse(p, d, drop.SecondTag, f.Class)
	}
}

// fipClass returns the class of the FIP frame b, with the header h, and how many places it must
// leave free in the channel.
func (w *Worker) fipClass(p *port, b []byte, h *frame.Header) (c punt.Class, spare int) {
	switch {
	case fcoe.Discovers(b[h.Payload:], h.Dst):
		c = punt.Discovery
	case w.bridge.Expects(p.number, h):
		return punt.Known, 0
	}
	if p.FIPTrusted {
		return c, 0
	}
	return c, fipSlots / 2
}

// SetVirtualLinks replaces the virtual links, whose ports are ids. FCoE frames that a
// worker looks up after SetVirtualLinks has returned pass by the new links, without another plan. A
// link with a port that is gone lets nothing pass until the port is back. Links belong to ports,
// not to their numbers: they stay right when a Generation is published. Only the goroutine that
// publishes may call it.
func (s *Switch) SetVirtualLinks(links []bridge.VirtualLink) error {
	links = slices.Clone(links)
	if err := s.link(links, s.generation); err != nil {
		return err
	}
	s.linked = links
	return nil
}

// link gives the workers the links between ports of a generation.
func (s *Switch) link(links []bridge.VirtualLink, g *Generation) error {
	var here []bridge.VirtualLink
	for _, l := range links {
		l.ENodePort, l.FCFPort = g.number(bridge.PortID(l.ENodePort)), g.number(bridge.PortID(l.FCFPort))
		if l.ENodePort != NoPort && l.FCFPort != NoPort {
			here = append(here, l)
		}
	}
	set, err := bridge.NewVirtualLinks(here)
	if err == nil {
		s.links.Store(set)
	}
	return err
}

// number returns the number of the port with an id, or NoPort.
func (g *Generation) number(id bridge.PortID) int {
	if number, is := g.numbers[id]; is {
		return number
	}
	return NoPort
}

// Forward sends a frame that the control plane has received at the port with an id, in the form
// that the port's VLANs and classes ask for, before all frames in the port's queues. It waits while
// the peer pauses the priority of its tag, and keeps no frame of Inject waiting. Forward fails with
// punt.ErrFull if 64 of its frames wait there: try again. With another error the frame can't be
// sent: there is no such port, it is not a member of the frame's VLAN, or the frame is too long for
// it. Only the goroutine that publishes may call it.
func (s *Switch) Forward(port bridge.PortID, f *punt.Frame) error {
	number := s.generation.number(port)
	if number == NoPort {
		return fmt.Errorf("dataplane: no port has the id %d now", port)
	}
	b := s.generation.parts[0].bridge // what is asked of it never changes
	if !b.Member(number, f.VLAN) {
		return fmt.Errorf("dataplane: port %s is not a member of VLAN %d", s.generation.params.Ports[number].Name,
			f.VLAN)
	}
	egress := b.Egress(number)
	if egress == nil {
		return s.pausing.Inject(port, f.Bytes)
	}
	room := append(make([]byte, frame.TagLength, frame.TagLength+len(f.Bytes)), f.Bytes...)
	return s.pausing.Inject(port, room[egress.Rewrite(room, f.VLAN, f.Class):])
}
