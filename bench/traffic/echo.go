package traffic

import (
	"encoding/binary"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd"
)

const (
	typeARP                = 0x0806
	arpLength              = 28
	arpRequest, arpReply   = 1, 2
	icmpRequest, icmpReply = 8, 0
)

// arpEthernet is the start of an ARP packet for IPv4 on Ethernet (RFC 826): hardware type 1,
// protocol 0x0800, lengths 6 and 4.
const arpEthernet = 0x0001_0800_0604

// echo answers ARP requests for any IPv4 address and pings to any address. It answers nothing else.
type echo struct {
	line.Whole
	mac           frame.MAC
	counters      *Counters
	answers, rest []pmd.Desc // of one burst
}

func newEcho(l lane) rewriter {
	return &echo{Whole: line.NewWhole(l.memory), mac: l.src, counters: l.counters}
}

func (e *echo) rewrite(_ int64, burst []pmd.Desc) (send, drop []pmd.Desc) {
	e.answers, e.rest = e.answers[:0], e.rest[:0]
	for len(burst) > 0 {
		parts := burst[:line.Parts(burst)]
		burst = burst[len(parts):]
		if b := e.Frame(parts); e.answerARP(b) || e.answerPing(b) {
			e.Store(parts, b)
			e.answers = append(e.answers, parts...)
		} else {
			e.rest = append(e.rest, parts...)
			e.counters.Unanswered++
		}
	}
	return e.answers, e.rest
}

// answerARP turns an ARP request into the reply, whatever address it asks for.
func (e *echo) answerARP(b []byte) bool {
	var h frame.Header
	if frame.Parse(b, &h) != frame.OK || h.Type != typeARP {
		return false
	}
	arp := b[h.Payload:]
	if len(arp) < arpLength || binary.BigEndian.Uint64(arp) != arpEthernet<<16|arpRequest {
		return false
	}
	arp[7] = arpReply
	swap(arp[8:18], arp[18:28]) // sender's addresses, MAC and IPv4, and target's
	e.mac.Put(arp[8:])
	h.Src.Put(b[0:])
	e.mac.Put(b[6:])
	return true
}

// answerPing turns an unfragmented ICMP echo request into the reply. The reply to a request to a
// group comes from this port's MAC address, but from the group's IP address: the port has no other.
func (e *echo) answerPing(b []byte) bool {
	p := parsePacket(b)
	if p.version != 4 || !p.has(protocolICMP, echoLength) {
		return false
	}
	icmp := b[p.transport:p.end]
	if icmp[0] != icmpRequest || icmp[1] != 0 {
		return false
	}
	icmp[0] = icmpReply
	// The checksum increases by as much as the type decreases (RFC 1624, equation 3), so a wrong
	// checksum stays wrong.
	sum := uint64(^binary.BigEndian.Uint16(icmp[2:])) + (0xffff - icmpRequest<<8) + icmpReply<<8
	binary.BigEndian.PutUint16(icmp[2:], notZero(checksum(sum))) // in a message of zeros 0 would be wrong
	src, dst := p.addresses(b)
	swap(src, dst)
	toGroup := b[0]&1 != 0
	if swapMAC(b); toGroup {
		e.mac.Put(b[6:])
	}
	return true
}
