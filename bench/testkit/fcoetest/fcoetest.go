// Package fcoetest has the frames of a small fabric for tests: one FCF, and hosts with one VN_Port
// each, which are told apart by number.
package fcoetest

import (
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// The FCF.
const (
	VLAN             = 2094
	FCF    frame.MAC = 0x0200_0001_0000
	Switch fcoe.WWN  = 0x1000_0200_0001_0000 // its name
	fabric fcoe.WWN  = 0x1000_0200_0002_0000
)

// Host returns the MAC address of a host.
func Host(n int) frame.MAC { return 0x0200_0000_0000 + frame.MAC(n) }

// VN returns the MAC address that the FCF grants to a host's VN_Port, and ID the FC_ID in it.
func VN(n int) frame.MAC { return fcoe.FPMA(fcoe.DefaultFCMap, ID(n)) }

// ID returns the FC_ID of a host's VN_Port.
func ID(n int) fcoe.FCID { return fcoe.FCID(0x010000 + n) }

// FIP returns a tagged frame with a FIP packet.
func FIP(dst, src frame.MAC, p fcoe.Packet) []byte {
	b := make([]byte, 18)
	frame.PutHeader(b, dst, src, VLAN, 3, true, frame.TypeFIP)
	return pad(p.Append(b))
}

// FCoE returns a tagged frame with the least FCoE payload. It is no valid Fibre Channel frame,
// which concerns no switch.
func FCoE(dst, src frame.MAC) []byte {
	b := make([]byte, 18)
	frame.PutHeader(b, dst, src, VLAN, 3, true, frame.TypeFCoE)
	return pad(b)
}

func pad(b []byte) []byte {
	for len(b) < 64 {
		b = append(b, 0)
	}
	return b
}

// Advertisement returns an advertisement of the FCF: to a host that has asked for it, or to all.
func Advertisement(to frame.MAC) []byte {
	return FIP(to, FCF, fcoe.Packet{
		Op: fcoe.Advertisement, Flags: fcoe.FP | fcoe.Available | fcoe.FromFCF, Priority: fcoe.DefaultPriority,
		MAC: FCF, Name: Switch, Fabric: fcoe.Fabric{FCMap: fcoe.DefaultFCMap, Name: fabric},
		Period: fcoe.Period{Millis: 8000},
	})
}

// Login returns the FLOGI of a host.
func Login(n int) []byte {
	return FIP(FCF, Host(n), fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, Service: fcoe.DescFLOGI, ELS: flogi(n)})
}

func flogi(n int) fcoe.ELS {
	return fcoe.ELS{Command: fcoe.FLOGI, HasParameters: true, Port: 0x2000_0200_0000_0000 + fcoe.WWN(n),
		Node: 0x1000_0200_0000_0000 + fcoe.WWN(n), Header: fcoe.Header{D: fcoe.FabricPort, OXID: uint16(n)}}
}

// Accept returns the answer of the FCF.
func Accept(n int) []byte {
	request := flogi(n)
	e := request.Reply(fcoe.Accept, ID(n))
	e.Port, e.Node = Switch, fabric
	return FIP(Host(n), FCF, fcoe.Packet{Op: fcoe.LoginReply, Flags: fcoe.FP | fcoe.FromFCF, MAC: VN(n),
		Service: fcoe.DescFLOGI, ELS: e})
}

// KeepAlive returns a keep-alive of a host.
func KeepAlive(n int) []byte {
	return FIP(FCF, Host(n), fcoe.Packet{Op: fcoe.KeepAlive, MAC: Host(n)})
}

// Clear returns the packet with which the FCF ends all sessions.
func Clear() []byte {
	return FIP(fcoe.AllENode, FCF, fcoe.Packet{Op: fcoe.ClearVirtualLinks, MAC: FCF, Name: Switch})
}
