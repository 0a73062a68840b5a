package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"sluice/bench/testkit/program"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// spoof is a frame that a host at an ENode port must not send, and the counter that must count it:
// a reason of FIP snooping, or one of show drops.
type spoof struct {
	name, counted string
	frame         []byte
}

// spoofer is a host that is logged in itself, and knows all of another one.
type spoofer struct {
	own, victim    vnPort // of hosts at port3 and port2
	fcf            frame.MAC
	advertisement  *fcoe.Packet
	unknown, other frame.MAC // neither logged in; nor an FCF
}

func (s *spoofer) fip(name, counted string, dst, src frame.MAC, p *fcoe.Packet) spoof {
	return spoof{name, counted, fipFrame(dst, src, fcoeVLAN, p)}
}

// fcfs are spoofs of what only an FCF sends.
func (s *spoofer) fcfs() []spoof {
	own := *s.advertisement
	own.MAC = s.own.enode
	const granted = 0x010999
	request := loginRequest(fcoe.FLOGI, 1, 1)
	accept := &fcoe.Packet{Op: fcoe.LoginReply, Flags: fcoe.FP, Service: fcoe.DescFLOGI,
		ELS: request.ELS.Reply(fcoe.Accept, granted), MAC: fcoe.FPMA(fcoe.DefaultFCMap, granted)}
	reject := &fcoe.Packet{Op: fcoe.LoginReply, Flags: fcoe.FP, Service: fcoe.DescFLOGI,
		ELS: request.ELS.Reply(fcoe.Reject, 0)}
	clearAll := &fcoe.Packet{Op: fcoe.ClearVirtualLinks, Flags: fcoe.FP, MAC: s.fcf, Name: fcfName}
	clearOne := *clearAll
	clearOne.VxPorts = []fcoe.VxPort{{MAC: s.victim.mac, ID: s.victim.id, Name: s.victim.name}}
	vlans := &fcoe.Packet{Op: fcoe.VLANNotification, MAC: s.own.enode, VLANs: []uint16{1}}
	return []spoof{
		s.fip("advertisement of an FCF of its own", "rogue_fcf", fcoe.AllENode, s.own.enode, &own),
		s.fip("advertisement in the name of the FCF", "rogue_fcf", fcoe.AllENode, s.fcf, s.advertisement),
		s.fip("advertisement to the victim", "rogue_fcf", s.victim.enode, s.own.enode, &own),
		s.fip("clear virtual links, all", "rogue_fcf", fcoe.AllENode, s.fcf, clearAll),
		s.fip("clear virtual links of the victim", "rogue_fcf", s.victim.enode, s.fcf, &clearOne),
		s.fip("accept for the victim", "rogue_fcf", s.victim.enode, s.fcf, accept),
		s.fip("accept for itself", "rogue_fcf", s.own.enode, s.fcf, accept),
		s.fip("reject for the victim", "rogue_fcf", s.victim.enode, s.fcf, reject),
		s.fip("VLAN notification for the victim", "rogue_fcf", s.victim.enode, s.own.enode, vlans),
		s.fip("solicitation to all ENodes", "rogue_fcf", fcoe.AllENode, s.own.enode, s.solicitation(s.own.enode)),
	}
}

func (s *spoofer) solicitation(mac frame.MAC) *fcoe.Packet {
	return &fcoe.Packet{Op: fcoe.Solicitation, Flags: fcoe.FP, MAC: mac, Name: 1, MaxSize: fcoe.MaxPayload}
}

// enodes are spoofs of what ENodes send.
func (s *spoofer) enodes() []spoof {
	fromFCF := s.solicitation(s.own.enode)
	fromFCF.Flags |= fcoe.FromFCF
	named := loginRequest(fcoe.FLOGI, 2, 2)
	named.ELS.Header.S = s.victim.id
	elsewhere := loginRequest(fcoe.FLOGI, 3, 3)
	elsewhere.ELS.Header.D = fcoe.DirectoryServer
	logo := &fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, Service: fcoe.DescLOGO, MAC: s.victim.mac,
		ELS: fcoe.ELS{Command: fcoe.LOGO, Port: s.victim.name, LoggedOut: s.victim.id,
			Header: fcoe.Header{D: fcoe.FabricPort, S: s.victim.id, OXID: 4, RXID: fcoe.NoExchange}}}
	alive := func(enode frame.MAC) *fcoe.Packet {
		return &fcoe.Packet{Op: fcoe.KeepAlive, Flags: fcoe.FP, MAC: enode}
	}
	port := alive(s.victim.enode)
	port.VxPorts = []fcoe.VxPort{{MAC: s.victim.mac, ID: s.victim.id, Name: s.victim.name}}
	probe := &fcoe.Packet{Op: fcoe.VN2VNProbe, MAC: s.own.enode, Name: 1, VxPorts: port.VxPorts}
	beacon := &fcoe.Packet{Op: fcoe.VN2VNBeacon, MAC: s.own.enode, Name: 1, VxPorts: port.VxPorts}
	own, fcf := s.own.enode, s.fcf
	return []spoof{
		s.fip("solicitation of an FCF", "rogue_fcf", fcoe.AllFCF, own, fromFCF),
		s.fip("solicitation with the FCF's address", "fcf_address", fcoe.AllFCF, fcf, s.solicitation(fcf)),
		s.fip("solicitation for another address", "bad_source", fcoe.AllFCF, own, s.solicitation(s.other)),
		s.fip("solicitation from the victim's address", "enode_conflict", fcoe.AllFCF, s.victim.enode,
			s.solicitation(s.victim.enode)),
		s.fip("solicitation from an FPMA", "bad_source", fcoe.AllFCF, s.victim.mac, s.solicitation(s.victim.mac)),
		s.fip("FLOGI from the victim's address", "enode_conflict", fcf, s.victim.enode, loginRequest(fcoe.FLOGI, 5, 5)),
		s.fip("FLOGI to an unknown FCF", "unknown_fcf", s.unknown, own, loginRequest(fcoe.FLOGI, 6, 6)),
		s.fip("FLOGI to the victim", "unknown_fcf", s.victim.enode, own, loginRequest(fcoe.FLOGI, 7, 7)),
		s.fip("FLOGI to all FCFs", "bad_destination", fcoe.AllFCF, own, loginRequest(fcoe.FLOGI, 8, 8)),
		s.fip("FLOGI with the victim's FC_ID", "bad_login", fcf, own, named),
		s.fip("FLOGI to the name server", "bad_login", fcf, own, elsewhere),
		s.fip("FDISC without FLOGI", "no_flogi", fcf, s.other, loginRequest(fcoe.FDISC, 9, 9)),
		s.fip("LOGO of the victim", "no_session", fcf, own, logo),
		s.fip("keep-alive of the victim", "enode_conflict", fcf, s.victim.enode, alive(s.victim.enode)),
		s.fip("keep-alive of the victim's VN_Port", "no_session", fcf, s.victim.mac, port),
		s.fip("keep-alive of an unknown ENode", "no_session", fcf, s.other, alive(s.other)),
		s.fip("VN2VN probe", "vn2vn", fcoe.AllVN2VN, own, probe),
		s.fip("VN2VN beacon", "vn2vn", fcoe.AllP2P, own, beacon),
	}
}

// malformed are spoofs whose payload is not FIP.
func (s *spoofer) malformed() []spoof {
	change := func(name, counted string, do func(b []byte) []byte) spoof {
		f := fipFrame(s.fcf, s.own.enode, fcoeVLAN, &fcoe.Packet{Op: fcoe.KeepAlive, Flags: fcoe.FP, MAC: s.own.enode})
		return spoof{name, counted, append(f[:18:18], do(f[18:])...)}
	}
	const listLength, first = 7, 10 // offsets in FIP
	return []spoof{
		change("version 2", "bad_version", func(b []byte) []byte { b[0] = 0x20; return b }),
		change("a descriptor of length 0", "bad_length", func(b []byte) []byte { b[first+1] = 0; return b }),
		change("a list beyond the frame", "truncated", func(b []byte) []byte { b[listLength] = 200; return b }),
		change("unknown critical descriptor", "unknown_critical", func(b []byte) []byte { b[first] = 16; return b }),
		change("the same descriptor twice", "duplicate", func(b []byte) []byte {
			b[listLength] = 4
			return append(b[:first+8:first+8], b[first:first+8]...)
		}),
		change("unknown operation", "bad_operation", func(b []byte) []byte { b[5] = 9; return b }),
	}
}

// elsewhere are frames in VLANs where they must not be.
func (s *spoofer) elsewhere() []spoof {
	typed := func(vid uint16, tagged bool, etherType uint16, dst, src frame.MAC, payload []byte) []byte {
		b := make([]byte, 18)
		b = append(b[:frame.PutHeader(b, dst, src, vid, 0, tagged, etherType)], payload...)
		return fcoe.Pad(b, 60)
	}
	own := fcoeFrame(s.fcf, s.own.mac, fcoeVLAN, s.own.id, s.victim.id, 1, 64)
	inner := own[12:] // a tag and FCoE
	return []spoof{
		{"FIP in the LAN", "wrong_vlan", fipFrame(fcoe.AllFCF, s.own.enode, 1, s.solicitation(s.own.enode))},
		{"FIP in the LAN, untagged", "wrong_vlan", fipFrame(fcoe.AllFCF, s.own.enode, 0, s.solicitation(s.own.enode))},
		{"FCoE in the LAN", "fcoe_vlan", typed(1, true, frame.TypeFCoE, s.fcf, s.own.mac, own[18:])},
		{"FCoE in the LAN, untagged", "fcoe_vlan", typed(0, false, frame.TypeFCoE, s.fcf, s.own.mac, own[18:])},
		{"FCoE behind two tags", "second_tag", typed(1, true, frame.TypeVLAN, s.fcf, s.own.mac, inner[2:])},
		{"FCoE behind an S-tag", "s_tag", typed(0, false, frame.TypeSTag, s.fcf, s.own.mac, inner[2:])},
		{"IPv4 in the FCoE VLAN", "fcoe_vlan", typed(fcoeVLAN, true, frame.TypeIPv4, s.victim.enode, s.own.enode, nil)},
		{"a broadcast in the FCoE VLAN", "fcoe_vlan",
			typed(fcoeVLAN, true, 0x0806, frame.Broadcast, s.own.enode, nil)},
		{"LAN behind the FCoE VLAN's tag and another", "fcoe_vlan",
			typed(fcoeVLAN, true, frame.TypeVLAN, s.victim.enode, s.own.enode, []byte{0, 1, 8, 0})},
	}
}

// data are FCoE frames that no login allows.
func (s *spoofer) data() []spoof {
	fcoeOf := func(name string, dst, src frame.MAC) spoof {
		return spoof{name, "fcoe_session", fcoeFrame(dst, src, fcoeVLAN, s.own.id, s.victim.id, 1, 2112)}
	}
	return []spoof{
		fcoeOf("FCoE before a login", s.fcf, s.other),
		fcoeOf("FCoE from the ENode's own address", s.fcf, s.own.enode),
		fcoeOf("FCoE to the victim's VN_Port", s.victim.mac, s.own.mac),
		fcoeOf("FCoE to the victim's ENode", s.victim.enode, s.own.mac),
		fcoeOf("FCoE to another FCF", s.unknown, s.own.mac),
		fcoeOf("FCoE from the victim's VN_Port", s.fcf, s.victim.mac),
		fcoeOf("FCoE from an FPMA that nobody has", s.fcf, fcoe.FPMA(fcoe.DefaultFCMap, 0x010777)),
		fcoeOf("FCoE from the FCF's address to the victim", s.victim.mac, s.fcf),
		fcoeOf("FCoE from the FCF's address to all", fcoe.AllFCoE, s.fcf),
		fcoeOf("FCoE to all", fcoe.AllFCoE, s.own.mac),
		fcoeOf("FCoE to all stations", frame.Broadcast, s.own.mac),
		fcoeOf("non-FIP FLOGI", 0x0efc_00ff_fffe, s.own.enode),
	}
}

// TestSpoofs sends whatever an ENode must not send from an ENode's port: nothing of it is
// delivered anywhere, and each frame is counted with its reason.
func TestSpoofs(t *testing.T) {
	const each = 20
	s := newFCoESite(t, 4)
	x := startFCoESwitch(t, s, fcoePorts(4, "400M"))
	fabric := newFCFabric(t, s.Hosts[0], time.Minute) // it advertises itself once in this test
	x.awaitFCF(1)
	login := func(host int) (*fcENode, vnPort) {
		h := &fcENode{fcHost: newFCHost(t, s.Hosts[host], nil), fcf: fabric.mac}
		return h, h.login(fcoe.FLOGI, frame.MAC(0x0200_0000_3000+host), fcoe.WWN(0x1000_0000_0000_3000+host))
	}
	victim, victimPort := login(1)
	attacker, attackerPort := login(2)
	bystander := newFCHost(t, s.Hosts[3], nil)
	fabric.lock.Lock()
	fabric.silent = true
	fabric.lock.Unlock()
	witnesses := map[string]*fcHost{"the FCF": fabric.fcHost, "the victim": victim.fcHost, "a bystander": bystander,
		"the attacker": attacker.fcHost}
	for _, h := range witnesses {
		h.take()
	}
	a := &spoofer{own: attackerPort, victim: victimPort, fcf: fabric.mac, advertisement: fabric.advertisement(),
		unknown: 0x0200_0000_0f99, other: 0x0200_0000_3999}
	before, _ := sessions(x.state())
	all := slices.Concat(a.fcfs(), a.enodes(), a.malformed(), a.elsewhere(), a.data())
	for _, sp := range all {
		was := counters(x, "port3")
		for range each {
			program.Must(t, attacker.write(sp.frame))
		}
		var now map[string]uint64
		program.Until(t, "the drops of: "+sp.name, func() bool {
			now = counters(x, "port3")
			return total(now) >= total(was)+each
		})
		was[sp.counted] += each
		if !maps.Equal(now, was) {
			t.Errorf("%s: not %d frames more of %s: %v, before that %v", sp.name, each, sp.counted, now, was)
		}
	}
	time.Sleep(quietTime)
	for name, h := range witnesses {
		for _, f := range h.take() {
			t.Errorf("%s received %v", name, f)
		}
	}
	if now, _ := sessions(x.state()); !slices.Equal(now, before) {
		t.Errorf("sessions\n%+v\nbefore\n%+v", now, before)
	}
	t.Logf("%d kinds of spoofs, %d frames of each: none delivered", len(all), each)
	fabric.lock.Lock()
	fabric.silent = false
	fabric.lock.Unlock()
	f := &fcStream{from: victimPort, to: attackerPort, host: victim.fcHost, fcf: fabric.mac}
	program.Must(t, f.send(1))
	attacker.await("a frame of the victim", func(f *fcFrame) bool { return f.Dst == attackerPort.mac })
	x.Stop()
}

// counters returns how many frames of a port were refused or dropped, by reason.
func counters(x *fcoeSwitch, port string) map[string]uint64 {
	p := x.port(port)
	all := dropped(p)
	maps.Copy(all, refused(p))
	return all
}

func total(counters map[string]uint64) (n uint64) {
	for _, v := range counters {
		n += v
	}
	return n
}
