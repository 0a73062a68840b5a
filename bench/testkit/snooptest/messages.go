package snooptest

import "sluice/internal/frame"

// The messages of a fabric as they should be, and whatever a test changes in them.

// Advertise is the multicast advertisement of an FCF.
func Advertise(f frame.MAC, fcMap, period uint32, noKeepAlive bool) Message {
	return Message{Dst: AllENodes, Src: f, Op: Advertisement, Flags: FlagFP | FlagA | FlagF, List: [][]byte{
		Priority(128), MAC(f), Name(NameOf(f)), Fabric(0, fcMap, 7), Period(period, noKeepAlive)}}
}

// NameOf is the switch name of an FCF.
func NameOf(f frame.MAC) uint64 { return 0x1000_0000_0000_0000 | uint64(f) }

// Solicit is the solicitation of an ENode.
func Solicit(e frame.MAC) Message {
	return Message{Dst: AllFCFs, Src: e, Op: Solicitation, Flags: FlagFP,
		List: [][]byte{MAC(e), Name(5), MaxSize(2158)}}
}

// AskVLAN is the VLAN request of an ENode, TellVLAN the notification of an FCF.
func AskVLAN(e frame.MAC) Message {
	return Message{Dst: AllFCFs, Src: e, Op: VLANRequest, List: [][]byte{MAC(e)}}
}

// TellVLAN answers AskVLAN.
func TellVLAN(f, e frame.MAC) Message {
	return Message{Dst: e, Src: f, Op: VLANNotification, List: [][]byte{MAC(f), VLAN(100), VLAN(200)}}
}

// Login is a FLOGI or FDISC that asks for an FPMA.
func Login(kind int, e, f frame.MAC, oxid uint16, wwpn uint64) Message {
	return Message{Dst: f, Src: e, Op: Request, Flags: FlagFP, List: [][]byte{MAC(0)},
		Service: &ELS{Kind: kind, RCTL: 0x22, Type: 1, Command: commands[kind], DID: FabricPort, OXID: oxid,
			WWPN: wwpn, WWNN: 9, Payload: 116}}
}

var commands = map[int]byte{FLOGI: cmdFLOGI, FDISC: cmdFDISC, LOGO: cmdLOGO}

// Accept grants the VN_Port MAC vn and the FC_ID id.
func Accept(kind int, f, e frame.MAC, oxid uint16, vn frame.MAC, id uint32) Message {
	return Message{Dst: e, Src: f, Op: Reply, Flags: FlagFP, List: [][]byte{MAC(vn)},
		Service: &ELS{Kind: kind, RCTL: 0x23, Type: 1, Command: cmdAccept, SID: FabricPort, DID: id, OXID: oxid,
			Payload: 116}}
}

// Reject answers a login or logout.
func Reject(kind int, f, e frame.MAC, oxid uint16) Message {
	return Message{Dst: e, Src: f, Op: Reply, Flags: FlagFP, Service: &ELS{Kind: kind, RCTL: 0x23, Type: 1,
		Command: cmdReject, SID: FabricPort, OXID: oxid, Payload: 8}}
}

// Logout is the LOGO of a VN_Port.
func Logout(e, f frame.MAC, oxid uint16, vn frame.MAC, id uint32) Message {
	return Message{Dst: f, Src: e, Op: Request, Flags: FlagFP, List: [][]byte{MAC(vn)},
		Service: &ELS{Kind: LOGO, RCTL: 0x22, Type: 1, Command: cmdLOGO, SID: id, DID: FabricPort, OXID: oxid,
			ID: id, Payload: 16}}
}

// AcceptLogout answers Logout.
func AcceptLogout(f, e frame.MAC, oxid uint16) Message {
	return Message{Dst: e, Src: f, Op: Reply, Flags: FlagFP, Service: &ELS{Kind: LOGO, RCTL: 0x23, Type: 1,
		Command: cmdAccept, SID: FabricPort, OXID: oxid, Payload: 4}}
}

// Keep is the keep-alive of an ENode.
func Keep(e, f frame.MAC) Message {
	return Message{Dst: f, Src: e, Op: KeepAlive, Flags: FlagFP, List: [][]byte{MAC(e)}}
}

// KeepVN is the keep-alive of a VN_Port.
func KeepVN(e, f, vn frame.MAC, id uint32, wwpn uint64) Message {
	return Message{Dst: f, Src: vn, Op: KeepAlive, Flags: FlagFP, List: [][]byte{MAC(e), VxPort(vn, id, wwpn)}}
}

// Clear ends the virtual links of an ENode with an FCF, or the VN_Ports that are added to its List.
func Clear(f, to frame.MAC) Message {
	return Message{Dst: to, Src: f, Op: ClearLinks, Flags: FlagFP, List: [][]byte{MAC(f), Name(NameOf(f))}}
}
