package fc

import (
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// receive takes a frame with FIP or FCoE that arrived on a port.
func (x *ENodes) receive(now int64, port int, b []byte, h *frame.Header) {
	if h.Type == frame.TypeFCoE {
		x.receiveFCoE(b, h)
		return
	}
	if fcoe.Parse(b[h.Payload:], &x.packet) != fcoe.OK {
		x.counts.Malformed++
		return
	}
	p := &x.packet
	if h.Dst == fcoe.AllENode && p.Op == fcoe.Advertisement {
		x.advertised(now, port, h, p)
		return
	}
	i, known := x.byMAC[h.Dst]
	if !known || x.enodes[i].port != port {
		x.counts.Strays++
		return
	}
	e := &x.enodes[i]
	switch {
	case p.Op == fcoe.VLANNotification && e.state == discovery && len(p.VLANs) > 0:
		e.vid, e.state, e.at = p.VLANs[0], soliciting, now
		x.next = min(x.next, now)
	case h.VID != e.vid: // whatever an FCF says in another VLAN does not matter here
		x.counts.Strays++
	case p.Op == fcoe.Advertisement && p.Flags&fcoe.Solicited != 0:
		x.choose(now, e, p)
	case p.Op == fcoe.LoginReply && h.Src == e.fcf:
		x.replied(now, e, p)
	case p.Op == fcoe.ClearVirtualLinks && h.Src == e.fcf && p.MAC == e.fcf && p.Name == e.fcfName:
		x.cleared(now, e, p)
	default:
		x.counts.Strays++
	}
}

// advertised takes a multicast advertisement for all ENodes of a port.
func (x *ENodes) advertised(now int64, port int, h *frame.Header, p *fcoe.Packet) {
	x.counts.Advertisements++
	for i := range x.enodes {
		e := &x.enodes[i]
		if e.port == port && e.vid == h.VID && e.fcf == p.MAC {
			e.advertised = now
			e.setPeriod(p.Period)
		}
	}
}

// choose takes the first usable FCF that answers. Its answer is as long as the longest frame, so
// such frames pass.
func (x *ENodes) choose(now int64, e *enode, p *fcoe.Packet) {
	x.counts.Advertisements++
	usable := fcoe.FP | fcoe.Available
	if e.state != soliciting || p.Flags&usable != usable || x.p.FCMap != 0 && p.Fabric.FCMap != x.p.FCMap {
		return
	}
	e.fcf, e.fcfName = p.MAC, p.Name
	e.setPeriod(p.Period)
	e.advertised = now
	e.state, e.turn, e.tries, e.at = loggingIn, 0, 0, now
	x.next = min(x.next, now)
}

// replied takes the answer to FLOGI, FDISC or LOGO.
func (x *ENodes) replied(now int64, e *enode, p *fcoe.Packet) {
	if e.state != loggingIn && e.state != leaving || p.ELS.Header.OXID != e.links[e.turn].exchange {
		x.counts.Strays++ // such as the answer to a request that was repeated
		return
	}
	l := &e.links[e.turn]
	switch {
	case p.ELS.Command == fcoe.Reject:
		x.counts.Rejected++
		e.at = now + retry
		return
	case e.state == leaving:
		x.counts.LOGO++
		x.end(l)
		e.at = now
	default:
		x.accepted(now, e, l, p)
	}
	x.next = min(x.next, now)
}

// accepted takes the FC_ID and the address of a VN_Port.
func (x *ENodes) accepted(now int64, e *enode, l *link, p *fcoe.Packet) {
	if x.p.FCMap != 0 && p.MAC != fcoe.FPMA(x.p.FCMap, p.ELS.Header.D) {
		x.counts.BadGrants++
		e.at = now + retry
		return
	}
	if index, taken := x.byVN[p.MAC]; taken { // the fabric has forgotten who had it
		old, _ := x.at(index)
		x.endAll(old)
		if old != e {
			x.begin(old, now)
		}
	}
	x.counts.Logins++
	x.counts.LoginMaxNS = max(x.counts.LoginMaxNS, now-l.asked)
	l.id, l.mac, l.up, l.keepAlive = p.ELS.Header.D, p.MAC, true, now+vnPortPeriod
	i, _ := x.byMAC[e.mac]
	x.byVN[l.mac] = x.index(i, e.turn)
	x.active++
	if x.active == x.VNPorts() {
		if x.complete++; x.complete == 1 {
			x.counts.AllUpNS = now - x.began
		}
	}
	if e.turn == 0 {
		e.keepAlive = now + e.period
	}
	e.tries, e.at = 0, now
}

// cleared takes Clear Virtual Links: without VN_Ports it ends all of the ENode, as it does with
// that of FLOGI. The ENode logs in again.
func (x *ENodes) cleared(now int64, e *enode, p *fcoe.Packet) {
	x.counts.Cleared++
	named := func(l *link) bool {
		return slices.ContainsFunc(p.VxPorts, func(v fcoe.VxPort) bool { return v.MAC == l.mac && v.ID == l.id })
	}
	switch {
	case e.state == leaving || e.state == left:
		x.endAll(e)
		e.state = left
	case len(p.VxPorts) == 0 || e.links[0].up && named(&e.links[0]):
		x.endAll(e)
		x.begin(e, now)
	case e.state == loggingIn || e.state == up:
		x.clearSome(now, e, named)
	}
}

// clearSome ends the virtual links of VN_Ports that logged in with FDISC. They log in again.
func (x *ENodes) clearSome(now int64, e *enode, named func(*link) bool) {
	for k := len(e.links) - 1; k > 0; k-- {
		if l := &e.links[k]; l.up && named(l) {
			x.end(l)
			e.state, e.turn, e.tries, e.at = loggingIn, min(e.turn, k), 0, now
		}
	}
	x.next = min(x.next, now)
}
