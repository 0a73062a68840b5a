package frame

import (
	"encoding/binary"
	"fmt"
	"net"
)

// MAC is a 48-bit address as a number, the first octet on the wire most significant, so that it
// compares, hashes and masks in one operation. The upper 16 bits are 0.
type MAC uint64

const (
	// Broadcast is the address of all stations.
	Broadcast MAC = 0xffff_ffff_ffff
	// BridgeGroup is the address to which bridges send BPDUs, 01-80-C2-00-00-00. IEEE 802.1Q calls
	// it the nearest customer bridge group address.
	BridgeGroup MAC = 0x0180_c200_0000
)

// ParseMAC reads an address in one of the usual forms: 02:00:5e:10:00:01, 02-00-5e-10-00-01 or
// 0200.5e10.0001.
func ParseMAC(s string) (MAC, error) {
	b, err := net.ParseMAC(s)
	if err != nil || len(b) != 6 {
		return 0, fmt.Errorf("%q is not a 48-bit MAC address: write it like 02:00:5e:10:00:01", s)
	}
	return MACFrom(b), nil
}

// MACFrom returns the address in the first 6 bytes of b.
func MACFrom(b []byte) MAC {
	_ = b[5]
	return MAC(binary.BigEndian.Uint32(b))<<16 | MAC(binary.BigEndian.Uint16(b[4:]))
}

// Put writes the address to the first 6 bytes of b.
func (m MAC) Put(b []byte) {
	_ = b[5]
	binary.BigEndian.PutUint32(b, uint32(m>>16))
	binary.BigEndian.PutUint16(b[4:], uint16(m))
}

// Bytes returns the octets in wire order.
func (m MAC) Bytes() (b [6]byte) {
	m.Put(b[:])
	return b
}

// String returns the address in the form 02:00:5e:10:00:01.
func (m MAC) String() string {
	b := m.Bytes()
	return net.HardwareAddr(b[:]).String()
}

// Group reports whether the address is a multicast or broadcast address: the first bit on the wire
// is set.
func (m MAC) Group() bool {
	return m&(1<<40) != 0
}

// Reserved reports whether the address is one of 01-80-C2-00-00-01 to -0F. A bridge forwards none
// of them (IEEE 802.1Q, table 8-1). BridgeGroup is in that table, too, but a bridge without a
// spanning tree has to forward BPDUs: otherwise bridges around it can't find loops through it.
func (m MAC) Reserved() bool { return m-BridgeGroup-1 < 0xf }

// OneLink reports whether the address is one of those that even a relay between two ports does not
// forward, a TPMR (IEEE 802.1Q, table 8-3): 01-80-C2-00-00-01 and -04 (MAC control), -02 (slow
// protocols such as LACP) and -0E (nearest bridge, such as LLDP).
func (m MAC) OneLink() bool {
	return m.Reserved() && (1<<0x1|1<<0x2|1<<0x4|1<<0xe)>>(m-BridgeGroup)&1 == 1
}
