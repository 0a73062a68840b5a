package traffic

import (
	"encoding/binary"
	"math/bits"

	"sluice/internal/frame"
)

const (
	ethernetLength, tagLength              = 14, 4
	ipv4Length, ipv6Length                 = 20, 40
	udpLength, tcpLength, echoLength       = 8, 20, 8
	protocolICMP, protocolTCP, protocolUDP = 1, 6, 17
)

// packet locates the headers of a frame with IPv4 or IPv6 behind any number of tags. It does not
// parse IPv6 extension headers.
type packet struct {
	version   uint8 // 4 or 6; 0: the frame has neither, or is truncated
	protocol  uint8 // after the IP header; 0 in a fragment, which has no complete transport header and checksum
	ip        int   // offset of the IP header in the frame
	transport int   // offset of the data after the IP header
	end       int   // offset of the first byte behind the IP packet, where padding may follow
}

// parsePacket locates the headers of frame b.
func parsePacket(b []byte) (p packet) {
	at := ethernetLength
	if len(b) < at {
		return p
	}
	kind := binary.BigEndian.Uint16(b[at-2:])
	for kind == frame.TypeVLAN || kind == frame.TypeSTag {
		if at += tagLength; len(b) < at {
			return p
		}
		kind = binary.BigEndian.Uint16(b[at-2:])
	}
	switch ip := b[at:]; {
	case kind == frame.TypeIPv4 && len(ip) >= ipv4Length && ip[0]>>4 == 4:
		p = packet{version: 4, protocol: ip[9], ip: at, transport: at + int(ip[0]&0xf)*4, end: at +
			int(binary.BigEndian.Uint16(ip[2:]))}
		if fragment := binary.BigEndian.Uint16(ip[6:]); fragment&0x3fff != 0 { // more fragments, or not the first one
			p.protocol = 0
		}
	case kind == frame.TypeIPv6 && len(ip) >= ipv6Length && ip[0]>>4 == 6:
		p = packet{version: 6, protocol: ip[6], ip: at, transport: at + ipv6Length, end: at + ipv6Length +
			int(binary.BigEndian.Uint16(ip[4:]))}
	default:
		return p
	}
	if p.transport < p.ip+ipv4Length || p.transport > p.end || p.end > len(b) {
		return packet{}
	}
	return p
}

// has reports whether protocol follows the IP header with at least length bytes.
func (p *packet) has(protocol uint8, length int) bool {
	return p.protocol == protocol && p.transport+length <= p.end
}

// addresses returns the source and the destination address.
func (p *packet) addresses(b []byte) (src, dst []byte) {
	if p.version == 4 {
		return b[p.ip+12 : p.ip+16], b[p.ip+16 : p.ip+20]
	}
	return b[p.ip+8 : p.ip+24], b[p.ip+24 : p.ip+40]
}

// onesSum adds b, as big-endian words of 16 bits, to sum. Pieces may be added in any order if each
// begins at an even offset of the whole (RFC 1071).
func onesSum(sum uint64, b []byte) uint64 {
	carry := uint64(0)
	for ; len(b) >= 8; b = b[8:] {
		sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(b), carry)
	}
	var rest [8]byte
	copy(rest[:], b)
	sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(rest[:]), carry)
	sum, carry = bits.Add64(sum, 0, carry)
	return sum + carry
}

// checksum returns the Internet checksum (RFC 1071) for a sum of onesSum.
func checksum(sum uint64) uint16 {
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// notZero replaces a checksum of 0 by its other form.
func notZero(sum uint16) uint16 {
	if sum == 0 {
		return 0xffff
	}
	return sum
}

// headerChecksum returns the correct checksum of an IPv4 header.
func headerChecksum(header []byte) uint16 {
	return checksum(onesSum(onesSum(0, header[:10]), header[12:]))
}

// transportChecksum returns the correct checksum of the TCP or UDP packet with its checksum at
// offset at. It includes the pseudo-header of RFC 9293, 3.1, or RFC 8200, 8.1.
func (p *packet) transportChecksum(b []byte, at int) uint16 {
	src, dst := p.addresses(b)
	sum := onesSum(onesSum(uint64(p.protocol)+uint64(p.end-p.transport), src), dst)
	sum = onesSum(sum, b[p.transport:p.transport+at])
	return checksum(onesSum(sum, b[p.transport+at+2:p.end]))
}
