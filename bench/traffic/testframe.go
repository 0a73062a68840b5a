package traffic

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// TestType is the EtherType of test frames: IEEE 802's first for local experiments (IEEE 802,
// 9.2.3).
const TestType = 0x88b5

// A test frame's payload, big-endian, begins right behind the EtherType:
//
//	 0  magic      4  "SLUI"
//	 4  flow       4
//	 8  sequence   8  from 0 on, one higher with each frame of the flow
//	16  scheduled  8  ns, when the frame should have gone by the flow's rate
//	24  sent       8  ns, when it was handed to the port
//	32  length     4  bytes from the magic to the end of the frame
//	36  check      4  CRC-32C of the 36 bytes before
//	40  body          a piece of a pseudo-random pattern; which piece depends on flow and sequence
//
// A sender without time to compute them, such as package live, sets check and body to 0. Damage to
// the stamp then goes undetected.
//
// The check does not cover addresses and tags, since switches and testpmd's modes may change them.
const (
	magic       = 0x534c5549
	stampLength = 40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pieces is the number of offsets in the pattern at which a body may begin.
const pieces = 1024

// pattern contains all bodies. A comparison finds any change of a body, at a fraction of a
// checksum's cost.
var pattern = func() (p [MaxSize + pieces]byte) {
	x := uint64(magic)
	for i := range p { // xorshift64 (Marsaglia, Xorshift RNGs, 2003)
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(x >> 32)
	}
	return p
}()

// stamp is the data in a test frame.
type stamp struct {
	flow            uint32
	seq             uint64
	scheduled, sent int64 // ns
}

// body returns the n bytes after the stamp.
func (s *stamp) body(n int) []byte {
	piece := (uint32(s.seq) + 257*s.flow) % pieces
	return pattern[piece : int(piece)+n]
}

// putStamp fills p, the payload up to the frame's end, of at least stampLength bytes.
func putStamp(p []byte, s stamp) {
	be := binary.BigEndian
	be.PutUint32(p[0:], magic)
	be.PutUint32(p[4:], s.flow)
	be.PutUint64(p[8:], s.seq)
	be.PutUint64(p[16:], uint64(s.scheduled))
	be.PutUint64(p[24:], uint64(s.sent))
	be.PutUint32(p[32:], uint32(len(p)))
	be.PutUint32(p[36:], crc32.Checksum(p[:36], castagnoli))
	copy(p[stampLength:], s.body(len(p)-stampLength))
}

// zeros is the body of frames without a check.
var zeros [MaxSize]byte

// readStamp reads the stamp from payload p of a frame of size bytes. It returns false unless p is
// exactly what putStamp or a sender without a check writes. A frame that lost its tag may have been
// padded to MinSize again.
func readStamp(p []byte, size int, s *stamp) bool {
	be := binary.BigEndian
	if len(p) < stampLength || be.Uint32(p) != magic {
		return false
	}
	length := int(be.Uint32(p[32:]))
	if length < stampLength || length > len(p) || length > MaxSize || length < len(p) && size > MinSize {
		return false
	}
	s.flow = be.Uint32(p[4:])
	s.seq = be.Uint64(p[8:])
	s.scheduled = int64(be.Uint64(p[16:]))
	s.sent = int64(be.Uint64(p[24:]))
	body := p[stampLength:length]
	switch be.Uint32(p[36:]) {
	case crc32.Checksum(p[:36], castagnoli):
		return bytes.Equal(body, s.body(len(body)))
	case 0:
		return bytes.Equal(body, zeros[:len(body)])
	}
	return false
}
