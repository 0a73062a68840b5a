package line

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// TestType is the EtherType of test frames: IEEE 802's first for local experiments (IEEE 802,
// 9.2.3).
const TestType = 0x88b5

// Magic begins the payload of a test frame: "SLUI".
const Magic = 0x534c5549

// A test frame's payload, big-endian, begins right behind the EtherType. These are the offsets of
// its fields. Behind the stamp follows the body: a piece of a pseudo-random pattern; which piece
// depends on flow and sequence.
//
// A sender without time to compute them, such as package live, sets check and body to 0. Damage to
// the stamp then goes undetected.
//
// The check does not cover addresses and tags, since switches and testpmd's modes may change them.
const (
	MagicAt     = 0
	FlowAt      = 4
	SequenceAt  = 8  // from 0 on, one higher with each frame of the flow
	ScheduledAt = 16 // ns, when the frame should have gone by the flow's rate
	SentAt      = 24 // ns, when it was handed to the port
	LengthAt    = 32 // bytes from the magic to the end of the frame, in 4 bytes
	checkAt     = 36 // CRC-32C of the bytes before
	StampLength = 40

	FieldsLength = LengthAt // of the fields that Stamp has, with the magic
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

// Body returns the n bytes after the stamp.
func (s Stamp) Body(n int) []byte {
	piece := (uint32(s.Seq) + 257*s.Flow) % pieces
	return pattern[piece : int(piece)+n]
}

// Put fills p, the payload up to the frame's end, of at least StampLength bytes.
func (s Stamp) Put(p []byte) {
	s.PutFields(p)
	be := binary.BigEndian
	be.PutUint32(p[LengthAt:], uint32(len(p)))
	be.PutUint32(p[checkAt:], crc32.Checksum(p[:checkAt], castagnoli))
	copy(p[StampLength:], s.Body(len(p)-StampLength))
}

// PutFields writes the first FieldsLength bytes of p.
func (s Stamp) PutFields(p []byte) {
	be := binary.BigEndian
	be.PutUint32(p[MagicAt:], Magic)
	be.PutUint32(p[FlowAt:], s.Flow)
	be.PutUint64(p[SequenceAt:], s.Seq)
	be.PutUint64(p[ScheduledAt:], uint64(s.Scheduled))
	be.PutUint64(p[SentAt:], uint64(s.Sent))
}

// ReadFields reads the first FieldsLength bytes of p. It returns false if they are not there or
// begin with another magic.
func ReadFields(p []byte) (s Stamp, ok bool) {
	be := binary.BigEndian
	if len(p) < FieldsLength || be.Uint32(p[MagicAt:]) != Magic {
		return s, false
	}
	return Stamp{Flow: be.Uint32(p[FlowAt:]), Seq: be.Uint64(p[SequenceAt:]),
		Scheduled: int64(be.Uint64(p[ScheduledAt:])), Sent: int64(be.Uint64(p[SentAt:]))}, true
}

// zeros is the body of frames without a check.
var zeros [MaxSize]byte

// ReadStamp reads the stamp from payload p of a frame of size bytes. It returns false unless p is
// exactly what Put or a sender without a check writes. A frame that lost its tag may have been
// padded to MinSize again.
func ReadStamp(p []byte, size int) (s Stamp, ok bool) {
	if s, ok = ReadFields(p); !ok || len(p) < StampLength {
		return s, false
	}
	be := binary.BigEndian
	length := int(be.Uint32(p[LengthAt:]))
	if length < StampLength || length > len(p) || length > MaxSize || length < len(p) && size > MinSize {
		return s, false
	}
	body := p[StampLength:length]
	switch be.Uint32(p[checkAt:]) {
	case crc32.Checksum(p[:checkAt], castagnoli):
		return s, bytes.Equal(body, s.Body(len(body)))
	case 0:
		return s, bytes.Equal(body, zeros[:len(body)])
	}
	return s, false
}
