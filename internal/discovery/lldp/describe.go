package lldp

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// tlvNames are the names of the TLV types of 802.1AB table 8-1.
var tlvNames = [...]string{typeChassisID: "chassis ID", typePortID: "port ID", typeTTL: "time to live",
	typePortDescription: "port description", typeSystemName: "system name",
	typeSystemDescription: "system description", typeCapabilities: "system capabilities",
	typeManagement: "management address"}

// orgNames are the names of organizational TLVs that this package decodes.
var orgNames = map[uint32]string{orgPVID: "802.1 port VLAN ID", orgMACPHY: "802.3 MAC/PHY status",
	orgMaxFrameSize: "802.3 maximum frame size"}

// Describe returns the name of a TLV and its value in words, in printable characters; "": this
// package does not decode it. The error says what is wrong with the value.
func Describe(kind uint8, value []byte) (name, text string, err error) {
	switch {
	case kind == typeOrganizational:
		return describeOrganizational(value)
	case kind == typeEnd || int(kind) >= len(tlvNames):
		return fmt.Sprintf("reserved type %d", kind), "", nil
	}
	text, err = describeStandard(kind, value)
	return tlvNames[kind], text, err
}

// describeStandard describes the value of a TLV of types 1 to 8.
func describeStandard(kind uint8, value []byte) (text string, err error) {
	switch kind {
	case typeChassisID, typePortID:
		if len(value) < 2 || len(value) > 1+maxText {
			return "", map[uint8]Error{typeChassisID: ErrChassisID, typePortID: ErrPortID}[kind]
		}
		if kind == typeChassisID {
			id := ChassisID{value[0], value[1:]}
			return id.Kind() + " " + id.String(), nil
		}
		id := PortID{value[0], value[1:]}
		return id.Kind() + " " + id.String(), nil
	case typeTTL:
		if len(value) < 2 {
			return "", ErrTTL
		}
		return fmt.Sprintf("%d s", binary.BigEndian.Uint16(value)), nil
	case typeCapabilities:
		if len(value) != 4 {
			return "", ErrLength
		}
		can, is := Capability(binary.BigEndian.Uint16(value)), Capability(binary.BigEndian.Uint16(value[2:]))
		return fmt.Sprintf("can be %s; is %s", can.text(), is.text()), nil
	case typeManagement:
		m, ok := decodeManagement(value)
		if !ok {
			return "", ErrLength
		}
		return m.String(), nil
	}
	if len(value) > maxText {
		return "", ErrLength
	}
	return Printable(value), nil
}

// text lists capabilities.
func (c Capability) text() string {
	if c == 0 {
		return "nothing"
	}
	return strings.Join(c.Names(), ", ")
}

// describeOrganizational describes the value of a TLV of type 127.
func describeOrganizational(value []byte) (name, text string, err error) {
	if len(value) < orgHeader {
		return "organizational", "", ErrLength
	}
	of, body := binary.BigEndian.Uint32(value), value[orgHeader:]
	name, known := orgNames[of]
	lengths := map[uint32]int{orgPVID: 2, orgMACPHY: 5, orgMaxFrameSize: 2}
	switch {
	case !known:
		return fmt.Sprintf("organizational %02x-%02x-%02x, subtype %d", value[0], value[1], value[2], value[3]), "", nil
	case len(body) != lengths[of]:
		return name, "", ErrLength
	case of == orgPVID:
		return name, fmt.Sprintf("VLAN %d", binary.BigEndian.Uint16(body)), nil
	case of == orgMaxFrameSize:
		return name, fmt.Sprintf("%d bytes", binary.BigEndian.Uint16(body)), nil
	}
	negotiation := [...]string{"not supported", "supported, off", "on", "supported, on"}[body[0]&3]
	return name, fmt.Sprintf("autonegotiation %s; MAU type %d", negotiation, binary.BigEndian.Uint16(body[3:])), nil
}
