package frame

import "encoding/binary"

// TagLength is the length of a VLAN tag, C-tag or S-tag, in bytes.
const TagLength = 4

// minLength is the shortest frame, in bytes without FCS (IEEE 802.3 clause 3.2.8).
const minLength = 60

// maxTags is how many tags Innermost reads.
const maxTags = 8

const (
	pcpShift = 13
	vidMask  = 1<<12 - 1
)

// Tagged reports whether the frame b has a complete 802.1Q tag, followed by a type.
func Tagged(b []byte) bool {
	return len(b) >= headerLength+TagLength && binary.BigEndian.Uint16(b[12:14]) == TypeVLAN
}

// Innermost returns the EtherType of the frame b, with the header h, behind all VLAN tags: C-tags,
// S-tags and those of TypeQinQ. It is 0 if a tag is cut off. ok is false if more than 8 tags follow
// the header.
func Innermost(b []byte, h *Header) (etherType uint16, ok bool) {
	etherType = h.Type
	at := int(h.Payload)
	for n := 0; etherType == TypeVLAN || etherType == TypeSTag || etherType == TypeQinQ; n++ {
		switch {
		case n == maxTags:
			return 0, false
		case len(b) < at+TagLength:
			return 0, true
		}
		etherType = binary.BigEndian.Uint16(b[at+2:])
		at += TagLength
	}
	return etherType, true
}

// Push inserts a tag. The frame is b[4:] before and b after: the addresses move to the front. It
// panics if b is shorter than 18 bytes. Excess bits of vid (over 12) and of pcp (over 3) are cut
// off.
func Push(b []byte, vid uint16, pcp uint8) {
	_ = b[headerLength+TagLength-1]
	dst, src := binary.BigEndian.Uint64(b[4:12]), binary.BigEndian.Uint32(b[12:16])
	binary.BigEndian.PutUint64(b[0:8], dst)
	binary.BigEndian.PutUint32(b[8:12], src)
	binary.BigEndian.PutUint32(b[12:16], TypeVLAN<<16|uint32(pcp&7)<<pcpShift|uint32(vid&vidMask))
}

// Pop removes the tag of the frame b and returns the offset in b at which the frame then begins; it
// ends with b. The addresses move 4 bytes back. If the frame would become shorter than Ethernet's
// 60 bytes, the part behind the tag moves forward instead and zeros follow it, so the frame begins
// and ends where it did. Without a tag Pop does nothing.
func Pop(b []byte) (start int) {
	if !Tagged(b) {
		return 0
	}
	if len(b) < minLength+TagLength {
		copy(b[12:], b[12+TagLength:])
		clear(b[len(b)-TagLength:])
		return 0
	}
	dst, src := binary.BigEndian.Uint64(b[0:8]), binary.BigEndian.Uint32(b[8:12])
	binary.BigEndian.PutUint64(b[4:12], dst)
	binary.BigEndian.PutUint32(b[12:16], src)
	return TagLength
}

// SetVID sets the VLAN in the tag of the frame b, if it has one. Excess bits (over 12) are cut off.
func SetVID(b []byte, vid uint16) {
	if Tagged(b) {
		tci := binary.BigEndian.Uint16(b[14:16])
		binary.BigEndian.PutUint16(b[14:16], tci&^vidMask|vid&vidMask)
	}
}

// SetPCP sets the priority in the tag of the frame b, if it has one. Excess bits (over 3) are cut
// off.
func SetPCP(b []byte, pcp uint8) {
	if Tagged(b) {
		b[14] = b[14]&0x1f | pcp<<5
	}
}
