package fc

import (
	"slices"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// Reasons and explanations of LS_RJT (FC-LS-2 tables 20 and 21).
const (
	unable      = 0x09
	unsupported = 0x0b

	loginRequired         = 0x1e
	insufficientResources = 0x29
	requestNotSupported   = 0x2c
)

// receive takes a frame with FIP or FCoE.
func (x *FCF) receive(now int64, b []byte, h *frame.Header) {
	if h.Type == frame.TypeFCoE {
		x.receiveFCoE(now, b, h)
		return
	}
	if fcoe.Parse(b[h.Payload:], &x.packet) != fcoe.OK {
		x.counts.Malformed++
		return
	}
	p := &x.packet
	switch {
	case h.Dst != x.p.Port.MAC && h.Dst != fcoe.AllFCF && h.Dst != fcoe.AllFCoE:
		x.counts.Strays++
	case p.Op == fcoe.VLANRequest:
		x.counts.VLANRequests++
		back := envelope{dst: h.Src, src: x.p.Port.MAC, vid: h.VID, pcp: h.PCP, tagged: h.Tagged}
		x.sendFIP(back, &fcoe.Packet{Op: fcoe.VLANNotification, Flags: fcoe.FP | fcoe.FromFCF, MAC: x.p.Port.MAC,
			VLANs: x.p.VLANs}, 0)
	case !slices.Contains(x.p.VLANs, h.VID):
		x.counts.Strays++
	case p.Op == fcoe.Solicitation && p.Flags&fcoe.FromFCF == 0:
		x.counts.Solicitations++
		size := min(int(p.MaxSize), fcoe.MaxPayload)
		x.sendAdvertisement(x.envelope(h.Src, h.VID), fcoe.Solicited, size)
	case p.Op == fcoe.KeepAlive:
		x.keepAlive(now, h, p)
	case p.Op == fcoe.LoginRequest && p.Service != fcoe.DescELP:
		x.login(now, enodeKey{vid: h.VID, mac: h.Src}, p)
	default:
		x.counts.Strays++
	}
}

// keepAlive takes the keep-alive of an ENode or a VN_Port. The answer to one that is not logged in
// is Clear Virtual Links: it may have logged in before this FCF started.
func (x *FCF) keepAlive(now int64, h *frame.Header, p *fcoe.Packet) {
	x.counts.KeepAlives++
	e := enodeKey{vid: h.VID, mac: p.MAC}
	known := x.enodes[e]
	if len(p.VxPorts) == 0 {
		if known != nil && h.Src == p.MAC {
			known.refreshed = now
			return
		}
	} else if v := x.byID(p.VxPorts[0].ID); v != nil && v.enode == e && v.mac == h.Src {
		v.refreshed = now
		return
	}
	clear := fcoe.Packet{Op: fcoe.ClearVirtualLinks, Flags: fcoe.FP | fcoe.FromFCF, MAC: x.p.Port.MAC, Name: x.p.Name,
		VxPorts: p.VxPorts}
	x.counts.Cleared++
	x.sendFIP(x.envelope(e.mac, e.vid), &clear, 0)
}

// login answers FLOGI, FDISC and LOGO.
func (x *FCF) login(now int64, from enodeKey, p *fcoe.Packet) {
	e := &p.ELS
	if e.Header.D != fcoe.FabricPort {
		x.reject(from, p, unsupported, requestNotSupported)
		return
	}
	switch known := x.enodes[from]; {
	case p.Service == fcoe.DescLOGO:
		x.logout(now, from, p)
		return
	case p.Flags&fcoe.FP == 0: // it wants to choose its address
		x.reject(from, p, unable, requestNotSupported)
		return
	case p.Service == fcoe.DescFDISC && known == nil:
		x.reject(from, p, unable, loginRequired)
		return
	case p.Service == fcoe.DescFLOGI && known != nil: // it starts again
		x.endAll(now, from)
	}
	i := x.allocate(e.Port)
	if i == 0 {
		x.reject(from, p, unable, insufficientResources)
		return
	}
	if v := &x.ports[i]; v.up { // it has moved, or it starts again
		if v.flogi {
			x.endAll(now, v.enode)
		} else {
			x.end(now, v)
		}
	}
	x.accept(now, from, i, p)
}

// accept lets VN_Port i in.
func (x *FCF) accept(now int64, from enodeKey, i int, p *fcoe.Packet) {
	v, flogi := &x.ports[i], p.Service == fcoe.DescFLOGI
	known := x.enodes[from]
	if known == nil {
		if !flogi { // this FDISC has just ended the ENode's own FLOGI
			x.reject(from, p, unable, loginRequired)
			return
		}
		known = &fabricENode{}
		x.enodes[from] = known
	}
	known.refreshed = now
	known.links++
	id := fcoe.FCID(x.p.Domain)<<16 | fcoe.FCID(i)
	*v = vnPort{
		name: p.ELS.Port, node: p.ELS.Node, id: id, mac: fcoe.FPMA(x.p.FCMap, id), enode: from, host: known,
		up: true, flogi: flogi, since: now, refreshed: now, size: max(256, int(p.ELS.Parameters.ReceiveSize)) &^ 3,
	}
	x.active++
	x.counts.MostPorts = max(x.counts.MostPorts, x.active)
	x.changed(now, id)
	answer := fcoe.Packet{Op: fcoe.LoginReply, Flags: fcoe.FP | fcoe.FromFCF, Service: p.Service, MAC: v.mac,
		ELS: p.ELS.Reply(fcoe.Accept, id)}
	answer.ELS.Port, answer.ELS.Node = x.p.Name, x.p.Fabric
	answer.ELS.Parameters = fcoe.Parameters{
		Features:    fcoe.FeatureFPort | fcoe.FeatureAcceptsIDs,
		ReceiveSize: fcoe.MaxFC - fcoe.HeaderLength, RATOV: 10_000, EDTOV: 2_000, Class3: true,
	}
	if flogi {
		x.counts.FLOGI++
	} else {
		x.counts.FDISC++
	}
	x.sendFIP(x.envelope(from.mac, from.vid), &answer, 0)
}

// logout ends the virtual link of a VN_Port. Those of its ENode that logged in with FDISC stay, if
// it is that of FLOGI (FC-LS-2 clause 6.4.5).
func (x *FCF) logout(now int64, from enodeKey, p *fcoe.Packet) {
	v := x.byID(p.ELS.Header.S)
	if v == nil || v.enode != from {
		x.reject(from, p, unable, loginRequired)
		return
	}
	answer := fcoe.Packet{Op: fcoe.LoginReply, Flags: fcoe.FP | fcoe.FromFCF, Service: fcoe.DescLOGO,
		ELS: p.ELS.Reply(fcoe.Accept, v.id)}
	x.counts.LOGO++
	x.end(now, v)
	x.sendFIP(x.envelope(from.mac, from.vid), &answer, 0)
}

func (x *FCF) reject(to enodeKey, p *fcoe.Packet, reason, explanation uint8) {
	answer := fcoe.Packet{Op: fcoe.LoginReply, Flags: fcoe.FP | fcoe.FromFCF, Service: p.Service,
		ELS: p.ELS.Reply(fcoe.Reject, p.ELS.Header.S)}
	answer.ELS.Reason, answer.ELS.Explanation = reason, explanation
	x.counts.Rejected++
	x.sendFIP(x.envelope(to.mac, to.vid), &answer, 0)
}
