package fcoe

import (
	"fmt"
	"strings"
)

var operationNames = map[Operation]string{Solicitation: "solicitation", Advertisement: "advertisement",
	LoginRequest: "link service request", LoginReply: "link service reply", KeepAlive: "keep-alive",
	ClearVirtualLinks: "clear virtual links", VLANRequest: "VLAN request", VLANNotification: "VLAN notification",
	VN2VNVLANs: "VN2VN VLAN notification", VN2VNProbe: "VN2VN probe request", VN2VNProbeReply: "VN2VN probe reply",
	VN2VNClaim: "VN2VN claim notification", VN2VNClaimReply: "VN2VN claim response", VN2VNBeacon: "VN2VN beacon"}

// String returns the name of the operation.
func (o Operation) String() string {
	if name, ok := operationNames[o]; ok {
		return name
	}
	return fmt.Sprintf("operation %d.%d", o>>8, o&0xff)
}

var serviceNames = map[Descriptor]string{DescFLOGI: "FLOGI", DescFDISC: "FDISC", DescLOGO: "LOGO", DescELP: "ELP"}

// Describe returns what the packet says in one line, as for a log.
func (p *Packet) Describe() string {
	switch p.Op {
	case Solicitation:
		return fmt.Sprintf("%s from %v, name %v, frames of %d bytes", p.Op, p.MAC, p.Name, p.MaxSize)
	case Advertisement:
		return fmt.Sprintf("%s of FCF %v, switch %v, fabric %v, FC-MAP %06X, priority %d, %s", p.Op, p.MAC, p.Name,
			p.Fabric.Name, p.Fabric.FCMap, p.Priority, p.Period)
	case LoginRequest, LoginReply:
		return p.describeService()
	case KeepAlive:
		if len(p.VxPorts) > 0 {
			return fmt.Sprintf("keep-alive of VN_Port %v of ENode %v", p.VxPorts[0], p.MAC)
		}
		return fmt.Sprintf("keep-alive of ENode %v", p.MAC)
	case ClearVirtualLinks:
		if len(p.VxPorts) == 0 {
			return fmt.Sprintf("%s: all of FCF %v", p.Op, p.MAC)
		}
		return fmt.Sprintf("%s of FCF %v: %d, first %v", p.Op, p.MAC, len(p.VxPorts), p.VxPorts[0])
	case VLANNotification:
		return fmt.Sprintf("%s from FCF %v: %s", p.Op, p.MAC, vlanList(p.VLANs))
	}
	return fmt.Sprintf("%s from %v", p.Op, p.MAC)
}

// vlanList names at most 8 VLANs: a frame has room for hundreds, a reader does not.
func vlanList(vlans []uint16) string {
	const most = 8
	first := strings.Trim(strings.ReplaceAll(fmt.Sprint(vlans[:min(most, len(vlans))]), " ", ", "), "[]")
	if len(vlans) <= most {
		return first
	}
	return fmt.Sprintf("%d VLANs, the first are %s", len(vlans), first)
}

func (p *Packet) describeService() string {
	name, e := serviceNames[p.Service], &p.ELS
	switch {
	case p.Service == DescELP:
		return fmt.Sprintf("%s (%s)", name, p.Op)
	case e.Command == Reject:
		return fmt.Sprintf("%s of %s, exchange %04x: reason %d, explanation %d", e.Command, name, e.Header.OXID,
			e.Reason, e.Explanation)
	case e.Command == Accept && e.HasParameters:
		return fmt.Sprintf("%s of %s, exchange %04x: FC_ID %v, address %v", e.Command, name, e.Header.OXID,
			e.Header.D, p.MAC)
	case e.Command == Accept:
		return fmt.Sprintf("%s of %s, exchange %04x", e.Command, name, e.Header.OXID)
	case e.Command == LOGO:
		return fmt.Sprintf("LOGO of FC_ID %v, port %v, exchange %04x", e.LoggedOut, e.Port, e.Header.OXID)
	}
	return fmt.Sprintf("%s of port %v, node %v, exchange %04x", name, e.Port, e.Node, e.Header.OXID)
}

// String returns the period in words.
func (p Period) String() string {
	if p.NoKeepAlive {
		return fmt.Sprintf("every %d ms without keep-alives", p.Millis)
	}
	return fmt.Sprintf("every %d ms", p.Millis)
}

// String returns address and FC_ID.
func (v VxPort) String() string { return fmt.Sprintf("%v (FC_ID %v)", v.MAC, v.ID) }
