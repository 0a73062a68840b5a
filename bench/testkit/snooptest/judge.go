package snooptest

import (
	"slices"

	"sluice/internal/frame"
)

// Judgement is what is to be done with a frame. Reasons are the rules that it breaks, by the names
// in the counters, as far as they can be told when the ones before them are broken; none: the frame
// goes to Ports.
type Judgement struct {
	Reasons []string
	Ports   []string
}

// arrival is a frame under judgement.
type arrival struct {
	*Model
	message
	now    int64
	in     *Port
	vid    uint16
	i      *Instance // nil: no FCoE VLAN
	broken []string
	to     []string // egress
	apply  func()   // what the frame changes
}

func (a *arrival) breaks(when bool, reasons ...string) bool {
	if when {
		a.broken = append(a.broken, reasons...)
	}
	return when
}

// Receive judges the frame b, untagged, that has arrived at a port in a VLAN.
func (m *Model) Receive(now int64, port string, vid uint16, b []byte) Judgement {
	m.Advance(now)
	a := &arrival{Model: m, now: now, in: m.port(port), vid: vid, i: m.instance(vid), apply: func() {}}
	if !a.in.member(vid) {
		return Judgement{Reasons: []string{"wrong_vlan"}}
	}
	var bad []string
	a.message, bad = read(b)
	for _, class := range []func(){
		func() {
			if a.broken = bad; len(bad) > 0 {
				a.vn2vn()
			}
		},
		a.vn2vn,
		a.vlan,
		a.role,
		func() { a.addresses(); a.operation() },
	} {
		if class(); len(a.broken) > 0 {
			return Judgement{Reasons: a.broken}
		}
	}
	a.apply()
	slices.Sort(a.to)
	return Judgement{Ports: a.to}
}

func (a *arrival) vn2vn() {
	// What has to be in them is none of the model's business.
	a.breaks(a.betweenENodes(), "vn2vn", "missing", "unexpected", "duplicate", "bad_descriptor", "bad_operation")
	a.breaks(a.dst == AllVN2VN || a.dst == AllP2P, "vn2vn")
}

func (a *arrival) discovery() bool { return a.op == VLANRequest || a.op == VLANNotification }

func (a *arrival) vlan() {
	a.breaks(a.i == nil && !a.discovery(), "wrong_vlan")
}

// fromFCF returns whether only an FCF sends such a frame.
func (a *arrival) fromFCF() bool {
	switch a.op {
	case Solicitation:
		return a.flags&FlagF != 0
	case Request, KeepAlive, VLANRequest:
		return false
	}
	return true
}

func (a *arrival) role() {
	e, hasELS := a.els()
	a.breaks(hasELS && e.kind == elp, "unsupported")
	switch a.in.Role {
	case ENodePort:
		a.breaks(a.fromFCF() || a.dst == AllENodes || hasELS && e.kind == elp, "rogue_fcf")
	case FCFPort:
		a.breaks(!a.fromFCF(), "rogue_enode")
	}
}

func (a *arrival) inFCMap(mac frame.MAC) bool { return a.i != nil && uint32(mac>>24) == a.i.FCMap }

func station48(mac frame.MAC) bool { return mac != 0 && !mac.Group() }

// addresses checks source and destination.
func (a *arrival) addresses() {
	a.breaks(!station48(a.src), "bad_source")
	own := !(a.op == Request || a.op == Reply || a.op == KeepAlive && a.has(11))
	a.breaks(own && a.mac() != a.src, "bad_source")
	switch {
	case a.fromFCF():
		a.breaks(a.inFCMap(a.src), "bad_source")
		a.breaks(a.op == Advertisement && !a.i.allows(a.src), "fcf_not_allowed")
		f := a.fcfs[station{a.vid, a.src}]
		a.breaks(f != nil && f.port != a.in.Name, "fcf_conflict", "unknown_fcf")
	case a.op == KeepAlive && a.has(11): // of a VN_Port: its operation checks it
	default:
		a.breaks(a.inFCMap(a.src), "bad_source")
		a.breaks(a.ofFCF(a.src), "fcf_address")
		a.breaks(a.boundElsewhere(a.src, a.in.Name), "enode_conflict")
	}
	a.destination()
}

// ofFCF returns whether mac is that of an FCF, or kept for one.
func (a *arrival) ofFCF(mac frame.MAC) bool {
	return a.fcfs[station{a.vid, mac}] != nil || a.i != nil && slices.Contains(a.i.FCFs, mac)
}

// boundElsewhere returns whether mac is an ENode's behind another port than this one.
func (a *arrival) boundElsewhere(mac frame.MAC, port string) bool {
	for p, e := range a.enodes {
		if p.vid == a.vid && p.enode == mac && e.port != port {
			return true
		}
	}
	l := a.links[station{a.vid, mac}] // SPMA
	return l != nil && l.port != port
}

// destination checks the destination and finds the ports, but for replies.
func (a *arrival) destination() {
	f := a.fcfs[station{a.vid, a.dst}]
	group := map[Op][]frame.MAC{
		VLANRequest: {AllFCFs}, VLANNotification: {AllENodes},
		Solicitation: {AllFCFs}, Advertisement: {AllENodes, AllFCFs}, ClearLinks: {AllENodes},
	}[a.op]
	switch {
	case a.dst.Group():
		a.breaks(!slices.Contains(group, a.dst), "bad_destination")
		if a.dst == AllFCFs {
			a.to = a.all(FCFPort)
		} else {
			a.to = a.all(ENodePort)
		}
	case a.op == VLANRequest || a.dst == 0:
		a.breaks(true, "bad_destination", "unknown_fcf")
	case a.op == Reply: // goes where the request came from
	case a.op == Solicitation || !a.fromFCF():
		if !a.breaks(f == nil, "unknown_fcf") {
			a.to = []string{f.port}
		}
	case f != nil:
		a.to = []string{f.port}
	default:
		a.to = a.toENode(a.dst)
	}
	a.to = slices.DeleteFunc(a.to, func(p string) bool { return p == a.in.Name })
	a.breaks(len(a.to) == 0 && a.op != Reply, "no_egress")
}

// all returns the ports of a role and the trusted ones in the VLAN.
func (a *arrival) all(r Role) (to []string) {
	for _, p := range a.c.Ports {
		if (p.Role == r || p.Role == TrustedPort) && p.member(a.vid) {
			to = append(to, p.Name)
		}
	}
	return to
}

func (a *arrival) toENode(mac frame.MAC) []string {
	for p, e := range a.enodes {
		if p.vid == a.vid && p.enode == mac {
			return []string{e.port}
		}
	}
	if l := a.links[station{a.vid, mac}]; l != nil {
		return []string{l.port}
	}
	return a.all(ENodePort)
}

func (a *arrival) operation() {
	switch a.op {
	case Advertisement:
		a.advertisement()
	case Request:
		a.request()
	case Reply:
		a.reply()
	case KeepAlive:
		a.keepAlive()
	case ClearLinks:
		a.clear()
	}
}

func (a *arrival) advertisement() {
	v := a.all1(5)
	fcMap, name := uint32(number(v[3:6])), a.name()
	a.breaks(fcMap != a.i.FCMap, "fc_map_mismatch")
	at := station{a.vid, a.src}
	old := a.fcfs[at]
	a.breaks(old == nil && len(a.fcfs) >= a.c.MaxFCFs, "fcf_limit")
	period := min(int64(number(a.all1(12)[2:])), mostPeriod)
	if period < leastPeriod {
		period = linuxPeriod
	}
	period *= ms
	noKeep := a.all1(12)[1]&1 != 0
	a.apply = func() {
		if old == nil {
			a.takenByFCF()
			old = &fcf{port: a.in.Name, period: period, noKeep: noKeep}
			a.fcfs[at] = old
		} else if a.dst != AllENodes {
			return // only those to all count
		}
		old.heard = a.now
		if old.period != period || old.noKeep != noKeep {
			a.restartAges(old, period, noKeep)
		}
		old.name = name
	}
}

func (a *arrival) all1(kind int) []byte { return a.message.all[kind][0] }

// takenByFCF ends what an ENode has whose address an FCF turns out to have.
func (a *arrival) takenByFCF() {
	for p := range a.enodes {
		if p.vid == a.vid && p.enode == a.src {
			a.endENode(p, "taken_by_fcf")
		}
	}
	for x := range a.logins {
		if x.vid == a.vid && x.enode == a.src {
			delete(a.logins, x)
		}
	}
	if at := (station{a.vid, a.src}); a.links[at] != nil {
		a.endLink(at, "taken_by_fcf")
	}
}

// restartAges takes over another period or D bit of an FCF: nobody could know of it before.
func (a *arrival) restartAges(f *fcf, period int64, noKeep bool) {
	f.period, f.noKeep = period, noKeep
	for p, e := range a.enodes {
		if p.vid == a.vid && p.fcf == a.src {
			e.heard, e.period = a.now, period
			if noKeep {
				e.period = 0
			}
		}
	}
	for _, l := range a.links {
		if l.vid == a.vid && l.fcf == a.src {
			l.heard = a.now
		}
	}
}

func (a *arrival) pair() pair { return pair{a.vid, a.src, a.dst} }

func (a *arrival) request() {
	e, _ := a.els()
	x := exchange{a.pair(), e.oxid}
	l := &login{port: a.in.Name, kind: e.kind, wwpn: e.wwpn, wwnn: e.wwnn, since: a.now}
	a.breaks(e.did != FabricPort, "bad_login")
	if e.kind == LOGO {
		l.link = a.links[station{a.vid, a.mac()}]
		k := l.link
		a.breaks(k == nil || k.pair != x.pair || k.port != a.in.Name || k.id != e.sid || e.id != e.sid, "no_session")
	} else {
		a.breaks(e.sid != 0, "bad_login")
		known := a.enodes[x.pair]
		a.breaks(e.kind == FDISC && known == nil, "no_flogi")
		a.breaks(known == nil && !a.roomForENode(), "enode_limit")
		a.breaks(!a.roomForLink(e.kind, x.pair), "session_limit")
		if a.flags&FlagSP != 0 {
			l.asked = a.mac()
		}
	}
	old := a.logins[x]
	a.breaks(old == nil && len(a.logins) >= a.c.MaxPending, "pending_limit")
	a.breaks((old == nil || old.port != l.port) && a.loginsAt(l.port) >= a.in.MaxPending, "pending_limit")
	a.apply = func() { a.logins[x] = l }
}

func (a *arrival) roomForENode() bool {
	return len(a.enodes) < a.c.MaxENodes && a.enodesAt(a.in.Name) < a.in.MaxENodes
}

// roomForLink returns whether one more virtual link is allowed; a FLOGI ends those of before.
func (a *arrival) roomForLink(kind int, p pair) bool {
	ends := 0
	if kind == FLOGI {
		ends = len(a.linksOf(p))
	}
	return len(a.links)-ends < a.c.MaxLinks && a.linksAt(a.in.Name)-ends < a.in.MaxLinks
}

func (a *arrival) reply() {
	if a.breaks(a.fcfs[station{a.vid, a.src}] == nil, "unknown_fcf") {
		return
	}
	e, _ := a.els()
	p := pair{a.vid, a.dst, a.src}
	x := exchange{p, e.oxid}
	l := a.logins[x]
	if a.breaks(l == nil || l.kind != e.kind, "no_request") {
		return
	}
	a.to = []string{l.port}
	a.breaks(l.port == a.in.Name, "no_egress")
	end := func() { delete(a.logins, x) }
	switch {
	case e.command == cmdReject:
		a.apply = func() {
			if end(); l.kind != LOGO {
				a.Counts[Count{l.port, "rejected"}]++
			}
		}
	case l.kind == LOGO:
		a.apply = func() { end(); a.loggedOut(l) }
	default:
		a.accept(p, l, e, end)
	}
}

func (a *arrival) loggedOut(l *login) {
	for at, k := range a.links {
		if k == l.link {
			a.endLink(at, "logged_out")
		}
	}
}

// accept is that of FLOGI or FDISC.
func (a *arrival) accept(p pair, l *login, e els, end func()) {
	vn, id := a.mac(), e.did
	a.breaks(a.boundElsewhere(p.enode, l.port), "enode_conflict")
	a.breaks(id < firstID || id > lastID, "bad_fc_id")
	spma := a.flags&FlagFP == 0
	at := station{a.vid, vn}
	old := a.links[at]
	switch {
	case !spma:
		a.breaks(vn != frame.MAC(a.i.FCMap)<<24|frame.MAC(id), "fpma_mismatch")
	case !a.i.SPMA || l.asked == 0 || a.flags&FlagSP == 0:
		a.breaks(true, "not_fpma")
	default:
		a.breaks(vn != l.asked || !a.free(vn, l.port), "spma_conflict")
		a.breaks(old != nil && old.port != l.port, "spma_conflict")
	}
	a.breaks(old != nil && old.fcf != p.fcf, "fpma_conflict")
	known := a.enodes[p]
	a.breaks(l.kind == FDISC && known == nil, "no_flogi", "no_request")
	if len(a.broken) > 0 {
		return
	}
	ends := a.replaced(p, l, vn, id)
	a.limits(p, l, ends)
	a.apply = func() {
		end()
		for at, cause := range ends {
			a.endLink(at, cause)
		}
		if l.kind == FDISC {
			a.enodes[p] = known // it stays logged in
		}
		a.login(at, p, l, e, spma)
	}
}

// replaced returns the virtual links that an accept ends: those of the ENode's earlier FLOGI, and
// those to which the FCF had given the same address or FC_ID.
func (a *arrival) replaced(p pair, l *login, vn frame.MAC, id uint32) map[station]string {
	ends := map[station]string{}
	for at, k := range a.links {
		switch {
		case l.kind == FLOGI && k.pair == p:
			ends[at] = "logged_in_again"
		case at == station{a.vid, vn} || at.vid == a.vid && k.fcf == p.fcf && k.id == id:
			ends[at] = "reassigned"
		}
	}
	return ends
}

// limits checks the room that an accept needs.
func (a *arrival) limits(p pair, l *login, ends map[station]string) {
	links, here := len(a.links)+1, a.linksAt(l.port)+1
	for at := range ends {
		links--
		if a.links[at].port == l.port {
			here--
		}
	}
	a.breaks(links > a.c.MaxLinks || here > a.port(l.port).MaxLinks, "session_limit")
	enodes := len(a.enodes)
	here = a.enodesAt(l.port)
	for q, e := range a.enodes {
		stays := slices.ContainsFunc(a.linksOf(q), func(at station) bool { return ends[at] == "" })
		if stays || q == p {
			continue
		}
		enodes--
		if e.port == l.port {
			here--
		}
	}
	a.breaks(a.enodes[p] == nil && (enodes >= a.c.MaxENodes || here >= a.port(l.port).MaxENodes), "enode_limit")
}

func (a *arrival) login(at station, p pair, l *login, e els, spma bool) {
	f := a.fcfs[station{a.vid, p.fcf}]
	if a.enodes[p] == nil {
		a.enodes[p] = &enode{port: l.port, heard: a.now, period: f.period}
		if f.noKeep {
			a.enodes[p].period = 0
		}
	}
	a.links[at] = &link{pair: p, port: l.port, id: e.did, wwpn: l.wwpn, spma: spma, heard: a.now}
	a.Made++
	a.Counts[Count{l.port, "accepted"}]++
}

// free returns whether an ENode behind a port may have chosen the address vn.
func (a *arrival) free(vn frame.MAC, port string) bool {
	return station48(vn) && !a.inFCMap(vn) && !a.ofFCF(vn) && !a.boundElsewhere(vn, port)
}

func (a *arrival) keepAlive() {
	if !a.has(11) {
		e := a.enodes[a.pair()]
		if !a.breaks(e == nil || e.port != a.in.Name, "no_session") {
			a.apply = func() { e.heard = a.now }
		}
		return
	}
	v := a.all1(11)
	vn, id := mac(v), uint32(number(v[7:10]))
	l := a.links[station{a.vid, a.src}]
	fits := l != nil && vn == a.src && l.pair == pair{a.vid, a.mac(), a.dst} && l.port == a.in.Name && l.id == id
	if !a.breaks(!fits, "no_session", "bad_source", "fcf_address", "enode_conflict") {
		a.apply = func() { l.heard = a.now }
	}
}

func (a *arrival) clear() {
	f := a.fcfs[station{a.vid, a.src}]
	if a.breaks(f == nil, "unknown_fcf") {
		return
	}
	a.breaks(a.name() != f.name, "bad_name")
	a.apply = func() {
		for at, l := range a.links {
			told := a.dst == AllENodes || a.dst == l.enode || a.dst == at.mac
			if at.vid == a.vid && l.fcf == a.src && told && a.named(at.mac, l) {
				a.endLink(at, "cleared")
			}
		}
	}
}

// named returns whether a clear virtual links means a link.
func (a *arrival) named(vn frame.MAC, l *link) bool {
	for _, v := range a.message.all[11] {
		if mac(v) == vn && uint32(number(v[7:10])) == l.id && number(v[10:]) == l.wwpn {
			return true
		}
	}
	return !a.has(11)
}
