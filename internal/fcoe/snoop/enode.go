package snoop

import (
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// judgeENode decides about a frame that only ENodes send.
func (s *System) judgeENode(now int64, m *message) Reason {
	if m.Op == fcoe.KeepAlive && m.Has(fcoe.DescVxPort) {
		return s.keepLink(now, m)
	}
	if reason := s.judgeHost(m); reason != Passed {
		return reason
	}
	switch m.Op {
	case fcoe.VLANRequest:
		if m.dst != fcoe.AllFCF {
			return BadDestination
		}
		return s.sendToFCFs(m)
	case fcoe.Solicitation:
		return s.sendToFCFs(m)
	case fcoe.KeepAlive:
		return s.keepENode(now, m)
	}
	return s.request(now, m)
}

// judgeHost decides whether a host may have the source address of a frame.
func (s *System) judgeHost(m *message) Reason {
	repeats := m.Op != fcoe.LoginRequest // MAC is the source address again
	switch {
	case !s.usable(m.vid, m.src) || repeats && m.MAC != m.src:
		return BadSource
	case s.isFCF(m.vid, m.src):
		return FCFAddress
	case s.taken(m.source(), m.port):
		return ENodeConflict
	}
	return Passed
}

// isFCF reports whether an address is one of an FCF, known or allowed. Outside the FCoE VLANs it
// may be one in any of them.
func (s *System) isFCF(vid uint16, mac frame.MAC) bool {
	for _, i := range s.params.Instances {
		if (s.instances[vid] == nil || i.VLAN == vid) &&
			(slices.Contains(i.FCFs, mac) || s.fcfs[address{i.VLAN, mac}] != nil) {
			return true
		}
	}
	return false
}

// keepENode takes a keep-alive of an ENode.
func (s *System) keepENode(now int64, m *message) Reason {
	f, reason := s.sendToFCF(m)
	if reason != Passed {
		return reason
	}
	e := s.enodes[pair{m.source(), f.mac}]
	if e == nil {
		return NoLink
	}
	e.refreshed, e.restored = now, false
	s.updates++
	return Passed
}

// keepLink takes a keep-alive of a VN_Port. Its WWPN is not compared: a difference would end a
// virtual link that the FCF keeps.
func (s *System) keepLink(now int64, m *message) Reason {
	f, reason := s.sendToFCF(m)
	if reason != Passed {
		return reason
	}
	l, vx := s.links[m.source()], &m.VxPorts[0]
	if l == nil || l.enode.port != m.port || l.enode.fcf != f || l.enode.mac != m.MAC ||
		l.mac != vx.MAC || l.id != vx.ID {
		return NoLink
	}
	l.refreshed, l.restored = now, false
	s.updates++
	return Passed
}

// request takes a FLOGI, FDISC or LOGO.
func (s *System) request(now int64, m *message) Reason {
	f, reason := s.sendToFCF(m)
	if reason != Passed {
		return reason
	}
	l := &login{exchange: exchange{pair{m.source(), f.mac}, m.ELS.Header.OXID}, service: m.Service, fcf: f,
		port: m.port, wwpn: m.ELS.Port, wwnn: m.ELS.Node, since: now}
	switch m.Service {
	case fcoe.DescLOGO:
		reason = s.judgeLogout(m, l)
	default:
		reason = s.judgeLogin(m, l)
	}
	if reason != Passed {
		return reason
	}
	old := s.logins[l.exchange]
	if old == nil && len(s.logins) >= s.params.MaxPending ||
		(old == nil || old.port != l.port) && l.port.pending >= l.port.MaxPending {
		return PendingLimit
	}
	s.addLogin(l)
	return Passed
}

// judgeLogin decides about a FLOGI or FDISC. What it asks for counts when it is accepted, so that
// requests take no room from others; but one that could not be accepted is refused here, before the
// FCF grants anything.
func (s *System) judgeLogin(m *message, l *login) Reason {
	if m.ELS.Header.S != 0 || m.ELS.Header.D != fcoe.FabricPort {
		return BadLogin
	}
	if m.Flags&fcoe.SP != 0 {
		l.wanted = m.MAC
	}
	if !s.admits(l.port, l.mac, l.wwpn, l.wanted) {
		return ENodeNotAllowed
	}
	e := s.enodes[l.pair]
	if m.Service == fcoe.DescFDISC && e == nil {
		return NoFLOGI
	}
	if e != nil && m.Service == fcoe.DescFLOGI {
		return s.room(l.port, e, e.links)
	}
	return s.room(l.port, e, nil)
}

// room decides whether there is room for one more virtual link, which is the first one if ENode e
// is nil, when others end for it.
func (s *System) room(p *port, e *enode, ending []*link) Reason {
	enodes, links := len(s.enodes), len(s.links)
	enodesHere, linksHere := p.enodes, p.links
	stays := func(l *link) bool { return !slices.Contains(ending, l) }
	for _, l := range ending {
		here := 0
		if l.enode.port == p {
			here = 1
		}
		links, linksHere = links-1, linksHere-here
		if other := l.enode; other != e && l == other.links[0] && !slices.ContainsFunc(other.links, stays) {
			enodes, enodesHere = enodes-1, enodesHere-here
		}
	}
	switch {
	case e == nil && (enodes >= s.params.MaxENodes || enodesHere >= p.MaxENodes):
		return ENodeLimit
	case links >= s.params.MaxLinks || linksHere >= p.MaxLinks:
		return SessionLimit
	}
	return Passed
}

// judgeLogout decides about a LOGO. Its payload names the FC_ID a second time: otherwise an FCF
// could log out another host.
func (s *System) judgeLogout(m *message, l *login) Reason {
	if m.ELS.Header.D != fcoe.FabricPort {
		return BadLogin
	}
	l.link = s.links[address{m.vid, m.MAC}]
	if l.link == nil || l.link.enode.pair != l.pair || m.ELS.Header.S != l.link.id || m.ELS.LoggedOut != l.link.id {
		return NoLink
	}
	return Passed
}
