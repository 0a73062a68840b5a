package lldp

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ChassisID identifies a system (802.1AB clause 8.5.2).
type ChassisID struct {
	Subtype uint8
	Value   []byte // 1 to 255 bytes
}

// PortID identifies a port of a system (802.1AB clause 8.5.3).
type PortID struct {
	Subtype uint8
	Value   []byte // 1 to 255 bytes
}

// Subtypes of chassis IDs.
const (
	ChassisComponent = 1 + iota
	ChassisInterfaceAlias
	ChassisPortComponent
	ChassisMAC
	ChassisNetworkAddress
	ChassisInterfaceName
	ChassisLocal
)

// Subtypes of port IDs.
const (
	PortInterfaceAlias = 1 + iota
	PortComponent
	PortMAC
	PortNetworkAddress
	PortInterfaceName
	PortAgentCircuit
	PortLocal
)

var (
	chassisKinds = []string{ChassisComponent: "component", ChassisInterfaceAlias: "interface alias",
		ChassisPortComponent: "port component", ChassisMAC: "mac", ChassisNetworkAddress: "network address",
		ChassisInterfaceName: "interface name", ChassisLocal: "local"}
	portKinds = []string{PortInterfaceAlias: "interface alias", PortComponent: "component", PortMAC: "mac",
		PortNetworkAddress: "network address", PortInterfaceName: "interface name",
		PortAgentCircuit: "agent circuit id", PortLocal: "local"}
)

// Kind names the subtype.
func (c ChassisID) Kind() string { return kindOf(chassisKinds, c.Subtype) }

// Kind names the subtype.
func (p PortID) Kind() string { return kindOf(portKinds, p.Subtype) }

func kindOf(kinds []string, subtype uint8) string {
	if int(subtype) < len(kinds) && kinds[subtype] != "" {
		return kinds[subtype]
	}
	return fmt.Sprintf("reserved %d", subtype)
}

// String returns the ID as it is usually written, in printable characters.
func (c ChassisID) String() string { return idText(c.Kind(), c.Value) }

// String returns the ID as it is usually written, in printable characters.
func (p PortID) String() string { return idText(p.Kind(), p.Value) }

func idText(kind string, value []byte) string {
	switch kind {
	case "mac":
		return MACText(value)
	case "network address":
		if len(value) > 0 {
			return addressText(value[0], value[1:])
		}
	}
	return Printable(value)
}

// MACText writes bytes as a MAC address, whatever their number.
func MACText(b []byte) string {
	return strings.ReplaceAll(fmt.Sprintf("% x", b), " ", ":")
}

// Numbers of address families (IANA).
const (
	familyIPv4 = 1
	familyIPv6 = 2
	family802  = 6
)

func addressText(family uint8, b []byte) string {
	switch {
	case family == familyIPv4 && len(b) == 4, family == familyIPv6 && len(b) == 16:
		a, _ := netip.AddrFromSlice(b)
		return a.String()
	case family == family802:
		return MACText(b)
	}
	return fmt.Sprintf("family %d: %x", family, b)
}

// ManagementAddress is a management address TLV (802.1AB clause 8.5.9).
type ManagementAddress struct {
	Subtype   uint8  // address family (IANA): 1 IPv4, 2 IPv6, 6 MAC
	Address   []byte // 1 to 31 bytes
	Numbering uint8  // what Number is: 1 unknown, 2 ifIndex, 3 system port number
	Number    uint32 // of the interface
	OID       []byte // up to 128 bytes
}

// Numbering of interfaces.
const (
	NumberUnknown    = 1
	NumberIfIndex    = 2
	NumberSystemPort = 3
)

// ManagementIP returns the management address TLV for an IP address at an interface.
func ManagementIP(a netip.Addr, numbering uint8, number uint32) ManagementAddress {
	m := ManagementAddress{Subtype: familyIPv6, Numbering: numbering, Number: number}
	if a = a.Unmap(); a.Is4() {
		m.Subtype = familyIPv4
	}
	m.Address = a.AsSlice()
	return m
}

// String returns the address.
func (m ManagementAddress) String() string { return addressText(m.Subtype, m.Address) }

// Capability is a set of capabilities of a system (802.1AB table 8-4).
type Capability uint16

// The capabilities.
const (
	Other Capability = 1 << iota
	Repeater
	Bridge
	AccessPoint
	Router
	Telephone
	DOCSIS
	StationOnly
	CVLAN
	SVLAN
	TPMR
)

var capabilityNames = []string{"other", "repeater", "bridge", "wlan", "router", "telephone", "docsis", "station",
	"c-vlan", "s-vlan", "tpmr"}

// Names returns the names of the capabilities, those of reserved bits as "bit 11" and so on.
func (c Capability) Names() (names []string) {
	for bit := range 16 {
		switch {
		case c>>bit&1 == 0:
		case bit < len(capabilityNames):
			names = append(names, capabilityNames[bit])
		default:
			names = append(names, fmt.Sprintf("bit %d", bit))
		}
	}
	return names
}

// Capabilities are what a system can do, and what it does.
type Capabilities struct{ Supported, Enabled Capability }

// Printable returns text from a peer in printable characters: what no terminal and no log should
// get (control characters, invisible ones, invalid UTF-8) is escaped as in Go strings. NULs at the
// end, which some systems send, are left out.
func Printable(text []byte) string {
	for len(text) > 0 && text[len(text)-1] == 0 {
		text = text[:len(text)-1]
	}
	var s strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&s, `\x%02x`, text[0])
		case r == '\\':
			s.WriteString(`\\`)
		case unicode.IsPrint(r):
			s.WriteRune(r)
		case r == '\n':
			s.WriteString(`\n`)
		case r == '\r':
			s.WriteString(`\r`)
		case r == '\t':
			s.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&s, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&s, `\u%04x`, r)
		default:
			fmt.Fprintf(&s, `\U%08x`, r)
		}
		text = text[n:]
	}
	return s.String()
}
