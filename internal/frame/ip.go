package frame

import "encoding/binary"

// Shortest IP headers, in bytes (RFC 791, RFC 8200).
const (
	ipv4Length = 20
	ipv6Length = 40
)

// DSCP returns the differentiated services codepoint (RFC 2474), 0 to 63, of the frame b with the
// header h. ok is false if b lacks the fixed part of an IPv4 or IPv6 header.
func DSCP(b []byte, h *Header) (dscp uint8, ok bool) {
	p := b[h.Payload:]
	switch { // the same as version, which would prevent inlining here
	case h.Type == TypeIPv4 && len(p) >= ipv4Length && p[0]>>4 == 4:
		return p[1] >> 2, true
	case h.Type == TypeIPv6 && len(p) >= ipv6Length && p[0]>>4 == 6:
		return class6(p) >> 2, true
	}
	return 0, false
}

// SetDSCP sets the differentiated services codepoint of the frame b, and reports whether it has
// one: b must carry IPv4 or IPv6, behind one tag at most. Excess bits (over 6) are cut off. ECN is
// kept.
func SetDSCP(b []byte, dscp uint8) bool {
	var h Header
	if Parse(b, &h) != OK {
		return false
	}
	switch p := b[h.Payload:]; version(p, h.Type) {
	case 4:
		setClass4(p, p[1]&ecnMask|dscp<<2)
	case 6:
		setClass6(p, class6(p)&ecnMask|dscp<<2)
	default:
		return false
	}
	return true
}

// The ECN field, the lower two bits of the traffic class (RFC 3168 clause 5).
const (
	notECT  = 0 // the transport doesn't know ECN
	ecnMask = 3
	ce      = 3 // congestion experienced
)

// MarkCE sets "congestion experienced" in the IP header of the frame b, and reports whether it
// could: b must carry IPv4 or IPv6, behind one tag at most, of a transport that supports ECN. If it
// could not, the frame must be dropped instead (RFC 3168 clause 7).
func MarkCE(b []byte) bool {
	var h Header
	if Parse(b, &h) != OK {
		return false
	}
	switch p := b[h.Payload:]; version(p, h.Type) {
	case 4:
		if p[1]&ecnMask != notECT {
			setClass4(p, p[1]|ce)
			return true
		}
	case 6:
		if class := class6(p); class&ecnMask != notECT {
			setClass6(p, class|ce)
			return true
		}
	}
	return false
}

// version returns the version of the IP header at the start of p, by the EtherType before it; 0 if
// there is none.
func version(p []byte, etherType uint16) uint8 {
	switch {
	case etherType == TypeIPv4 && len(p) >= ipv4Length && p[0]>>4 == 4:
		return 4
	case etherType == TypeIPv6 && len(p) >= ipv6Length && p[0]>>4 == 6:
		return 6
	}
	return 0
}

// class6 returns the traffic class, DSCP and ECN, of an IPv6 header, where it follows 4 bits of
// version. In IPv4 it is a byte.
func class6(p []byte) uint8 { return uint8(binary.BigEndian.Uint16(p) >> 4) }

func setClass6(p []byte, class uint8) {
	binary.BigEndian.PutUint16(p, binary.BigEndian.Uint16(p)&^0xff0|uint16(class)<<4)
}

// setClass4 changes the traffic class of an IPv4 header. It updates the checksum by the changed
// word (RFC 1624, equation 3), so a wrong checksum stays wrong.
func setClass4(p []byte, class uint8) {
	was := binary.BigEndian.Uint16(p[0:2])
	is := was&0xff00 | uint16(class)
	sum := uint32(^binary.BigEndian.Uint16(p[10:12])) + uint32(^was) + uint32(is)
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	p[1] = class
	binary.BigEndian.PutUint16(p[10:12], ^uint16(sum))
}
