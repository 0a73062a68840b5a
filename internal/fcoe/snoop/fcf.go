package snoop

import (
	"slices"

	"sluice/internal/fcoe"
)

// judgeFCF decides about a frame that only FCFs send.
func (s *System) judgeFCF(now int64, m *message) Reason {
	f := s.fcfs[m.source()]
	repeats := m.Op != fcoe.LoginReply // MAC is the source address again
	switch {
	case !s.usable(m.vid, m.src) || repeats && m.MAC != m.src:
		return BadSource
	case f != nil && f.port != m.port:
		return FCFConflict
	}
	switch m.Op {
	case fcoe.Solicitation:
		return s.sendToFCFs(m)
	case fcoe.VLANNotification:
		return s.sendToENodes(m)
	case fcoe.Advertisement:
		return s.advertise(now, m, f)
	}
	if f == nil {
		return UnknownFCF
	}
	if m.Op == fcoe.ClearVirtualLinks {
		return s.clearLinks(now, m, f)
	}
	return s.reply(now, m, f)
}

// advertise takes the advertisement of an FCF, known or not. One that is not to All-ENode-MACs
// makes an FCF known, so that the ENode that has solicited it can log in at once, but nothing else:
// it neither refreshes a known FCF nor changes it.
func (s *System) advertise(now int64, m *message, f *fcf) Reason {
	switch {
	case len(m.instance.FCFs) > 0 && !slices.Contains(m.instance.FCFs, m.src):
		return FCFNotAllowed
	case m.Fabric.FCMap != m.instance.fcMap():
		return FCMapMismatch
	case f == nil && len(s.fcfs) >= s.params.MaxFCFs:
		return FCFLimit
	}
	reason := s.sendToENodes(m)
	if m.dst == fcoe.AllFCF {
		s.to = s.to[:0]
		reason = s.sendAll(m, FCF)
	}
	switch {
	case reason != Passed:
		return reason
	case f == nil:
		s.meet(now, m)
	case m.dst == fcoe.AllENode:
		s.refresh(now, m, f)
	}
	return Passed
}

// meet adds a new FCF. A host that has logged in with its address, which was not known to be an
// FCF's, loses it.
func (s *System) meet(now int64, m *message) {
	if l := s.links[m.source()]; l != nil {
		s.endLink(now, l, TakenByFCF)
	}
	s.endWhere(now, TakenByFCF, func(p *pair) bool { return p.address == m.source() })
	f := &fcf{address: m.source(), port: m.port, since: now}
	s.fcfs[f.address] = f
	s.logFCF(now, f, "FCF found", "switch", m.Name.String(), "fabric", m.Fabric.Name.String())
	s.refresh(now, m, f)
}

// refresh notes what an FCF says of itself. The keep-alives that it wants from now on count from
// now on.
func (s *System) refresh(now int64, m *message, f *fcf) {
	changed := periodOf(f.period) != periodOf(m.Period) || f.period.NoKeepAlive != m.Period.NoKeepAlive
	if f.period.Millis != m.Period.Millis {
		s.logPeriod(now, f, m.Period)
	}
	f.name, f.fabric, f.priority, f.period = m.Name, m.Fabric, m.Priority, m.Period
	f.available, f.refreshed, f.restored = m.Flags&fcoe.Available != 0, now, false
	s.due(s.deadlineOfFCF(f))
	s.updates++
	if !changed {
		return
	}
	for _, e := range s.enodes { // they expire with the FCF or later
		if e.fcf != f {
			continue
		}
		e.refreshed = now
		for _, l := range e.links {
			l.refreshed = now
		}
	}
}

// clearLinks takes clear virtual links: of one ENode or all of them, the links that it names or all
// of them. ENodes ignore it if the switch name is not their FCF's, and a link that is not named
// with all of its three numbers (Linux fcoe_ctlr.c), so it ends nothing here either: their virtual
// link would be dead without their knowing it.
func (s *System) clearLinks(now int64, m *message, f *fcf) Reason {
	if m.Name != f.name {
		return BadName
	}
	if reason := s.sendToENodes(m); reason != Passed {
		return reason
	}
	meant := func(l *link) bool {
		return l != nil && l.enode.fcf == f &&
			(m.dst == fcoe.AllENode || m.dst == l.enode.mac || m.dst == l.mac)
	}
	if len(m.VxPorts) == 0 {
		for _, l := range matching(s.links, compareLinks, meant) {
			s.endLink(now, l, Cleared)
		}
	}
	for _, vx := range m.VxPorts {
		if l := s.links[address{m.vid, vx.MAC}]; meant(l) && l.id == vx.ID && l.wwpn == vx.Name {
			s.endLink(now, l, Cleared)
		}
	}
	return Passed
}

// reply takes the reply to a FLOGI, FDISC or LOGO.
func (s *System) reply(now int64, m *message, f *fcf) Reason {
	if m.dst.Group() {
		return BadDestination
	}
	l := s.logins[exchange{pair{m.destination(), f.mac}, m.ELS.Header.OXID}]
	if l == nil || l.service != m.Service {
		return NoRequest
	}
	if reason := s.send(m, l.port); reason != Passed {
		return reason
	}
	switch {
	case m.ELS.Command == fcoe.Reject:
		if l.service != fcoe.DescLOGO {
			l.port.counts.rejected++
		}
	case l.service == fcoe.DescLOGO:
		if s.links[l.link.address] == l.link {
			s.endLink(now, l.link, LoggedOut)
		}
	default:
		if reason := s.grant(now, m, l); reason != Passed {
			return reason
		}
	}
	s.endLogin(l)
	return Passed
}

// grant opens the virtual link of a login that is accepted.
//
// A FLOGI of an ENode that is logged in to the FCF logs out all its VN_Ports there; FDISC and LOGO
// leave the others alone (FC-LS-2 clause 6.4.5: the effects of FLOGI, FDISC and LOGO).
func (s *System) grant(now int64, m *message, l *login) Reason {
	fpma, spma := m.Flags&fcoe.FP != 0, m.Flags&fcoe.SP != 0 && l.wanted != 0
	if !fpma && !(spma && m.instance.SPMA) {
		return NotFPMA
	}
	if s.taken(l.address, l.port) {
		return ENodeConflict // another port's login was accepted meanwhile
	}
	e, old := s.enodes[l.pair], s.links[address{m.vid, m.MAC}]
	one := &link{address: address{m.vid, m.MAC}, enode: e, id: m.ELS.Header.D, wwpn: l.wwpn, wwnn: l.wwnn,
		fdisc: l.service == fcoe.DescFDISC, server: !fpma, since: now, refreshed: now}
	if e == nil {
		one.enode = &enode{pair: l.pair, fcf: l.fcf, port: l.port, since: now, refreshed: now}
	}
	if reason := s.judgeAddress(one); reason != Passed {
		return reason
	}
	switch {
	case !fpma && one.mac != l.wanted:
		return SPMAConflict
	case old != nil && old.enode.fcf != l.fcf:
		return FPMAConflict
	case e == nil && one.fdisc:
		return NoFLOGI
	}
	ending := s.sameID(one)
	if e != nil && !one.fdisc {
		ending = append(ending, slices.DeleteFunc(slices.Clone(e.links), func(l *link) bool {
			return slices.Contains(ending, l)
		})...)
	}
	if reason := s.room(l.port, e, ending); reason != Passed {
		return reason
	}
	s.connect(now, one)
	return Passed
}

// judgeAddress decides whether a virtual link may have its address and FC_ID.
func (s *System) judgeAddress(l *link) Reason {
	switch i := s.instances[l.vid]; {
	case l.id < firstID || l.id > lastID:
		return BadFCID
	case !l.server && l.mac != fcoe.FPMA(i.fcMap(), l.id):
		return FPMAMismatch
	case l.server && (!i.SPMA || !s.usable(l.vid, l.mac) || s.isFCF(l.vid, l.mac) || s.taken(l.address, l.enode.port)):
		return SPMAConflict
	}
	return Passed
}

// The FC_IDs that a fabric gives to N_Ports: a domain of 01 to EF (FC-FS-3 clause 11).
const (
	firstID fcoe.FCID = 0x010000
	lastID  fcoe.FCID = 0xefffff
)

// connect adds a virtual link, and its ENode if that is new. A virtual link of the FCF that had the
// address or, with an SPMA, the FC_ID before, ends: the FCF has given it again.
func (s *System) connect(now int64, l *link) {
	e := l.enode
	if s.enodes[e.pair] != nil && !l.fdisc {
		s.endENode(now, e, LoggedInAgain)
		e.since, e.refreshed, e.restored = now, now, false
	}
	if s.enodes[e.pair] == nil {
		s.addENode(e)
	}
	e.links = append(e.links, l) // the ENode stays when its last other link ends
	for _, old := range s.sameID(l) {
		s.endLink(now, old, Reassigned)
	}
	s.addLink(l)
	e.port.counts.accepted++
	s.logOpened(now, l)
}

// sameID returns the virtual links that have the address or FC_ID of a new one.
func (s *System) sameID(l *link) (same []*link) {
	if old := s.links[l.address]; old != nil {
		same = append(same, old)
	}
	if !s.instances[l.vid].SPMA { // an FPMA is the FC_ID
		return same
	}
	return append(same, matching(s.links, compareLinks, func(old *link) bool {
		return old.address != l.address && old.id == l.id && old.enode.fcf == l.enode.fcf
	})...)
}

// fcMap returns the FC-MAP of an instance.
func (i *Instance) fcMap() uint32 {
	if i.FCMap == 0 {
		return fcoe.DefaultFCMap
	}
	return i.FCMap
}
