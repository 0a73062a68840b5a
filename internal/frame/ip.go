package frame

import "encoding/binary"

// Shortest IP headers, in bytes (RFC 791, RFC 8200).
const (
	ipv4Length = 20
	ipv6Length = 40
)

// DSCP returns the differentiated services codepoint (RFC 2474), 0 to 63, of the frame b with the
// header h. ok is false if b carries neither IPv4 nor IPv6 or too little of it.
func DSCP(b []byte, h *Header) (dscp uint8, ok bool) {
	p := b[h.Payload:]
	switch { // as version says, which here would keep the compiler from inlining
	case h.Type == TypeIPv4 && len(p) >= ipv4Length && p[0]>>4 == 4:
		return p[1] >> 2, true
	case h.Type == TypeIPv6 && len(p) >= ipv6Length && p[0]>>4 == 6:
		return class6(p) >> 2, true
	}
	return 0, false
}

// SetDSCP changes the differentiated services codepoint of the frame b, and tells whether there is
// one: b carries IPv4 or IPv6, behind one tag at the most. Bits beyond 6 are cut off. ECN stays as
// it is.
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

// MarkCE says in the IP header of the frame b that it met congestion, and tells whether it could: b
// carries IPv4 or IPv6, behind one tag at the most, of a transport that knows ECN. Where it could
// not, a frame is to be dropped instead (RFC 3168 clause 7).
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

// version returns the version of the IP header that p begins with, going by the EtherType before
// it; 0 if there is none.
func version(p []byte, etherType uint16) uint8 {
	switch {
	case etherType == TypeIPv4 && len(p) >= ipv4Length && p[0]>>4 == 4:
		return 4
	case etherType == TypeIPv6 && len(p) >= ipv6Length && p[0]>>4 == 6:
		return 6
	}
	return 0
}

// class6 returns the traffic class, DSCP and ECN, of an IPv6 header: behind 4 bits of version. IPv4
// has it in a byte.
func class6(p []byte) uint8 { return uint8(binary.BigEndian.Uint16(p) >> 4) }

func setClass6(p []byte, class uint8) {
	binary.BigEndian.PutUint16(p, binary.BigEndian.Uint16(p)&^0xff0|uint16(class)<<4)
}

// setClass4 changes the traffic class of an IPv4 header. The checksum is updated from the word that
// changes (RFC 1624, equation 3), so that one that was wrong stays wrong.
func setClass4(p []byte, class uint8) {
	was := binary.BigEndian.Uint16(p[0:2])
	is := was&0xff00 | uint16(class)
	sum := uint32(^binary.BigEndian.Uint16(p[10:12])) + uint32(^was) + uint32(is)
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	p[1] = class
	binary.BigEndian.PutUint16(p[10:12], ^uint16(sum))
}
