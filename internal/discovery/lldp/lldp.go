// Package lldp is the Link Layer Discovery Protocol (IEEE 802.1AB-2016): the codec of LLDPDUs
// (LLDPDU, Local) and the state machines of one port (Agent). It has no clock and no goroutine.
// Times are in ns since an arbitrary start.
package lldp

import "encoding/binary"

// Destination is the address that LLDPDUs are sent to: nearest bridge, which no bridge forwards
// (802.1AB clause 7.1).
var Destination = [6]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}

// EtherType is that of LLDP.
const EtherType = 0x88cc

// MaxLength is the longest LLDPDU, in bytes, its End TLV included: the data of an Ethernet frame.
const MaxLength = 1500

const (
	minFrame     = 60 // without FCS
	headerLength = 14 // Ethernet, untagged
	tagLength    = 4
	typeTag      = 0x8100

	maxText = 255 // bytes of a chassis ID, a port ID, a name or a description
)

// TLV types (802.1AB table 8-1). A TLV is a header of 2 bytes, 7 bits of type and 9 of length, and
// a value of that length.
const (
	typeEnd               = 0
	typeChassisID         = 1
	typePortID            = 2
	typeTTL               = 3
	typePortDescription   = 4
	typeSystemName        = 5
	typeSystemDescription = 6
	typeCapabilities      = 7
	typeManagement        = 8
	typeOrganizational    = 127

	maxValue = 1<<9 - 1

	// Organizational is the type of TLVs that begin with an OUI and a subtype.
	Organizational = typeOrganizational
)

// Organizational TLVs that this package decodes: OUI and subtype, the first 4 bytes of the value.
const (
	orgPVID         = 0x0080c2_01 // 802.1Q annex D
	orgMACPHY       = 0x00120f_01 // 802.3 clause 79
	orgMaxFrameSize = 0x00120f_04

	orgHeader = 4
)

// Unwrap returns the source address and the data of an Ethernet frame with an LLDPDU. The frame may
// have one 802.1Q tag: some switches tag LLDPDUs with a priority. The data aliases the frame.
func Unwrap(frame []byte) (source [6]byte, data []byte, err error) {
	at := headerLength - 2
	if len(frame) >= headerLength+tagLength && binary.BigEndian.Uint16(frame[at:]) == typeTag {
		at += tagLength
	}
	if len(frame) < headerLength || binary.BigEndian.Uint16(frame[at:]) != EtherType {
		return source, nil, ErrEtherType
	}
	if [6]byte(frame) != Destination {
		return source, nil, ErrDestination
	}
	return [6]byte(frame[6:]), frame[at+2:], nil
}

// Error is the reason why a frame or an LLDPDU is discarded, or a TLV of it. It indexes
// Stats.Errors.
type Error uint8

// ErrEtherType to ErrNeighbours discard a whole frame, the others only a TLV (802.1AB clause
// 9.2.7.7).
const (
	ErrEtherType   Error = iota // not a frame with LLDP's type
	ErrDestination              // for another address
	ErrTooLong                  // the frame has more data than MaxLength
	ErrOrder                    // the first three TLVs are not chassis ID, port ID and TTL
	ErrChassisID                // is not 1 to 255 bytes
	ErrPortID                   // is not 1 to 255 bytes
	ErrTTL                      // has no 2 bytes
	ErrRepeated                 // a second chassis ID, port ID or TTL
	ErrNeighbours               // valid, but of one neighbour more than MaxNeighbours

	ErrCut       // the TLV runs past the end of the frame
	ErrLength    // the TLV or a field of it has a length that its type does not allow
	ErrDuplicate // a second TLV of a type that is allowed once; the first counts

	NumErrors
)

var errorNames = [NumErrors]struct{ name, text string }{
	ErrEtherType:   {"ethertype", "not an LLDP frame: it has another ethertype"},
	ErrDestination: {"destination", "the frame is not for the LLDP address 01:80:c2:00:00:0e"},
	ErrTooLong:     {"too_long", "the frame has more than the 1500 bytes of an LLDPDU"},
	ErrOrder:       {"order", "the first TLVs of the LLDPDU are not chassis ID, port ID and TTL"},
	ErrChassisID:   {"chassis_id", "the chassis ID is not 1 to 255 bytes long"},
	ErrPortID:      {"port_id", "the port ID is not 1 to 255 bytes long"},
	ErrTTL:         {"ttl", "the TTL is shorter than 2 bytes"},
	ErrRepeated:    {"repeated", "the LLDPDU has a second chassis ID, port ID or TTL"},
	ErrNeighbours:  {"neighbours", "the port has too many neighbours, so this one is ignored"},
	ErrCut:         {"cut", "a TLV runs past the end of the frame"},
	ErrLength:      {"length", "the length of a TLV does not fit its type"},
	ErrDuplicate:   {"duplicate", "the LLDPDU has a second TLV of a type that is allowed once"},
}

// Error describes the error.
func (e Error) Error() string { return errorNames[e].text }

// Name is short and stable, as for metrics.
func (e Error) Name() string { return errorNames[e].name }
