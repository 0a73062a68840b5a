package live

import (
	"encoding/binary"

	"sluice/internal/frame"
	"sluice/pmd/xdprun"
)

// A test frame has the EtherType and stamp of package host (see its testframe.go). After the
// EtherType follow, big-endian: magic 4, flow 4, sequence 8, scheduled 8, sent 8, length 4 (from
// the magic to the end of the frame), check 4 bytes.
const (
	testType = 0x88b5
	magic    = 0x534c5549

	magicAt     = 0
	flowAt      = 4
	sequenceAt  = 8
	scheduledAt = 16
	sentAt      = 24
	lengthAt    = 32
	stampLength = 40

	typeAt     = 12 // of a frame without a tag
	headerMost = 18 // bytes before the stamp, with a tag; 14 without
	tagLength  = 4
)

// template returns the constant parts of a flow's frames: the header with the stamp's magic and
// flow, the length of the header, and the last 8 bytes of the stamp, length and check.
func (f *Flow) template() (front [frontWords * xdprun.WordSize]byte, header int, back [stampLength - lengthAt]byte) {
	be := binary.BigEndian
	header = frame.PutHeader(front[:], f.Dst, f.Src, f.VID, f.PCP, f.VID != 0 || f.PCP != 0, testType)
	be.PutUint32(front[header+magicAt:], magic)
	be.PutUint32(front[header+flowAt:], f.ID)
	be.PutUint32(back[:], uint32(f.Size-header))
	return front, header, back
}

// TestFrame is a frame of a flow for senders other than a Generator.
type TestFrame struct {
	Bytes []byte
	stamp []byte // the part of Bytes that is the stamp
}

// NewFrame writes a frame, which needs a Stamp, into the first Size bytes of b.
func (f *Flow) NewFrame(b []byte) TestFrame {
	front, header, back := f.template()
	b = b[:f.Size]
	clear(b)
	copy(b, front[:])
	copy(b[header+lengthAt:], back[:])
	return TestFrame{Bytes: b, stamp: b[header : header+stampLength]}
}

// Stamp writes the sequence number, and the times in ns at which the frame should have been sent
// and is sent.
func (t *TestFrame) Stamp(seq uint64, scheduled, sent int64) {
	be := binary.BigEndian
	be.PutUint64(t.stamp[sequenceAt:], seq)
	be.PutUint64(t.stamp[scheduledAt:], uint64(scheduled))
	be.PutUint64(t.stamp[sentAt:], uint64(sent))
}
