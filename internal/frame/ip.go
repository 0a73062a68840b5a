package frame

import "encoding/binary"

// Shortest IP headers, in bytes (RFC 791, RFC 8200).
const (
	ipv4Length = 20
	ipv6Length = 40
)

// DSCP returns the differentiated services codepoint (RFC 2474), 0 to 63, of the frame b with the header h. ok is
// false if b carries neither IPv4 nor IPv6 or too little of it.
func DSCP(b []byte, h *Header) (dscp uint8, ok bool) {
	p, version := network(b, h)
	if version == 0 {
		return 0, false
	}
	return class(p, version) >> 2, true
}

// SetDSCP changes the differentiated services codepoint of the frame b, and tells whether there is one: b carries IPv4
// or IPv6, behind one tag at the most. Bits beyond 6 are cut off. ECN stays as it is.
func SetDSCP(b []byte, dscp uint8) bool {
	var h Header
	if Parse(b, &h) != OK {
		return false
	}
	p, version := network(b, &h)
	if version == 0 {
		return false
	}
	setClass(p, version, class(p, version)&ecnMask|dscp<<2)
	return true
}

// The ECN field, the lower two bits of the traffic class (RFC 3168 clause 5).
const (
	notECT  = 0 // the transport doesn't know ECN
	ecnMask = 3
	ce      = 3 // congestion experienced
)

// MarkCE says in the IP header of the frame b that it met congestion, and tells whether it could: b carries IPv4 or
// IPv6, behind one tag at the most, of a transport that knows ECN. Where it could not, a frame is to be dropped
// instead (RFC 3168 clause 7).
func MarkCE(b []byte) bool {
	var h Header
	if Parse(b, &h) != OK {
		return false
	}
	p, version := network(b, &h)
	if version == 0 {
		return false
	}
	c := class(p, version)
	if c&ecnMask == notECT {
		return false
	}
	setClass(p, version, c|ce)
	return true
}

// network returns the IP header of the frame b with the header h, and all that follows; version 0 if there is none.
func network(b []byte, h *Header) (p []byte, version uint8) {
	p = b[h.Payload:]
	switch {
	case h.Type == TypeIPv4 && len(p) >= ipv4Length && p[0]>>4 == 4:
		return p, 4
	case h.Type == TypeIPv6 && len(p) >= ipv6Length && p[0]>>4 == 6:
		return p, 6
	}
	return nil, 0
}

// class returns the traffic class, DSCP and ECN, of the IP header p.
func class(p []byte, version uint8) uint8 {
	if version == 4 {
		return p[1]
	}
	return uint8(binary.BigEndian.Uint16(p) >> 4)
}

// setClass writes the traffic class. IPv4's checksum is updated from the word that changes (RFC 1624, equation 3), so
// that one that was wrong stays wrong.
func setClass(p []byte, version, class uint8) {
	old := binary.BigEndian.Uint16(p[0:2])
	if version == 6 {
		binary.BigEndian.PutUint16(p[0:2], old&^0xff0|uint16(class)<<4)
		return
	}
	word := old&0xff00 | uint16(class)
	sum := uint32(^binary.BigEndian.Uint16(p[10:12])) + uint32(^old) + uint32(word)
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(p[0:2], word)
	binary.BigEndian.PutUint16(p[10:12], ^uint16(sum))
}
