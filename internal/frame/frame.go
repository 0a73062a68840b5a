// Package frame reads and writes the headers of Ethernet frames: addresses, one VLAN tag, the
// EtherType, and the DSCP and ECN behind it. Frames are as an XDP program sees them, from the
// destination address on and without FCS. No function here allocates on the frame path.
package frame

import "encoding/binary"

// EtherTypes that the switch knows.
const (
	TypeIPv4       = 0x0800
	TypeVLAN       = 0x8100 // customer VLAN tag, C-tag, IEEE 802.1Q table 9-1
	TypeSTag       = 0x88a8 // service VLAN tag, S-tag, same table
	TypeQinQ       = 0x9100 // tag of bridges older than 802.1ad, outside the standards
	TypeIPv6       = 0x86dd
	TypeMACControl = 0x8808 // PAUSE and PFC, IEEE 802.3 clause 31
	TypeFCoE       = 0x8906
	TypeFIP        = 0x8914 // FCoE Initialization Protocol
	TypeLLDP       = 0x88cc
	TypeLoopback   = 0x9000 // Configuration Testing Protocol, of Ethernet version 2.0
)

// FCS is the length of the frame check sequence. WireOverhead is how many bytes a frame takes on
// the wire in addition to its own: preamble 8, FCS, gap 12.
const (
	FCS          = 4
	WireOverhead = 8 + FCS + 12
)

const (
	headerLength = 14 // bytes: two addresses and the EtherType
	reservedVID  = 4095
)

// Header is the part of a frame that the switch looks at.
type Header struct {
	Dst, Src MAC
	Type     uint16 // EtherType behind the C-tag; a value below 0x600 is the length of an 802.3 frame
	VID      uint16 // of the C-tag: 0 to 4094; 0 without a C-tag or if it has only a priority
	PCP      uint8  // 0 to 7, of the frame's first tag, C-tag or S-tag; 0 without one
	DEI      bool   // of the same tag
	Tagged   bool   // with a C-tag
	Payload  uint8  // offset of the first byte behind Type
}

// Problem is an error or a peculiarity of a frame's header.
type Problem uint8

// The results of Parse.
const (
	OK       Problem = iota
	Runt             // shorter than two addresses and a type
	BadTag           // the tag is truncated, or its VID is 4095, which is reserved (IEEE 802.1Q table 9-2)
	STagged          // it begins with an S-tag: to a bridge of C-VLANs it is untagged, whatever follows
	Problems         // how many there are
)

// String returns the name used in counters.
func (p Problem) String() string {
	switch p {
	case OK:
		return "ok"
	case Runt:
		return "runt"
	case BadTag:
		return "bad_tag"
	case STagged:
		return "s_tag"
	}
	panic("frame: no such problem")
}

// Parse reads the header of the frame b into h. It reads one C-tag; what follows, including a
// second tag, is type and payload. An S-tag in place of the C-tag is type and payload too, but
// Parse reads its priority and returns STagged. With any other result than that or OK, h is
// invalid.
func Parse(b []byte, h *Header) Problem {
	if len(b) < headerLength {
		return Runt
	}
	// Two overlapping loads of 8 bytes: destination and a part of the source, source and type.
	second := binary.BigEndian.Uint64(b[6:14])
	h.Dst = MAC(binary.BigEndian.Uint64(b[0:8]) >> 16)
	h.Src = MAC(second >> 16)
	if uint16(second) != TypeVLAN {
		h.Type, h.VID, h.PCP, h.DEI, h.Tagged, h.Payload = uint16(second), 0, 0, false, false, headerLength
		if h.Type == TypeSTag {
			return parseSTag(b, h)
		}
		return OK
	}
	if len(b) < headerLength+TagLength {
		return BadTag
	}
	tag := binary.BigEndian.Uint32(b[14:18]) // PCP 3 bits, DEI 1, VID 12 (IEEE 802.1Q clause 9.6), type 16
	vid := uint16(tag>>16) & 0xfff
	h.Type = uint16(tag)
	h.VID = vid
	h.PCP = uint8(tag >> 29)
	h.DEI = tag&(1<<28) != 0
	h.Tagged = true
	h.Payload = headerLength + TagLength
	if vid == reservedVID {
		return BadTag
	}
	return OK
}

// parseSTag reads the priority of the S-tag with which the frame b begins.
func parseSTag(b []byte, h *Header) Problem {
	if len(b) < headerLength+TagLength {
		return BadTag
	}
	tci := binary.BigEndian.Uint16(b[14:16])
	h.PCP, h.DEI = uint8(tci>>pcpShift), tci&(1<<12) != 0
	if tci&vidMask == reservedVID {
		return BadTag
	}
	return STagged
}

// PutHeader writes a header to b, with a tag if tagged is set, and returns its length, 14 or 18
// bytes: the offset of the payload. It panics if b is shorter. Excess bits of vid (over 12) and of
// pcp (over 3) are cut off.
func PutHeader(b []byte, dst, src MAC, vid uint16, pcp uint8, tagged bool, etherType uint16) int {
	n := headerLength
	if tagged {
		n += TagLength
		tci := uint32(pcp&7)<<13 | uint32(vid&0xfff)
		binary.BigEndian.PutUint32(b[12:16], TypeVLAN<<16|tci)
	}
	dst.Put(b[0:6])
	src.Put(b[6:12])
	binary.BigEndian.PutUint16(b[n-2:n], etherType)
	return n
}
