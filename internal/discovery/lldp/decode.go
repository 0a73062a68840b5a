package lldp

import (
	"encoding/binary"
	"iter"
)

// LLDPDU is a decoded LLDPDU. Its slices alias the bytes that it was decoded from. What a peer
// sends is untrusted: show its text with Printable only.
type LLDPDU struct {
	Chassis ChassisID
	Port    PortID
	TTL     uint16 // s; 0: the sender shuts down, and nothing after the TTL is decoded

	// nil: not sent
	PortDescription, SystemName, SystemDescription []byte

	Capabilities Capabilities
	Management   []ManagementAddress
	PVID         uint16 // 0: none
	MACPHY       MACPHY
	MaxFrameSize uint16 // bytes with header and FCS; 0: not sent

	// What of the above was sent.
	HasCapabilities, HasPVID, HasMACPHY bool

	Organizational [][]byte // values (OUI, subtype, body) of all valid TLVs of type 127, in order

	Raw          []byte            // the LLDPDU, its End TLV included, without padding
	Errors       [NumErrors]uint16 // TLVs that were discarded, by reason
	Unrecognized int               // TLVs of reserved types, and organizational ones that were not decoded
	Recognized   int               // organizational TLVs that the caller decodes

	idLength int // of the chassis ID and port ID TLVs at the start of Raw
}

// MACPHY is the 802.3 MAC/PHY configuration/status TLV (802.3 clause 79.3.1).
type MACPHY struct {
	AutoNegotiation uint8  // bit 0: supported; bit 1: enabled
	Advertised      uint16 // ifMauAutoNegCapAdvertisedBits
	MAU             uint16 // operational MAU type, of dot3MauType
}

// Decode decodes an LLDPDU as clause 9.2.7.7 of 802.1AB validates it; b may have padding behind the
// End TLV, which may be missing at the end of b. An error means that all of b is to be discarded,
// and that u is unusable; it is an Error. TLVs that are discarded alone are counted in Errors.
//
// recognized reports whether the caller decodes an organizational TLV with that value; it may be
// nil. Decode reuses the memory of u, and allocates only if that is too small.
func (u *LLDPDU) Decode(b []byte, recognized func(value []byte) bool) error {
	*u = LLDPDU{Management: u.Management[:0], Organizational: u.Organizational[:0]}
	if len(b) > MaxLength {
		return ErrTooLong
	}
	rest, err := u.decodeMandatory(b)
	if err != nil {
		return err
	}
	for seen := uint(0); len(rest) > 0 && u.TTL > 0; {
		kind, value, after, ok := cutTLV(rest)
		switch {
		case kind == typeEnd:
			if len(value) > 0 || !ok {
				u.Errors[ErrLength]++
			}
			u.Raw = b[:len(b)-len(after)]
			return nil
		case !ok:
			u.Errors[ErrCut]++
		case kind <= typeTTL:
			return ErrRepeated
		default:
			u.decodeOptional(kind, value, &seen, recognized)
		}
		rest = after
	}
	u.Raw = b[:len(b)-len(rest)]
	return nil
}

// cutTLV splits the first TLV off b. It is not ok if the TLV runs past the end of b: then kind is
// that of its header, if b has one, and after is empty.
func cutTLV(b []byte) (kind uint8, value, after []byte, ok bool) {
	if len(b) < 2 {
		return typeOrganizational, nil, nil, false
	}
	header := binary.BigEndian.Uint16(b)
	kind, length := uint8(header>>9), int(header&maxValue)
	if b = b[2:]; length > len(b) {
		return kind, nil, nil, false
	}
	return kind, b[:length], b[length:], true
}

// decodeMandatory decodes the first three TLVs and returns the rest.
func (u *LLDPDU) decodeMandatory(b []byte) (rest []byte, err error) {
	rest = b
	var values [typeTTL + 1][]byte
	for want := uint8(typeChassisID); want <= typeTTL; want++ {
		var kind uint8
		var ok bool
		if kind, values[want], rest, ok = cutTLV(rest); !ok || kind != want {
			return nil, ErrOrder
		}
		if want == typePortID {
			u.idLength = len(b) - len(rest)
		}
	}
	chassis, port, ttl := values[typeChassisID], values[typePortID], values[typeTTL]
	switch {
	case len(chassis) < 2 || len(chassis) > 1+maxText:
		return nil, ErrChassisID
	case len(port) < 2 || len(port) > 1+maxText:
		return nil, ErrPortID
	case len(ttl) < 2:
		return nil, ErrTTL
	}
	u.Chassis, u.Port = ChassisID{chassis[0], chassis[1:]}, PortID{port[0], port[1:]}
	u.TTL = binary.BigEndian.Uint16(ttl)
	return rest, nil
}

// decodeOptional decodes a TLV after the first three. seen has a bit for each type and
// organizational TLV that is allowed once and was there.
func (u *LLDPDU) decodeOptional(kind uint8, value []byte, seen *uint, recognized func([]byte) bool) {
	switch kind {
	case typePortDescription:
		u.decodeText(&u.PortDescription, kind, value, seen)
	case typeSystemName:
		u.decodeText(&u.SystemName, kind, value, seen)
	case typeSystemDescription:
		u.decodeText(&u.SystemDescription, kind, value, seen)
	case typeCapabilities:
		if u.valid(len(value) == 4, 1<<kind, seen) {
			u.HasCapabilities = true
			u.Capabilities.Supported = Capability(binary.BigEndian.Uint16(value))
			u.Capabilities.Enabled = Capability(binary.BigEndian.Uint16(value[2:]))
		}
	case typeManagement:
		if m, ok := decodeManagement(value); ok {
			u.Management = append(u.Management, m)
		} else {
			u.Errors[ErrLength]++
		}
	case typeOrganizational:
		u.decodeOrganizational(value, seen, recognized)
	default:
		u.Unrecognized++
	}
}

// valid returns whether a TLV has the right length and is the first with its bit of seen. Otherwise
// it counts the error.
func (u *LLDPDU) valid(length bool, bit uint, seen *uint) bool {
	switch {
	case !length:
		u.Errors[ErrLength]++
	case *seen&bit != 0:
		u.Errors[ErrDuplicate]++
	default:
		*seen |= bit
		return true
	}
	return false
}

func (u *LLDPDU) decodeText(text *[]byte, kind uint8, value []byte, seen *uint) {
	if u.valid(len(value) <= maxText, 1<<kind, seen) {
		*text = value
	}
}

// Bits of seen beyond those of the types up to typeCapabilities.
const (
	seenPVID = 1 << (typeCapabilities + 1 + iota)
	seenMACPHY
	seenMaxFrameSize
)

func (u *LLDPDU) decodeOrganizational(value []byte, seen *uint, recognized func([]byte) bool) {
	if len(value) < orgHeader {
		u.Errors[ErrLength]++
		return
	}
	body := value[orgHeader:]
	switch binary.BigEndian.Uint32(value) {
	case orgPVID:
		if !u.valid(len(body) == 2, seenPVID, seen) {
			return
		}
		u.HasPVID, u.PVID = true, binary.BigEndian.Uint16(body)
	case orgMACPHY:
		if !u.valid(len(body) == 5, seenMACPHY, seen) {
			return
		}
		u.HasMACPHY = true
		u.MACPHY = MACPHY{body[0], binary.BigEndian.Uint16(body[1:]), binary.BigEndian.Uint16(body[3:])}
	case orgMaxFrameSize:
		if !u.valid(len(body) == 2, seenMaxFrameSize, seen) {
			return
		}
		u.MaxFrameSize = binary.BigEndian.Uint16(body)
	default:
		if recognized != nil && recognized(value) {
			u.Recognized++
		} else {
			u.Unrecognized++
		}
	}
	u.Organizational = append(u.Organizational, value)
}

// decodeManagement decodes a management address TLV (802.1AB clause 8.5.9).
func decodeManagement(value []byte) (m ManagementAddress, ok bool) {
	const afterAddress = 1 + 4 + 1 // kind of interface number, the number, length of the OID
	if len(value) == 0 {
		return m, false
	}
	length := int(value[0]) // of subtype and address
	if length < 2 || length > 32 || len(value) < 1+length+afterAddress {
		return m, false
	}
	rest := value[1+length:]
	oid := rest[afterAddress:]
	if int(rest[5]) != len(oid) || len(oid) > 128 {
		return m, false
	}
	return ManagementAddress{
		Subtype: value[1], Address: value[2 : 1+length],
		Numbering: rest[0], Number: binary.BigEndian.Uint32(rest[1:]), OID: oid,
	}, true
}

// TLVs returns type and value of each TLV of Raw, including discarded ones, without the End TLV.
func (u *LLDPDU) TLVs() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		for rest := u.Raw; ; {
			kind, value, after, ok := cutTLV(rest)
			if !ok || kind == typeEnd || !yield(kind, value) {
				return
			}
			rest = after
		}
	}
}
