package snoop

import (
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// Frame is a FIP frame that a port has received.
type Frame struct {
	Port  string
	VID   uint16 // the VLAN it belongs to: that of its tag, or the port's PVID
	Bytes []byte // from the destination address on, with its tag, without FCS; only read
}

// Verdict says what is to be done with a frame.
type Verdict struct {
	Reason Reason   // Passed, or why the frame is refused
	Ports  []string // where to forward it if it has passed, one at least; valid until the next Receive
}

// Receive decides about a frame. What follows from a frame that passes is in Links when Receive
// returns. A caller that puts Links into effect before forwarding the frame has opened the virtual
// link before its accept arrives, and closed it before its end is announced. A refused frame
// changes nothing. Of a port that is not configured, every frame is refused with WrongVLAN.
//
// The first rule that fails names the reason: Ethernet header, port and VLAN of the port, format,
// VN2VN, FCoE VLAN, role of the port, source, destination, and then what is special about the
// operation.
func (s *System) Receive(now int64, f Frame) Verdict {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.advance(now)
	p := s.port(f.Port)
	if p == nil {
		return Verdict{Reason: WrongVLAN}
	}
	p.counts.received++
	s.to = s.to[:0]
	reason := s.judge(now, p, f.VID, f.Bytes)
	if reason != Passed {
		s.refuse(now, p, reason, &f)
		return Verdict{Reason: reason}
	}
	p.counts.forwarded++
	return Verdict{Ports: s.to}
}

// refuse counts a frame that is refused.
func (s *System) refuse(now int64, p *port, reason Reason, f *Frame) {
	p.counts.refused[reason]++
	last := &p.last[reason]
	*last = refusal{at: now, vid: f.VID, frame: append(last.frame[:0], f.Bytes...)}
	s.logRefusal(now, p, reason)
}

// message is a FIP frame whose format is right.
type message struct {
	*fcoe.Packet
	dst, src frame.MAC
	vid      uint16
	port     *port
	instance *Instance // nil: not an FCoE VLAN
}

func (m *message) source() address      { return address{m.vid, m.src} }
func (m *message) destination() address { return address{m.vid, m.dst} }

// judge applies the rules to a frame, in the order that Receive describes.
func (s *System) judge(now int64, p *port, vid uint16, b []byte) Reason {
	var h frame.Header
	if frame.Parse(b, &h) != frame.OK || h.Type != frame.TypeFIP {
		return BadHeader
	}
	if !p.Member(vid) {
		return WrongVLAN
	}
	if problem := fcoe.Parse(b[h.Payload:], &s.packet); problem != fcoe.OK {
		return Reason(problem)
	}
	m := message{&s.packet, h.Dst, h.Src, vid, p, s.instances[vid]}
	discovery := m.Op == fcoe.VLANRequest || m.Op == fcoe.VLANNotification
	switch {
	case m.Op.VN2VN() || m.dst == fcoe.AllVN2VN || m.dst == fcoe.AllP2P:
		return VN2VN
	case m.instance == nil && !discovery:
		return WrongVLAN
	case p.Role == ENode && (m.fromFCF() || m.Service == fcoe.DescELP || m.dst == fcoe.AllENode):
		return RogueFCF
	case m.Service == fcoe.DescELP:
		return Unsupported
	case p.Role == FCF && !m.fromFCF():
		return RogueENode
	case m.fromFCF():
		return s.judgeFCF(now, &m)
	}
	return s.judgeENode(now, &m)
}

// fromFCF reports whether only an FCF sends such a frame.
func (m *message) fromFCF() bool {
	switch m.Op {
	case fcoe.Advertisement, fcoe.LoginReply, fcoe.ClearVirtualLinks, fcoe.VLANNotification:
		return true
	}
	return m.Op == fcoe.Solicitation && m.Flags&fcoe.FromFCF != 0
}

// send sends a frame to another port than its own.
func (s *System) send(m *message, to *port) Reason {
	if to == m.port {
		return NoEgress
	}
	s.to = append(s.to, to.Name)
	return Passed
}

// sendAll sends a frame to all ports of a role in its VLAN, and to the trusted ones.
func (s *System) sendAll(m *message, role Role) Reason {
	for _, p := range s.ports {
		if p != m.port && (p.Role == role || p.Role == Trusted) && p.Member(m.vid) {
			s.to = append(s.to, p.Name)
		}
	}
	if len(s.to) == 0 {
		return NoEgress
	}
	return Passed
}

// sendToFCFs sends a frame to All-FCF-MACs or to one FCF.
func (s *System) sendToFCFs(m *message) Reason {
	if m.dst == fcoe.AllFCF {
		return s.sendAll(m, FCF)
	}
	_, reason := s.sendToFCF(m)
	return reason
}

// sendToFCF sends a frame to the FCF whose address is its destination.
func (s *System) sendToFCF(m *message) (*fcf, Reason) {
	f := s.fcfs[m.destination()]
	switch {
	case m.dst.Group():
		return nil, BadDestination
	case f == nil:
		return nil, UnknownFCF
	}
	return f, s.send(m, f.port)
}

// sendToENodes sends a frame of an FCF to All-ENode-MACs, or to one host. A host that has not
// logged in may be at any port for ENodes: its solicitation has left no trace, as any host can send
// those.
func (s *System) sendToENodes(m *message) Reason {
	switch f, c := s.fcfs[m.destination()], s.claims[m.destination()]; {
	case m.dst == fcoe.AllENode:
	case m.dst.Group() || m.dst == 0:
		return BadDestination
	case f != nil:
		return s.send(m, f.port)
	case c != nil:
		return s.send(m, c.port)
	}
	return s.sendAll(m, ENode)
}

// usable reports whether a host or an FCF may have an address: it is a unicast address, and no
// VN_Port can be granted it as an FPMA. Outside the FCoE VLANs this holds for all of them.
func (s *System) usable(vid uint16, mac frame.MAC) bool {
	for _, i := range s.params.Instances {
		if (s.instances[vid] == nil || i.VLAN == vid) && uint32(mac>>24) == i.fcMap() {
			return false
		}
	}
	return mac != 0 && !mac.Group()
}

// Undelivered says that a frame which Receive has let pass from a port could be forwarded to no
// other one: it counts as refused. why is Congested or NoEgress.
func (s *System) Undelivered(port string, why Reason) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if p := s.port(port); p != nil && p.counts.forwarded > 0 {
		p.counts.forwarded--
		p.counts.refused[why]++
	}
}
