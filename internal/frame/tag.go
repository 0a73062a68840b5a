package frame

import "encoding/binary"

// TagLength is what a VLAN tag takes, a C-tag or an S-tag: bytes.
const TagLength = 4

// minLength is how long a frame is at least, in bytes without FCS (IEEE 802.3 clause 3.2.8).
const minLength = 60

const (
	pcpShift = 13
	vidMask  = 1<<12 - 1
)

// Tagged tells whether the frame b has a whole 802.1Q tag, with a type behind it.
func Tagged(b []byte) bool {
	return len(b) >= headerLength+TagLength && binary.BigEndian.Uint16(b[12:14]) == TypeVLAN
}

// Push puts a tag into a frame. The frame is b[4:] before and b after: the addresses move to the
// front. It panics if b is shorter than 18 bytes. Bits of vid beyond 12 and of pcp beyond 3 are cut
// off.
func Push(b []byte, vid uint16, pcp uint8) {
	_ = b[headerLength+TagLength-1]
	dst, src := binary.BigEndian.Uint64(b[4:12]), binary.BigEndian.Uint32(b[12:16])
	binary.BigEndian.PutUint64(b[0:8], dst)
	binary.BigEndian.PutUint32(b[8:12], src)
	binary.BigEndian.PutUint32(b[12:16], TypeVLAN<<16|uint32(pcp&7)<<pcpShift|uint32(vid&vidMask))
}

// Pop takes the tag out of the frame b and returns at which offset in b the frame then begins; it
// ends with b. The addresses move 4 bytes back. But in a frame that would become shorter than
// Ethernet's 60 bytes what is behind the tag moves instead, with as many zeros behind it: such a
// frame begins and ends where it did. Without a tag nothing happens.
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

// SetVID changes the VLAN in the tag of the frame b, if there is one. Bits beyond 12 are cut off.
func SetVID(b []byte, vid uint16) {
	if Tagged(b) {
		tci := binary.BigEndian.Uint16(b[14:16])
		binary.BigEndian.PutUint16(b[14:16], tci&^vidMask|vid&vidMask)
	}
}

// SetPCP changes the priority in the tag of the frame b, if there is one. Bits beyond 3 are cut
// off.
func SetPCP(b []byte, pcp uint8) {
	if Tagged(b) {
		b[14] = b[14]&0x1f | pcp<<5
	}
}
