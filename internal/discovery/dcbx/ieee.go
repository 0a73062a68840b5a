package dcbx

import "encoding/binary"

// Layout of the TLVs of IEEE 802.1Qaz, in bytes from the OUI on (IEEE 802.1Q annex D.2):
//
//	0 OUI, 3 subtype
//	4 ETS configuration: bit 7 willing, bit 6 CBS, bits 2-0 traffic classes (0: 8); recommendation: reserved
//	5 ETS: 4 bytes of traffic classes, one nibble a priority; 9 bandwidths by class; 17 TSA by class; to 25
//	4 PFC: bit 7 willing, bit 6 MBC, bits 3-0 capability; 5 priorities; to 6
//	4 applications: reserved; 5 three bytes each: bits 7-5 priority, bits 2-0 selector; protocol
const (
	subtypeETS       = 0x09
	subtypeRecommend = 0x0a
	subtypePFC       = 0x0b
	subtypeApp       = 0x0c

	headerLength = 4 // OUI and subtype
	lengthETS    = 25
	lengthPFC    = 6
	lengthApp    = 5 // and 3 for each application
	maxLength    = 511
	typeOrg      = 127
)

var (
	ouiIEEE   = [3]byte{0x00, 0x80, 0xc2}
	ouiLegacy = [3]byte{0x00, 0x1b, 0x21}
)

// identify returns the version and the subtype of the value of a TLV of type 127; the version is
// Auto if it is not DCBX.
func identify(tlv []byte) (v Version, subtype uint8) {
	if len(tlv) < headerLength {
		return Auto, 0
	}
	switch subtype = tlv[3]; [3]byte(tlv) {
	case ouiIEEE:
		if subtype >= subtypeETS && subtype <= subtypeApp {
			return IEEE, subtype
		}
	case ouiLegacy:
		switch subtype {
		case 1:
			return CIN, subtype
		case 2:
			return CEE, subtype
		}
	}
	return Auto, 0
}

// appendTLV appends a TLV: 7 bits of type, 9 of length, value.
func appendTLV(b []byte, kind int, value []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(kind<<9|len(value)))
	return append(b, value...)
}

// cutTLV splits the first TLV off b.
func cutTLV(b []byte) (kind int, value, rest []byte, err Error) {
	if len(b) < 2 {
		return 0, nil, nil, ErrTruncated
	}
	head := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < head&0x1ff {
		return 0, nil, nil, ErrTruncated
	}
	return head >> 9, b[:head&0x1ff], b[head&0x1ff:], 0
}

func bitIf(on bool, bit uint8) uint8 {
	if on {
		return bit
	}
	return 0
}

// appendETS appends the value of an ETS TLV whose first byte is first.
func appendETS(b []byte, subtype, first uint8, e *ETS) []byte {
	b = append(append(b, ouiIEEE[:]...), subtype, first)
	for p := 0; p < 8; p += 2 {
		b = append(b, e.TC[p]<<4|e.TC[p+1]&0xf)
	}
	return append(append(b, e.Bandwidth[:]...), e.TSA[:]...)
}

func appendPFC(b []byte, willing bool, p PFC) []byte {
	b = append(append(b, ouiIEEE[:]...), subtypePFC)
	return append(b, bitIf(willing, 0x80)|bitIf(p.MBC, 0x40)|p.Capability&0xf, p.Priorities)
}

func appendApps(b []byte, apps []App) []byte {
	b = append(append(b, ouiIEEE[:]...), subtypeApp, 0)
	for _, a := range apps {
		b = append(b, a.Priority<<5|a.Selector&7)
		b = binary.BigEndian.AppendUint16(b, a.Protocol)
	}
	return b
}

// decodeETS decodes an ETS TLV; first is its first byte, which a recommendation reserves.
func decodeETS(tlv []byte) (e ETS, first uint8, err Error) {
	if len(tlv) != lengthETS {
		return e, 0, ErrLength
	}
	first = tlv[4]
	for p := range e.TC {
		e.TC[p] = tlv[5+p/2] >> (4 - p%2*4) & 0xf
		if e.TC[p] > 7 {
			return e, 0, ErrClass
		}
	}
	copy(e.Bandwidth[:], tlv[9:])
	copy(e.TSA[:], tlv[17:])
	if !e.sums() {
		return e, 0, ErrBandwidth
	}
	return e, first, 0
}

// sums reports whether the bandwidths of the classes of TSAETS sum to 100 %, if there are any such
// classes. Bandwidths of other classes mean nothing.
func (e *ETS) sums() bool {
	sum, found := 0, false
	for tc, tsa := range e.TSA {
		if tsa == TSAETS {
			sum, found = sum+int(e.Bandwidth[tc]), true
		}
	}
	return !found || sum == 100
}

func decodePFC(tlv []byte) (p PFC, willing bool, err Error) {
	if len(tlv) != lengthPFC {
		return p, false, ErrLength
	}
	return PFC{Priorities: tlv[5], Capability: tlv[4] & 0xf, MBC: tlv[4]&0x40 != 0}, tlv[4]&0x80 != 0, 0
}

// decodeApps appends the applications of a TLV to apps. It skips those with a reserved selector,
// as the standard demands of reserved values.
func decodeApps(apps []App, tlv []byte) ([]App, Error) {
	if len(tlv) < lengthApp || (len(tlv)-lengthApp)%3 != 0 || len(tlv) > maxLength {
		return apps, ErrLength
	}
	for b := tlv[lengthApp:]; len(b) > 0; b = b[3:] {
		a := App{Selector: b[0] & 7, Priority: b[0] >> 5, Protocol: binary.BigEndian.Uint16(b[1:])}
		if a.Selector >= SelectEthertype && a.Selector <= SelectDSCP {
			apps = append(apps, a)
		}
	}
	return apps, 0
}
