package line

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
	Magic       = 0x534c5549
	StampLength = 40
)

// MinSize and MaxSize bound a test frame, in bytes without FCS. MaxSize exceeds any jumbo frame in
// use.
const MinSize, MaxSize = 60, 10_000

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pieces is the number of offsets in the pattern at which a body may begin.
const pieces = 1024

// pattern contains all bodies. A comparison finds any change of a body, at a fraction of a
// checksum's cost.
var pattern = func() (p [MaxSize + pieces]byte) {
	x := uint64(Magic)
	for i := range p { // xorshift64 (Marsaglia, Xorshift RNGs, 2003)
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(x >> 32)
	}
	return p
}()

// Stamp is the data in a test frame.
type Stamp struct {
	Flow            uint32
	Seq             uint64
	Scheduled, Sent int64 // ns
}

// body returns the n bytes after the stamp.
func (s Stamp) body(n int) []byte {
	piece := (uint32(s.Seq) + 257*s.Flow) % pieces
	return pattern[piece : int(piece)+n]
}

// Put fills p, the payload up to the frame's end, of at least StampLength bytes.
func (s Stamp) Put(p []byte) {
	be := binary.BigEndian
	be.PutUint32(p[0:], Magic)
	be.PutUint32(p[4:], s.Flow)
	be.PutUint64(p[8:], s.Seq)
	be.PutUint64(p[16:], uint64(s.Scheduled))
	be.PutUint64(p[24:], uint64(s.Sent))
	be.PutUint32(p[32:], uint32(len(p)))
	be.PutUint32(p[36:], crc32.Checksum(p[:36], castagnoli))
	copy(p[StampLength:], s.body(len(p)-StampLength))
}

// zeros is the body of frames without a check.
var zeros [MaxSize]byte

// ReadStamp reads the stamp from payload p of a frame of size bytes. It returns false unless p is
// exactly what Put or a sender without a check writes. A frame that lost its tag may have been
// padded to MinSize again.
func ReadStamp(p []byte, size int) (s Stamp, ok bool) {
	be := binary.BigEndian
	if len(p) < StampLength || be.Uint32(p) != Magic {
		return s, false
	}
	length := int(be.Uint32(p[32:]))
	if length < StampLength || length > len(p) || length > MaxSize || length < len(p) && size > MinSize {
		return s, false
	}
	s.Flow = be.Uint32(p[4:])
	s.Seq = be.Uint64(p[8:])
	s.Scheduled = int64(be.Uint64(p[16:]))
	s.Sent = int64(be.Uint64(p[24:]))
	body := p[StampLength:length]
	switch be.Uint32(p[36:]) {
	case crc32.Checksum(p[:36], castagnoli):
		return s, bytes.Equal(body, s.body(len(body)))
	case 0:
		return s, bytes.Equal(body, zeros[:len(body)])
	}
	return s, false
}
