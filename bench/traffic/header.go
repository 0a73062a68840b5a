package traffic

import (
	"encoding/binary"
	"net/netip"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
)

// UDP makes test frames UDP datagrams over IPv4. Stream n of a flow adds n to the port of Src and
// to the address of Dst, so a device that tells flows apart by either one also tells streams apart.
type UDP struct{ Src, Dst netip.AddrPort }

// MinUDPSize is the minimum length of a test frame over UDP, in bytes without FCS, with or without
// a tag.
const MinUDPSize = ethernetLength + tagLength + ipv4Length + udpLength + line.StampLength

const timeToLive = 64

// header is the header of a flow's frames.
type header struct {
	bytes  [ethernetLength + tagLength + ipv4Length + udpLength]byte
	length int
	udp    *UDP
	dst    uint32 // IPv4 address of stream 0
}

func newHeader(f *Flow, src frame.MAC) header {
	h := header{udp: f.UDP}
	tagged := f.VID != 0 || f.PCP != 0
	if h.udp == nil {
		h.length = frame.PutHeader(h.bytes[:], f.Dst, src, f.VID, f.PCP, tagged, line.TestType)
		return h
	}
	h.length = frame.PutHeader(h.bytes[:], f.Dst, src, f.VID, f.PCP, tagged, frame.TypeIPv4)
	ip := h.bytes[h.length:]
	from, to := h.udp.Src.Addr().As4(), h.udp.Dst.Addr().As4()
	ip[0], ip[8], ip[9] = 4<<4|ipv4Length/4, timeToLive, protocolUDP
	copy(ip[12:], from[:])
	h.dst = binary.BigEndian.Uint32(to[:])
	binary.BigEndian.PutUint16(ip[ipv4Length+2:], h.udp.Dst.Port())
	h.length += ipv4Length + udpLength
	return h
}

// put writes the header of a frame of len(b) bytes and returns its length. UDP has no checksum,
// which RFC 768 allows over IPv4: the stamp has one.
func (h *header) put(b []byte, stream uint32) int {
	copy(b, h.bytes[:h.length])
	if h.udp == nil {
		return h.length
	}
	udp := b[h.length-udpLength:]
	ip := b[h.length-udpLength-ipv4Length:]
	be := binary.BigEndian
	be.PutUint16(ip[2:], uint16(len(ip)))
	be.PutUint32(ip[16:], h.dst+stream)
	be.PutUint16(ip[10:], headerChecksum(ip[:ipv4Length]))
	be.PutUint16(udp[0:], h.udp.Src.Port()+uint16(stream))
	be.PutUint16(udp[4:], uint16(len(udp)))
	return h.length
}

// testDatagram returns the payload of the UDP datagram in frame b if it begins like a test frame's
// stamp, else nil. sound reports whether the IPv4 header's checksum is correct.
func testDatagram(b []byte) (payload []byte, sound bool) {
	p := parsePacket(b)
	if p.version != 4 || !p.has(protocolUDP, udpLength) {
		return nil, false
	}
	udp := b[p.transport:p.end]
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if _, any := line.ReadFields(udp[udpLength:]); !any || length < udpLength+line.StampLength || length > len(udp) {
		return nil, false
	}
	ip := b[p.ip:p.transport]
	return udp[udpLength:length], headerChecksum(ip) == binary.BigEndian.Uint16(ip[10:])
}
